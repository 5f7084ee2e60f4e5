"""Files from elsewhere are checked before compiled code reads them, and private files are their owner's alone."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.graph import Graph
from fgl_secure.private_files import read_private, write_private
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import matrix_arrays, matrix_from
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities(devices=40, silos=4)


def outside(kind: str) -> Any:
    """A user's sparse matrix that has an index outside of itself."""
    matrix = scipy.sparse.eye_array(5000, format=kind)
    (matrix.coords[1] if kind == "coo" else matrix.indices)[7] = 2**30
    return matrix


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
def test_sparse_features_with_indices_outside_are_refused(kind: str) -> None:
    """Of every kind of sparse matrix that has indices of its own."""
    with pytest.raises(InputError, check=about("features")):
        Graph.from_arrays("g", outside(kind), np.zeros(5000, dtype=int), [[0], [1]])


@pytest.mark.parametrize(("name", "place", "value"), [("columns", 3, 2**40), ("starts", 2, 2**40), ("shape", 1, 2)])
def test_a_matrix_of_a_state_with_indices_outside_is_refused(name: str, place: int, value: int) -> None:
    """States are read from files."""
    arrays = matrix_arrays(scipy.sparse.eye_array(5, format="csr"))
    assert (matrix_from(arrays).toarray() == np.eye(5)).all()
    arrays[name][place] = value
    with pytest.raises(MalformedMessageError, check=about("matrix of a state")):
        matrix_from(arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("foreign", lambda table: np.c_[table[:, :1], np.full(len(table), 4), table[:, 2]]),
        ("foreign", lambda table: np.c_[table[:, :1], np.full(len(table), -1), table[:, 2]]),
        ("foreign", lambda table: np.c_[table[:, :2], np.full(len(table), 2**40)]),
        ("foreign", lambda table: np.c_[table[:, :2], np.full(len(table), -1)]),
        ("foreign", lambda table: table[::-1]),
        ("nodes", lambda nodes: nodes[::-1]),
        ("labels", lambda labels: labels - 1),
        ("labels", lambda labels: labels + 2**40),
    ],
)
def test_a_silos_file_with_indices_outside_is_refused(name: str, change: Callable[[Any], Any], tmp_path: Path) -> None:
    """Places that no silo has, labels that no class has, and numbers out of order, which searches rely on."""
    share, bad = Silo.of(GRAPH, 1), object.__new__(Silo)
    for field in ("facts", "silo", *(set(Silo.__slots__) - {"facts", "silo"})):
        object.__setattr__(bad, field, getattr(share, field))
    object.__setattr__(bad, name, change(getattr(share, name)))
    bad.save(tmp_path / "silo")
    with pytest.raises(InputError):
        Silo.load(tmp_path / "silo")
    with pytest.raises(InputError):
        replace(share, **{name: change(getattr(share, name))})


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.lstat().st_mode) for each in folder.iterdir()}


def test_a_silos_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Mode 0600 whatever was there before; a link is replaced and what it leads to stays; nothing is left over."""
    share, elsewhere, folder = Silo.of(GRAPH, 1), tmp_path / "elsewhere", tmp_path / "shares"
    folder.mkdir()
    elsewhere.write_bytes(b"untouched")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "there").write_bytes(b"old")
    (folder / "there").chmod(0o644)
    for name in ("linked", "there", "new"):
        share.save(folder / name)
        assert np.array_equal(Silo.load(folder / name).nodes, share.nodes)
    assert modes(folder) == dict.fromkeys(("linked", "there", "new"), 0o600)
    assert elsewhere.read_bytes() == b"untouched"
    with pytest.raises(InputError, check=about("path")):
        share.save(tmp_path / "nowhere" / "silo")


def test_private_files_are_read_by_no_link(tmp_path: Path) -> None:
    """A state is read from a plain file, or refused; a failure to write leaves the old one."""
    place, link = tmp_path / "state", tmp_path / "link"
    assert read_private(place) is None
    write_private(place, b"one")
    assert read_private(place) == b"one"
    link.symlink_to(place)
    for other in (link, tmp_path):
        with pytest.raises(InputError, check=about("path")):
            read_private(other)
    with pytest.raises(InputError):
        write_private(tmp_path, b"two")
    assert read_private(place) == b"one"
    assert sorted(modes(tmp_path)) == ["link", "state"]
