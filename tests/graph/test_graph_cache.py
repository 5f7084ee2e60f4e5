"""The graph cache: what was written comes back, and what was damaged doesn't."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph, load
from fgl_secure.graph.raw_files import CACHE_VARIABLE, cache_folder, read_graph, write_graph
from tests.error_codes import about
from tests.graph.strategies import Edge, graph_from_pairs, pairs


def _assert_equal(found: Graph, wanted: Graph) -> None:
    np.testing.assert_array_equal(found.features, wanted.features)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_array_equal(found.edges, wanted.edges)


@given(pairs())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, example: tuple[int, list[Edge]]) -> None:
    """A graph that was written is read back equal, under the name that the reader gives it."""
    entry = tmp_path_factory.mktemp("cache") / "made" / "entry.npz"
    graph = graph_from_pairs(*example)
    write_graph(entry, graph)
    found = read_graph(entry, "another")
    assert found is not None
    assert found.name == "another"
    _assert_equal(found, graph)
    assert [path.name for path in entry.parent.iterdir()] == ["entry.npz"]


def test_round_trip_keeps_zeros_and_negative_features(tmp_path: Path) -> None:
    """Features that are zero, negative or tiny come back bit for bit, although they are stored as a sparse matrix."""
    features = np.array([[0.0, -1.5, 1e-40], [0.0, 0.0, 0.0]], dtype=np.float32)
    write_graph(tmp_path / "entry.npz", Graph.from_arrays("g", features, [0, 3], np.empty((2, 0), dtype=int)))
    found = read_graph(tmp_path / "entry.npz", "g")
    assert found is not None
    np.testing.assert_array_equal(found.features, features)


def test_any_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """An entry with one wrong byte is read as the right graph or not at all, whichever byte it is."""
    entry = tmp_path / "entry.npz"
    graph = graph_from_pairs(6, [(0, 1), (1, 2), (5, 0)])
    write_graph(entry, graph)
    whole = entry.read_bytes()
    refused = 0
    for position in range(len(whole)):
        entry.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        found = read_graph(entry, "small")
        refused += found is None
        if found is not None:
            _assert_equal(found, graph)
    assert refused > len(whole) // 2


def test_absent_and_foreign_files_count_as_absent(tmp_path: Path) -> None:
    """A missing file, a pickle, an archive of other arrays and a folder are all no graph."""
    (tmp_path / "pickle").write_bytes(pickle.dumps({"values": 1}))
    np.savez(tmp_path / "other.npz", values=np.ones(3))
    for entry in ("missing", "pickle", "other.npz", "."):
        assert read_graph(tmp_path / entry, "g") is None


def test_a_user_without_a_home_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: nothing is written, least of all into a folder called ~; a folder under ~ is refused."""

    def unknown(_user: int) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    graph = load("digits")
    write_graph(cache_folder() / "graph.npz", graph)
    assert read_graph(cache_folder() / "graph.npz", "digits") is None
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(CACHE_VARIABLE, "~/cache")
    with pytest.raises(InputError, check=about("FGL_SECURE_CACHE")):
        cache_folder()
