"""A user's own files: read as far as they are wanted, after a look at what they say of their size."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fgl_secure.errors import DataNotFoundError, DataWarning, InputError
from fgl_secure.graph import load, read_assignment, read_graph
from fgl_secure.graph.own_files import plain_arrays
from tests.error_codes import about
from tests.graph import test_npz_archives

MIB = 2**20
RING = np.arange(4)
WANTED: dict[str, Any] = {"x": np.eye(4), "y": RING % 2, "edge_index": np.stack([RING, (RING + 1) % 4])}


def zeros(entries: int, announced: int | None = None) -> bytes:
    """An .npy file of so many zeros, whose header may say that there are more."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (entries if announced is None else announced,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(8 * entries)


def archive(path: Path, **members: bytes) -> Path:
    """The wanted arrays, and some more members, deflated."""
    np.savez(path, **WANTED)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def test_arrays_that_nobody_wants_are_not_read(tmp_path: Path) -> None:
    """A hundred kilobytes that inflate to a hundred megabytes of zeros under a name of its own cost nothing."""
    path = archive(tmp_path / "mine.npz", junk=zeros(12_000_000), objects=b"no array at all")
    assert path.stat().st_size < MIB
    tracemalloc.start()
    try:
        with pytest.warns(DataWarning, match="not used: junk, objects"):
            graph, masks = read_graph(path, 0)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
    assert graph.features.tolist() == np.eye(4).tolist()
    assert len(masks.train) == 4


@pytest.mark.parametrize("announced", [2**29, 2**40, 2**62])
def test_lengths_are_looked_at_before_arrays_are_made(tmp_path: Path, announced: int) -> None:
    """A mask whose header says more than a graph may have is refused with both numbers, and nothing is made of it."""
    path = archive(tmp_path / "mine.npz", train_mask=zeros(0, announced))
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            read_graph(path, 0)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_the_limit_can_be_set(tmp_path: Path) -> None:
    """Twenty-eight numbers are in the three arrays: as many are read, and one fewer is refused."""
    path = archive(tmp_path / "mine.npz")
    assert read_graph(path, 0, 28)[0].num_nodes == 4
    with pytest.raises(InputError):
        read_graph(path, 0, 27)


@pytest.mark.parametrize(
    "mask",
    [
        zeros(2, 3),
        b"\x93NUMPY\x09\x00" + zeros(1)[8:],
        zeros(1).replace(b"<f8", b"|O8"),
        zeros(1).replace(b"<f8", b"<U2"),
        zeros(1).replace(b"(1,)", b"(-1,)"),
        b"",
    ],
    ids=["cut", "version", "objects", "text", "negative", "empty"],
)
def test_arrays_of_anything_but_numbers_are_refused(tmp_path: Path, mask: bytes) -> None:
    """Wanted arrays that are cut, of another version, of objects or text, or of a negative length."""
    with pytest.raises(InputError):
        read_graph(archive(tmp_path / "mine.npz", train_mask=mask), 0)


def test_every_damaged_byte_is_refused_or_read(tmp_path: Path) -> None:
    """No byte that is changed makes anything raise but errors of this package."""
    path = archive(tmp_path / "mine.npz")
    whole, read = path.read_bytes(), 0
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            plain_arrays(path, ("x", "y"))
            read += 1
        except InputError:
            pass
    assert 0 < read < len(whole) // 3


def test_assignments_are_as_long_as_they_say(tmp_path: Path) -> None:
    """An .npy file that says it is longer than it is is refused before memory is taken, and a file must be there."""
    path = tmp_path / "silos.npy"
    np.save(path, RING)
    assert read_assignment(path).tolist() == RING.tolist()
    path.write_bytes(zeros(1, 2**40))
    with pytest.raises(InputError):
        read_assignment(path)
    with pytest.raises(DataNotFoundError):
        read_graph(tmp_path / "none.npz", 0)


def test_published_graphs_are_looked_at_alike(tmp_path: Path) -> None:
    """A public archive whose features would be terabytes once they are dense is refused, however small it is."""
    root = test_npz_archives.written(tmp_path / "root", "Photo", attr_shape=np.array([3, 2**40]))
    with pytest.raises(InputError, check=about("the raw files of Photo")):
        load("Photo", root, tmp_path / "cache")
