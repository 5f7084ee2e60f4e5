"""Photo, CS, Physics and DBLP: the graph of an .npz file of plain arrays, and errors for any other file."""

from __future__ import annotations

import functools
import http.server
import pickle
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import Graph, load
from fgl_secure.graph.raw_files import CACHE_VARIABLE, cache_folder, read_graph, write_graph
from tests.error_codes import about
from tests.graph.strategies import Edge, graph_from_pairs, pairs

FILES: Mapping[str, Path] = MappingProxyType(
    {
        "Photo": Path("Amazon") / "Photo" / "raw" / "amazon_electronics_photo.npz",
        "CS": Path("Coauthor") / "CS" / "raw" / "ms_academic_cs.npz",
        "Physics": Path("Coauthor") / "Physics" / "raw" / "ms_academic_phy.npz",
        "DBLP": Path("CitationFull") / "dblp" / "raw" / "dblp.npz",
    }
)

every_archive = pytest.mark.parametrize("name", list(FILES))


def arrays() -> dict[str, NDArray[np.generic]]:
    """Three nodes with edges 0 -> 1, 1 -> 0, 1 -> 2 and a self-loop at 2; features 0.5 and 2 among zeros."""
    return {
        "adj_data": np.ones(4, dtype=np.float32),
        "adj_indices": np.array([1, 0, 2, 2], dtype=np.int32),
        "adj_indptr": np.array([0, 1, 3, 4], dtype=np.int32),
        "adj_shape": np.array([3, 3]),
        "attr_data": np.array([0.5, 2.0], dtype=np.float32),
        "attr_indices": np.array([0, 1], dtype=np.int32),
        "attr_indptr": np.array([0, 1, 1, 2], dtype=np.int32),
        "attr_shape": np.array([3, 2]),
        "labels": np.array([0, 1, 1]),
        "class_names": np.array(["lens", "film"]),
    }


def written(root: Path, name: str, **changed: NDArray[np.generic]) -> Path:
    (root / FILES[name]).parent.mkdir(parents=True)
    np.savez(root / FILES[name], **{**arrays(), **changed})  # type: ignore[arg-type]  # stubs for allow_pickle only
    return root


@every_archive
def test_raw_file_becomes_the_graph_twice(name: str, tmp_path: Path) -> None:
    """Edges go both ways, features are 0 or 1, and the cached graph is the parsed one."""
    root = written(tmp_path / "root", name)
    for _ in range(2):
        graph = load(name.lower(), root, tmp_path / "cache")
        assert graph.name == name
        assert graph.edges.T.tolist() == [[1, 0], [0, 1], [2, 1], [1, 2]]
        assert graph.features.tolist() == [[1, 0], [0, 0], [0, 1]]
        assert graph.labels.tolist() == [0, 1, 1]
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1


@every_archive
def test_missing_file_is_named_with_the_way_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, check=about("data_root")):
        load(name, tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": np.array([0, "one", None], dtype=object)},
        {"adj_indices": np.array([1, 0, 2, 7], dtype=np.int32)},
        {"attr_indices": np.array([0, -1], dtype=np.int32)},
        {"labels": np.array([0, 1])},
    ],
    ids=["objects", "column outside", "negative column", "too few labels"],
)
def test_damaged_files_are_refused(tmp_path: Path, changed: dict[str, NDArray[np.generic]]) -> None:
    """Objects that would have to be unpickled and indices outside of the matrix are refused."""
    root = written(tmp_path / "root", "Photo", **changed)
    with pytest.raises(InputError, check=about("the raw files of Photo")):
        load("Photo", root, tmp_path / "cache")


@pytest.mark.parametrize("name", ["Photo", "DBLP"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    """A file that is no archive is refused, with its publisher's name."""
    root = written(tmp_path / "root", name)
    (root / FILES[name]).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError):
        load(name, root, tmp_path / "cache")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the web, in which PyTorch Geometric looks for these data sets."""
    monkeypatch.delenv("FGL_SECURE_DATA", raising=False)
    with warnings.catch_warnings():  # PyTorch Geometric uses what PyTorch has deprecated
        warnings.simplefilter("ignore")
        from torch_geometric.datasets import Amazon, CitationFull, Coauthor, WikipediaNetwork

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(Amazon, "url", f"{address}/")
        monkeypatch.setattr(Coauthor, "url", f"{address}/")
        monkeypatch.setattr(CitationFull, "url", f"{address}/{{}}.npz")
        monkeypatch.setattr(WikipediaNetwork, "processed_url", address)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", list(FILES))
def test_archives_are_downloaded_once(name: str, served: Path, tmp_path: Path) -> None:
    """The file comes from the web the first time and from the cache the second, and nothing else stays."""
    file = FILES[name]
    raw = written(tmp_path / "root", name) / file
    raw.rename(served / raw.name)
    assert load(name, cache_dir=tmp_path / "cache").num_nodes == 3
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [file.parts[0], "graphs"]
    (served / raw.name).unlink()
    assert load(name, cache_dir=tmp_path / "cache").num_nodes == 3


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("name", ["Photo", "CS", "DBLP"])
def test_failed_downloads_leave_nothing(name: str, tmp_path: Path) -> None:
    """Where the files are not on the web there is one clear error, and the cache stays empty."""
    with pytest.raises(DataNotFoundError):
        load(name, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


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
