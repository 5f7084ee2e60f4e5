"""Molecules as graphs, through RDKit: atoms, bonds, scaffolds, and the solubility score of the ZINC benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.optional import optional

ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I")
OTHER = 3 * len(ELEMENTS)
"""The type of an atom of another element or with a charge beyond -1, 0, 1. There are 28 types, as in PyG's ZINC."""

_LARGE_RING = 6


def parsed(smiles: str) -> Any:
    """The molecule that a SMILES string names.

    Raises:
        InputError: It names none.
    """
    molecule = _rdkit("rdkit.Chem").MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumAtoms():
        raise InputError(f"a line must name one molecule in SMILES; found {smiles!r}")
    return molecule


def scaffold(molecule: Any) -> tuple[int, str]:
    """The Bemis-Murcko scaffold, its rings and what joins them: its number of atoms and its SMILES.

    A molecule without rings has the empty scaffold, (0, "").
    """
    skeleton = _rdkit("rdkit.Chem.Scaffolds.MurckoScaffold").GetScaffoldForMol(molecule)
    return skeleton.GetNumAtoms(), _rdkit("rdkit.Chem").MolToSmiles(skeleton)


def atom_types(molecule: Any) -> NDArray[np.int64]:
    """A number 0..27 for the element and the charge of each atom, int64 [n]."""
    types = [
        3 * ELEMENTS.index(atom.GetSymbol()) + atom.GetFormalCharge() + 1
        if atom.GetSymbol() in ELEMENTS and abs(atom.GetFormalCharge()) <= 1
        else OTHER
        for atom in molecule.GetAtoms()
    ]
    return np.array(types, dtype=np.int64)


def bonds(molecule: Any) -> NDArray[np.int64]:
    """The bonds in both directions, int64 [2, m]."""
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    one_way = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([one_way, one_way[::-1]], axis=1)


def solubility_terms(molecule: Any) -> tuple[float, float, float]:
    """The terms of the penalised logP (Kusner et al. 2017): logP, minus SA score, minus atoms of large rings above 6.

    The first is Crippen's octanol-water partition coefficient, the second is how hard the molecule is to make (Ertl and
    Schuffenhauer 2009), the third is how much larger than six the largest ring is.
    """
    largest = max((len(ring) for ring in molecule.GetRingInfo().AtomRings()), default=0)
    return (
        float(_rdkit("rdkit.Chem.Crippen").MolLogP(molecule)),
        -float(_rdkit("rdkit.Contrib.SA_Score.sascorer").calculateScore(molecule)),
        -float(max(0, largest - _LARGE_RING)),
    )


def _rdkit(module: str) -> Any:
    return optional(module, "molecules", "ZINC")
