"""Sets from published files: unpacked to a limit, made once, and read from the cache afterwards."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.datasets import published_sets
from fgl_reproduction.datasets.colour_digits import read_idx
from fgl_reproduction.datasets.published_sets import cached_set, optional_library, read_set, write_set
from fgl_reproduction.datasets.zinc import RAW_FILE, zinc
from fgl_secure.cli.main import OK, main
from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import motif


def test_installed_data_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`list datasets` names them after those of the toolkit."""
    assert main(["list", "datasets"]) == OK
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert {"Chameleon", "CMNIST", "ZINC"} <= set(listed)
    assert listed.index("DBLP") < listed.index("Chameleon")
    assert listed.index("Motif-size-concept") < listed.index("ZINC")


def test_missing_libraries_are_named_with_the_way_to_get_them() -> None:
    """The error is bad input, not a missing module."""
    with pytest.raises(InputError):
        optional_library("no_such_library", "molecules", "ZINC")


def test_gzipped_files_unpack_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes of zeros that would fill the memory are refused with the limit; nothing more is unpacked."""
    raw = tmp_path / RAW_FILE
    raw.parent.mkdir(parents=True)
    raw.write_bytes(gzip.compress(bytes(2**24)))
    monkeypatch.setattr(published_sets, "MOST_UNPACKED", 2**20)
    for read in (lambda: zinc(0, tmp_path), lambda: read_idx(raw)):
        with pytest.raises(InputError, match="at most 1,048,576 bytes"):
            read()


def test_sets_survive_the_cache(tmp_path: Path) -> None:
    """What is read is what was written; an absent or damaged entry is none."""
    sets, entry = motif("Motif-mini", 0, 60, 0.2), tmp_path / "folder" / "set.npz"
    assert read_set(entry) is None
    write_set(entry, sets)
    read = read_set(entry)
    assert read is not None
    assert (read.name, read.shift, read.node_types) == (sets.name, sets.shift, sets.node_types)
    for field in ("features", "edges", "graph_of", "targets", "client_of", "train", "validation", "test"):
        np.testing.assert_array_equal(getattr(read, field), getattr(sets, field))
    assert list(entry.parent.iterdir()) == [entry]
    entry.write_bytes(entry.read_bytes()[:1000])
    assert read_set(entry) is None


def test_sets_are_made_once_a_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call with the same seed makes nothing, another seed does, and nobody minds a cache out of reach."""
    monkeypatch.setenv("FGL_SECURE_CACHE", str(tmp_path / "cache"))
    made: list[int] = []

    def make(seed: int, _root: Path | None) -> GraphSet:
        made.append(seed)
        return motif("Motif-mini", seed, 60, 0.2)

    for seed in (0, 0, 1):
        assert cached_set("Mini", make, seed, tmp_path).num_clients == 3
    assert made == [0, 1]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FGL_SECURE_CACHE", str(tmp_path / "file"))
    assert cached_set("Mini", make, 2, None).num_clients == 3
