"""A user's own graph and silo assignment, in files that hold plain arrays and nothing that could run."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import SplitMasks, random_split

_REQUIRED = ("x", "y", "edge_index")
_MASKS = ("train_mask", "val_mask", "test_mask")
MOST_ENTRIES = 2**29
"""Numbers in all arrays that are read of one file: 34,493 nodes with 8,415 features are about half of them."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_graph(path: Path, seed: int, most_entries: int = MOST_ENTRIES) -> tuple[Graph, SplitMasks]:
    """Reads a graph that was written with `numpy.savez(path, x=..., y=..., edge_index=..., ...)`.

    Other arrays in the file are not read.

    Args:
        path: an .npz file with x, real numbers [n, d], y, integers [n], and edge_index, integers [2, m], as in
            PyTorch Geometric; train_mask, val_mask and test_mask, bool [n], if all three are there.
        seed: of a random 60/20/20 split otherwise.
        most_entries: numbers that these arrays may have together.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it is not such a file, has too many numbers, or an array breaks a rule of `Graph.from_arrays`.
    """
    arrays = plain_arrays(path, (*_REQUIRED, *_MASKS), most_entries)
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        raise InputError(f"{path} must hold the arrays {', '.join(_REQUIRED)}; missing: {', '.join(missing)}")
    name = path.stem.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # bytes that a C locale left as such
    graph = Graph.from_arrays(name, arrays["x"], arrays["y"], arrays["edge_index"])
    if all(key in arrays for key in _MASKS):
        return graph, SplitMasks(*(arrays[key] for key in _MASKS))
    return graph, random_split(graph.num_nodes, seed)


def read_assignment(path: Path) -> NDArray[np.int64]:
    """Reads the silo of each device: an .npy array, or a text file with one integer a line.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it holds anything but integers.
    """
    _must_exist(path)
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                entries, width = _announced(file)
                if entries * width != path.stat().st_size - file.tell():
                    raise ValueError("its length is another than its header says")
            loaded = np.load(path, allow_pickle=False)
        else:
            loaded = np.array([int(line) for line in path.read_text(encoding="utf-8").split()], dtype=np.int64)
    except (ValueError, OSError, OverflowError) as error:
        raise InputError(f"{path} must hold one integer a device, as text or .npy; {error}") from error
    if loaded.dtype.kind not in "iu" or loaded.ndim != 1:
        raise InputError(f"{path} must hold integers [n]; found {loaded.dtype} of shape {loaded.shape}")
    return np.asarray(loaded, dtype=np.int64)


def plain_arrays(path: Path, names: Iterable[str], most_entries: int = MOST_ENTRIES) -> dict[str, NDArray[Any]]:
    """Some arrays of an .npz file, those that are there; no others are read.

    What their headers say of their lengths is looked at first: a file of some kilobytes may say terabytes.

    Args:
        path: of the file.
        names: of the arrays.
        most_entries: numbers in all of them together.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it is no such file, one of the arrays holds something else than numbers, or they have too many.
    """
    _must_exist(path)
    try:
        with zipfile.ZipFile(path) as archive:
            there = [name for name in names if f"{name}.npy" in archive.NameToInfo]
            entries = 0
            for name in there:
                with archive.open(f"{name}.npy") as member:
                    entries += _announced(member)[0]
        if entries <= most_entries:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in there}
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} must be an .npz file of plain arrays, without Python objects") from error
    raise InputError(f"{path} must have at most {most_entries:,} numbers in {', '.join(there)}; found {entries:,}")


_UNREADABLE = (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, RuntimeError, NotImplementedError)
"""What reading a damaged archive raises: RuntimeError where a wrong bit says that it is encrypted."""


def _announced(file: IO[bytes]) -> tuple[int, int]:
    """How many numbers follow the header of an .npy file, and of how many bytes; the file then stands behind it."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version must be one of {list(_HEADERS)}; found {version}")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"arrays must be of numbers; found {dtype} {shape}")
    return math.prod(shape), dtype.itemsize


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise DataNotFoundError(f"{path} must be a file; found {'a folder' if path.is_dir() else 'nothing'}")
