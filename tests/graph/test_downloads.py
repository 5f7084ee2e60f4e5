"""Downloads of the data sets that are not Planetoid's, from a web server that stands in for their publishers'."""

import functools
import http.server
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import load
from fgl_secure.graph.raw_files import CACHE_VARIABLE, cache_folder
from tests.graph import test_npz_archives


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


@pytest.mark.parametrize("name", list(test_npz_archives.FILES))
def test_archives_are_downloaded_once(name: str, served: Path, tmp_path: Path) -> None:
    """The file comes from the web the first time and from the cache the second, and nothing else stays."""
    file = test_npz_archives.FILES[name]
    written = test_npz_archives.written(tmp_path / "root", name) / file
    written.rename(served / written.name)
    assert load(name, cache_dir=tmp_path / "cache").num_nodes == 3
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [file.parts[0]]
    (served / written.name).unlink()
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
