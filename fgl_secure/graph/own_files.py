"""A user's own graph and silo assignment, in files that hold plain arrays and nothing that could run."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import SplitMasks, random_split

_REQUIRED = ("x", "y", "edge_index")
_MASKS = ("train_mask", "val_mask", "test_mask")


def read_graph(path: Path, seed: int) -> tuple[Graph, SplitMasks]:
    """Reads a graph that was written with `numpy.savez(path, x=..., y=..., edge_index=..., ...)`.

    Args:
        path: an .npz file with x, real numbers [n, d], y, integers [n], and edge_index, integers [2, m], as in
            PyTorch Geometric; train_mask, val_mask and test_mask, bool [n], if all three are there.
        seed: of a random 60/20/20 split otherwise.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it is not such a file, or an array breaks a rule of `Graph.from_arrays`.
    """
    arrays = _arrays(path)
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        raise InputError(f"{path} must hold the arrays {', '.join(_REQUIRED)}; missing: {', '.join(missing)}")
    graph = Graph.from_arrays(path.stem, arrays["x"], arrays["y"], arrays["edge_index"])
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
            loaded = np.load(path, allow_pickle=False)
        else:
            loaded = np.array([int(line) for line in path.read_text(encoding="utf-8").split()], dtype=np.int64)
    except (ValueError, OSError, OverflowError) as error:
        raise InputError(f"{path} must hold one integer a device, as text or .npy; {error}") from error
    if loaded.dtype.kind not in "iu" or loaded.ndim != 1:
        raise InputError(f"{path} must hold integers [n]; found {loaded.dtype} of shape {loaded.shape}")
    return np.asarray(loaded, dtype=np.int64)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    _must_exist(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} must be an .npz file of plain arrays, without Python objects") from error


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise DataNotFoundError(f"{path} must be a file; found {'a folder' if path.is_dir() else 'nothing'}")
