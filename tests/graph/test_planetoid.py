"""Planetoid data: read-only raw folders, and downloads that leave nothing half done."""

import functools
import http.server
import os
import pickle
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import Graph, load
from tests.error_codes import about
from tests.graph.raw_planetoid import EDGES, FEATURES, FILES, LABELS, write_raw_files

RAW = Path("Planetoid") / "Cora" / "raw"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FGL_SECURE_DATA", raising=False)
    monkeypatch.delenv("FGL_SECURE_CACHE", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_raw_files(tmp_path / "root" / RAW)
    return tmp_path / "root"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def served(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The raw files on a web server that stands in for Planetoid's; yields the folder that it serves."""
    with warnings.catch_warnings():  # PyTorch Geometric uses what PyTorch has deprecated
        warnings.simplefilter("ignore")
        from torch_geometric.datasets import Planetoid

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None: ...

    handler = functools.partial(Quiet, directory=root / RAW)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(Planetoid, "url", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield root / RAW
        server.shutdown()
        thread.join()


def _tree(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def _assert_is_the_tiny_graph(graph: Graph) -> None:
    np.testing.assert_array_equal(graph.features, FEATURES)
    np.testing.assert_array_equal(graph.labels, LABELS)
    assert {tuple(edge) for edge in graph.edges.T.tolist()} == EDGES
    assert graph.edges.shape[1] == len(EDGES)


def test_data_root_is_only_read(root: Path, cache: Path) -> None:
    """A raw folder without write permission works, and nothing appears under the data root."""
    before = _tree(root)
    for folder in (root / RAW, root / RAW.parent, root):
        folder.chmod(0o555)
    _assert_is_the_tiny_graph(load("Cora", root, cache))
    assert _tree(root) == before
    for folder in (root, root / RAW.parent, root / RAW):
        folder.chmod(0o755)


def test_environment_names_the_folders(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two environment variables stand in for the two arguments, and names match in any case."""
    monkeypatch.setenv("FGL_SECURE_DATA", str(root))
    monkeypatch.setenv("FGL_SECURE_CACHE", str(cache))
    graph = load("cORA")
    assert graph.name == "Cora"
    _assert_is_the_tiny_graph(graph)


def test_cache_that_can_not_be_written_is_done_without(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    _assert_is_the_tiny_graph(load("Cora", root, tmp_path / "file"))


def test_missing_raw_files_are_named(root: Path, cache: Path) -> None:
    (root / RAW / "ind.cora.graph").unlink()
    with pytest.raises(DataNotFoundError) as caught:
        load("Cora", root, cache)
    message = str(caught.value)
    assert f"not in {root / RAW}: ind.cora.graph. " in message
    assert "unset FGL_SECURE_DATA" in message
    assert not cache.exists()


def test_damaged_raw_files_are_refused(root: Path, cache: Path) -> None:
    """A raw file that is no pickle gives one error that names the folder, and nothing is cached."""
    (root / RAW / "ind.cora.allx").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, check=about("the raw files of Cora")):
        load("Cora", root, cache)
    assert not cache.exists()


class Running:
    """Something that makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("file", [name for name in FILES if not name.endswith("test.index")])
@pytest.mark.parametrize("protocol", [0, 4])
def test_files_that_run_code_do_not_run(file: str, protocol: int, root: Path, cache: Path, tmp_path: Path) -> None:
    """A raw file that would run something when it is unpickled is refused, and nothing has run."""
    target, ran = root / RAW / file, tmp_path / "it ran"
    target.write_bytes(pickle.dumps({"x": Running(ran)}, protocol=protocol))
    if file.endswith(("cora.x", "cora.y")):  # nobody reads these: what is in them is in the others too
        _assert_is_the_tiny_graph(load("Cora", root, cache))
    else:
        with pytest.raises(InputError, check=about("the raw files of Cora")):
            load("Cora", root, cache)
    assert not ran.exists()
    pickle.loads(target.read_bytes())  # noqa: S301  # it is one that would
    assert ran.exists()


def test_downloads_that_run_code_do_not_run(served: Path, cache: Path, tmp_path: Path) -> None:
    """The same from the network, where PyTorch Geometric's own reader would run it, and nothing is kept."""
    (served / "ind.cora.graph").write_bytes(pickle.dumps(Running(tmp_path / "it ran")))
    with pytest.raises(DataNotFoundError, check=about("pickle")):
        load("Cora", cache_dir=cache)
    assert not (tmp_path / "it ran").exists()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("allx", b"cscipy.sparse.csr\ncsr_matrix\n)\x81."),
        ("allx", b"cnumpy\ndtype\n(S'O'\ntR."),
        ("allx", pickle.dumps(np.zeros((517, 3), dtype=object), protocol=2)),
        ("allx", pickle.dumps(np.zeros(517), protocol=2)),
        ("ally", pickle.dumps(np.zeros((516, 3)), protocol=2)),
        ("ty", pickle.dumps(np.zeros((4, 3)), protocol=2)),
        ("graph", pickle.dumps([[1, 2]], protocol=2)),
        ("graph", pickle.dumps(defaultdict(list, {0: [10**9]}), protocol=2)),
        ("graph", pickle.dumps(defaultdict(list, {0: ["a"]}), protocol=2)),
        ("graph", pickle.dumps(defaultdict(list, {0: 7}), protocol=2)),
        ("graph", b"ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(d(S'a'\nI1\nstb."),
        ("graph", b"ccollections\ndefaultdict\n(S'a'\nI1\ndb."),
        ("graph", b"c_codecs\nencode\n(Vabc\nVutf8\ntR."),
        ("test.index", b"517\n518\n9999999999\n"),
    ],
)
def test_pickles_of_something_else_are_refused(file: str, content: bytes, root: Path, cache: Path) -> None:
    """Matrices without their parts, objects, other shapes, numbers that are no nodes, states where none belong."""
    (root / RAW / f"ind.cora.{file}").write_bytes(content)
    with pytest.raises(InputError, check=about("the raw files of Cora")):
        load("Cora", root, cache)


def test_a_sparse_matrix_that_points_outside_is_refused(root: Path, cache: Path) -> None:
    """Columns beyond the matrix, which would be read from foreign memory, and a matrix of terabytes."""
    matrix = csr_matrix(FEATURES[:-3])
    for change in ({"indices": matrix.indices + 5}, {"_shape": (517, 2**40)}):
        other = csr_matrix(FEATURES[:-3])
        other.__dict__.update(change)
        (root / RAW / "ind.cora.allx").write_bytes(pickle.dumps(other, protocol=2))
        with pytest.raises(InputError, check=about("the raw files of Cora")):
            load("Cora", root, cache)


@pytest.mark.usefixtures("served")
def test_download_is_silent_and_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a data root the files are downloaded once, without a word, and nothing else stays in the cache."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # PyTorch Geometric prints only outside pytest
    _assert_is_the_tiny_graph(load("Cora", cache_dir=cache))
    assert capfd.readouterr() == ("", "")
    assert sorted(path.name for path in cache.iterdir()) == ["Planetoid"]
    assert sorted(path.name for path in (cache / RAW).iterdir()) == sorted(FILES)
    monkeypatch.setattr("torch_geometric.datasets.Planetoid.url", "http://127.0.0.1:1")
    _assert_is_the_tiny_graph(load("Cora", cache_dir=cache))


@pytest.mark.parametrize("content", [None, b"<html>Log in to use this network</html>"], ids=["404", "portal"])
def test_failed_download_leaves_no_poison(served: Path, cache: Path, content: bytes | None) -> None:
    """A download that breaks off, or that brings a web page, is one clear error, and the next one works."""
    graph_file = served / "ind.cora.graph"
    kept = graph_file.read_bytes()
    graph_file.unlink()
    if content is not None:
        graph_file.write_bytes(content)
    with pytest.raises(DataNotFoundError) as caught:
        load("Cora", cache_dir=cache)
    assert caught.value.__suppress_context__
    assert list(cache.iterdir()) == []
    graph_file.write_bytes(kept)
    _assert_is_the_tiny_graph(load("Cora", cache_dir=cache))


def test_no_network_is_one_silent_error(
    served: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a network there is one clear error, nothing is printed, and the cache stays empty."""
    assert served.is_dir()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # PyTorch Geometric prints only outside pytest
    monkeypatch.setattr("torch_geometric.datasets.Planetoid.url", "http://127.0.0.1:1")
    with pytest.raises(DataNotFoundError):
        load("Cora", cache_dir=cache)
    assert capfd.readouterr() == ("", "")
    assert list(cache.iterdir()) == []
