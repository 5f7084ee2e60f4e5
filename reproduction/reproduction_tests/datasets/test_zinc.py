"""Molecules: atoms, bonds, scaffolds and targets of known ones, and clients whose scaffolds grow."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.datasets.zinc import (
    RAW_FILE,
    atom_types,
    bonds,
    parse_smiles,
    scaffold,
    solubility_terms,
    standardised_sum,
    zinc,
)
from fgl_secure.errors import DataNotFoundError, InputError
from tests.error_codes import about

with_rdkit = pytest.mark.usefixtures("rdkit")


@pytest.fixture
def rdkit() -> None:
    """RDKit, or the test is left out."""
    pytest.importorskip("rdkit", reason="needs the extra 'molecules'")


def _raw(root: Path, lines: list[str]) -> Path:
    (root / RAW_FILE).parent.mkdir(parents=True)
    (root / RAW_FILE).write_bytes(gzip.compress("\n".join(lines).encode()))
    return root


def test_terms_are_standardised_before_they_are_added() -> None:
    """Each term has mean 0 and deviation 1 in the sum, and one that never changes counts as 0."""
    terms = np.array([[1.0, 10.0, 5.0], [3.0, 30.0, 5.0]])
    assert standardised_sum(terms).tolist() == [-2.0, 2.0]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    """Without a data root, with one that lacks the file, and with one where it is not gzipped."""
    for root in (None, tmp_path):
        with pytest.raises(DataNotFoundError, check=about("data_root")):
            zinc(0, root)
    _raw(tmp_path, ["C"])
    with pytest.raises(InputError, check=about("graphs")):
        zinc(0, tmp_path)
    (tmp_path / RAW_FILE).write_text("CCO\n")
    with pytest.raises(InputError, match="must be gzipped text; it can't be read"):
        zinc(0, tmp_path)


@with_rdkit
def test_a_known_molecule() -> None:
    """Toluene: seven carbons, seven bonds in both directions, and benzene as scaffold."""
    toluene = parse_smiles("Cc1ccccc1")
    assert atom_types(toluene).tolist() == [1] * 7
    found = bonds(toluene)
    edges, types = found[:2], found[2]
    assert edges.shape == (2, 14)
    assert np.bincount(types).tolist() == [2, 0, 0, 12]  # one single bond and six aromatic ones
    assert set(map(tuple, edges.T.tolist())) == set(map(tuple, edges[::-1].T.tolist()))
    assert scaffold(toluene) == (6, "c1ccccc1")
    assert scaffold(parse_smiles("CCO")) == (0, "")


@with_rdkit
def test_charges_and_rare_elements_have_types_of_their_own() -> None:
    """Plain, positive and negative nitrogen are types 4, 5 and 3; selenium is the last type."""
    nitro = parse_smiles("C[N+](=O)[O-]")
    assert atom_types(nitro).tolist() == [1, 5, 7, 6]
    assert atom_types(parse_smiles("C[Se]C")).tolist() == [1, 27, 1]
    assert bonds(parse_smiles("C")).shape == (3, 0)


@with_rdkit
def test_terms_are_signed_so_that_more_is_more_soluble_in_oil() -> None:
    """Longer chains have a higher logP, a cyclooctane has a ring penalty of two, and the SA score counts against."""
    assert solubility_terms(parse_smiles("CCCCCCCC"))[0] > solubility_terms(parse_smiles("CCO"))[0]
    assert solubility_terms(parse_smiles("C1CCCCCCC1"))[2] == -2
    assert solubility_terms(parse_smiles("c1ccccc1"))[2] == 0
    assert solubility_terms(parse_smiles("c1ccccc1"))[1] < 0


@with_rdkit
def test_lines_that_are_no_molecule_are_refused() -> None:
    with pytest.raises(InputError, check=about("a line")):
        parse_smiles("C1CC")


@with_rdkit
def test_scaffolds_grow_from_client_to_client(tmp_path: Path) -> None:
    """Ten clients with ten molecules each, values as targets, types as features, and skeletons that never shrink."""
    smiles = [f"{'C' * tail}C1{'C' * ring}C1" for ring in range(1, 21) for tail in range(20)]
    sets = zinc(0, _raw(tmp_path, smiles), graphs=10)
    assert (sets.num_clients, sets.num_graphs, sets.num_classes, sets.node_types) == (10, 100, 0, True)
    assert float(sets.targets.mean()) == pytest.approx(0, abs=1e-5)
    rings = [[_ring(sets.batch([graph]).edges) for graph in sets.graphs_of(client)] for client in range(10)]
    assert all(max(rings[client]) <= min(rings[client + 1]) for client in range(9))
    np.testing.assert_array_equal(sets.targets, zinc(0, tmp_path, graphs=10).targets)


def _ring(edges: np.ndarray) -> int:
    """Nodes of the one ring of a molecule: what is left when leaves fall off until none is left."""
    left = edges
    while len(left[0]) and (degree := np.bincount(left[1])).min(initial=2, where=degree > 0) < 2:
        left = left[:, (degree[left[0]] > 1) & (degree[left[1]] > 1)]
    return len(np.unique(left))
