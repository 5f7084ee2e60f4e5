"""Photo, CS, Physics and DBLP: the graph of an .npz file of plain arrays, and errors for any other file."""

import functools
import http.server
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import load
from fgl_secure.graph.own_files import CACHE_VARIABLE, cache_folder
from tests.error_codes import about

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
def test_raw_file_becomes_the_graph(name: str, tmp_path: Path) -> None:
    """Edges go both ways, and features are 0 or 1."""
    root = written(tmp_path / "root", name)
    graph = load(name.lower(), root, tmp_path / "cache")
    assert graph.name == name
    assert graph.edges.T.tolist() == [[1, 0], [0, 1], [2, 1], [1, 2]]
    assert graph.features.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert graph.labels.tolist() == [0, 1, 1]


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
    root = written(tmp_path / "root", "Photo", **changed)
    with pytest.raises(InputError, check=about("the raw files of Photo")):
        load("Photo", root, tmp_path / "cache")


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
    archive = written(tmp_path / "root", name) / file
    archive.rename(served / archive.name)
    assert load(name, cache_dir=tmp_path / "cache").num_nodes == 3
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [file.parts[0]]
    (served / archive.name).unlink()
    assert load(name, cache_dir=tmp_path / "cache").num_nodes == 3


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("name", ["Photo", "CS", "DBLP"])
def test_failed_downloads_leave_nothing(name: str, tmp_path: Path) -> None:
    """Where the files are not on the web there is one clear error, and the cache stays empty."""
    with pytest.raises(DataNotFoundError):
        load(name, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_user_without_a_home_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: nothing can be kept, least of all in a folder called ~; a folder under ~ is refused."""

    def unknown(_user: int) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert not cache_folder().is_relative_to(tmp_path)
    with pytest.raises(OSError, match="Not a directory"):
        cache_folder().mkdir(parents=True)
    monkeypatch.setenv(CACHE_VARIABLE, "~/cache")
    with pytest.raises(InputError, match=CACHE_VARIABLE):
        cache_folder()
