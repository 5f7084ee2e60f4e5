"""ZINC with scaffold shift: molecules whose skeleton is another at each client, and how soluble they are.

Written from the description of GOOD-ZINC (Gui et al., NeurIPS 2022): the 250,000 molecules of Gomez-Bombarelli et al.
(2018), the constrained solubility as target, domains by Bemis-Murcko scaffold, ten training environments.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.datasets.published_sets import cached_set, gunzip, optional_library
from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.datasets import GraphSetDataset
from fgl_secure.graph.graph_sets import GraphSet, client_split
from fgl_secure.graph.own_files import DATA_VARIABLE
from fgl_secure.graph.partition import seeded_generator

ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I")
OTHER = 3 * len(ELEMENTS)
"""The type of an atom of another element or with a charge beyond -1, 0, 1. There are 28 types, as in PyG's ZINC."""

_LARGE_RING = 6


def parse_smiles(smiles: str) -> Any:
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


BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
"""Types of bonds; any other one has the next number."""


def bonds(molecule: Any) -> NDArray[np.int64]:
    """The bonds in both directions, int64 [3, m]: sources, targets, and types 0..4."""
    rows = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), (*BONDS, kind).index(kind))
        for bond in molecule.GetBonds()
        for kind in [str(bond.GetBondType())]
    ]
    one_way = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return np.concatenate([one_way, one_way[[1, 0, 2]]], axis=1)


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
    return optional_library(module, "molecules", "ZINC")


RAW_FILE = "ZINC/raw/250k_rndm_zinc_drugs_clean.smi.gz"
CLIENTS = 10
TRAINING_SHARE = 0.8
"""The share of molecules, by order of scaffolds, that GOOD's covariate shift trains on; the rest is out of distribution
there, and left out here."""
POOL = 4
"""So many molecules are drawn for each that is kept, so that scaffolds spread as in the whole file."""


def zinc(seed: int, data_root: Path | None, graphs: int = 1000, validation: float = 0.1) -> GraphSet:
    """Draw molecules, order them by scaffold, and deal the order to ten clients.

    Scaffolds are ordered by their number of atoms and then by name; the first 80 % are cut into ten equal stretches,
    one a client, of which `graphs` molecules are drawn. A scaffold at a cut is at two clients. The target is logP minus
    SA score minus ring penalty, each standardised over the drawn molecules, as for PyTorch Geometric's ZINC. A node's
    one feature is the type of its atom, an edge's type that of its bond.

    Args:
        seed: Repeats the draw and the split, under one version of RDKit.
        data_root: Holds ZINC/raw/250k_rndm_zinc_drugs_clean.smi.gz.
        graphs: Graphs a client, 10 or more.
        validation: Share of a client's graphs that choose the model, 0 to 0.7; 20 % test it and the rest train it.

    Raises:
        DataNotFoundError: The file is not there.
        InputError: RDKit is not installed, the file is damaged, or an argument is out of range.
    """
    lines = _lines(data_root)
    most = len(lines) // (CLIENTS * POOL)
    if not 10 <= graphs <= most:
        raise InputError(f"graphs must be in 10..{most} a client; found {graphs}")
    draw = seeded_generator(seed)
    pool = [parse_smiles(lines[line]) for line in draw.permutation(len(lines))[: graphs * CLIENTS * POOL]]
    skeletons = [scaffold(molecule) for molecule in pool]
    order = sorted(range(len(pool)), key=skeletons.__getitem__)
    stretches = np.array_split(np.array(order[: round(TRAINING_SHARE * len(order))]), CLIENTS)
    chosen = np.concatenate([draw.permutation(stretch)[:graphs] for stretch in stretches])
    molecules = [pool[molecule] for molecule in chosen]
    client_of = np.repeat(np.arange(CLIENTS), graphs)
    types = [atom_types(molecule) for molecule in molecules]
    sizes = np.array([len(own) for own in types])
    first = np.cumsum(sizes) - sizes
    joined = [
        bonds(molecule) + np.array([[start], [start], [0]]) for molecule, start in zip(molecules, first, strict=True)
    ]
    edges = np.concatenate(joined, axis=1)
    return GraphSet.from_arrays(
        "ZINC",
        np.concatenate(types)[:, None],
        edges[:2],
        np.repeat(np.arange(len(sizes)), sizes),
        standardised_sum(np.array([solubility_terms(molecule) for molecule in molecules])),
        client_of,
        client_split(client_of, draw, validation),
        "scaffold",
        node_types=True,
        edge_types=edges[2],
    )


def standardised_sum(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bring each column to mean 0 and, where it varies, deviation 1, and add them: [g] of float64 [g, terms]."""
    deviation = terms.std(axis=0)
    total: NDArray[np.float64] = ((terms - terms.mean(axis=0)) / np.where(deviation > 0, deviation, 1)).sum(axis=1)
    return total


def _lines(root: Path | None) -> list[str]:
    file = None if root is None else root / RAW_FILE
    if file is None or not file.is_file():
        raise DataNotFoundError(
            f"data_root must hold {RAW_FILE}, the molecules of Gomez-Bombarelli et al. (2018), one SMILES a line; not "
            f"there. Give data_root or set {DATA_VARIABLE}"
        )
    try:
        return gunzip(file, "gzipped text").decode("ascii").split()
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name} must be gzipped text; it can't be read ({error})") from None


ZINC = GraphSetDataset(
    "ZINC",
    "solubility of molecules, skeletons by client; needs RDKit",
    partial(cached_set, "ZINC", zinc),
    clients=10,
    graphs=1000,
    features=1,
    classes=0,
    shift="scaffold",
)
