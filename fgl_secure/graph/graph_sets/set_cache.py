"""Sets of graphs on disk, so that the second load of one that takes half a minute takes milliseconds.

A cache entry is an .npz of plain arrays that is read without pickle. It appears whole or not at all, and an entry that
can't be read counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.graph.own_files import plain_arrays
from fgl_secure.graph.raw_files import cache_folder
from fgl_secure.graph.split import SplitMasks

_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
_ARRAYS = ("name", "shift", "node_types", "features", "edges", "graph_of", "targets", "client_of")
_MASKS = ("train", "validation", "test")
_LIBRARIES = ("scikit-image", "rdkit")


def kept_set(name: str, make: Callable[[int, Path | None], GraphSet], seed: int, data_root: Path | None) -> GraphSet:
    """Make a set, or take it from the cache entry that an earlier call with the same arguments left.

    Entries are told apart by seed, data folder and the versions of the libraries that make them.

    Args:
        name: What the set is called.
        make: Makes it from the seed and the data folder.
        seed: Of the set.
        data_root: Holds the raw files.
    """
    identity = [str(seed), str(data_root and data_root.resolve()), *(_version(library) for library in _LIBRARIES)]
    fingerprint = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
    entry = cache_folder() / "graph-sets" / f"{name.lower()}-{fingerprint}.npz"
    kept = read_set(entry)
    if kept is None:
        kept = make(seed, data_root)
        write_set(entry, kept)
    return kept


def read_set(entry: Path) -> GraphSet | None:
    """Read a cache entry, or return None where it is absent or damaged."""
    try:
        stored = plain_arrays(entry, (*_ARRAYS, *_MASKS))
        return GraphSet.from_arrays(
            str(stored["name"]),
            stored["features"],
            stored["edges"],
            stored["graph_of"],
            stored["targets"],
            stored["client_of"],
            SplitMasks(stored["train"], stored["validation"], stored["test"]),
            str(stored["shift"]),
            bool(stored["node_types"]),
        )
    except _DAMAGED:
        return None


def write_set(entry: Path, graphs: GraphSet) -> None:
    """Write a cache entry; where the cache can't be written, do nothing, since it only saves time."""
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent) as workspace:
            unfinished = Path(workspace) / "set.npz"
            np.savez(
                unfinished,
                name=graphs.name,
                features=graphs.features,
                edges=graphs.edges,
                graph_of=graphs.graph_of,
                targets=graphs.targets,
                client_of=graphs.client_of,
                train=graphs.train,
                validation=graphs.validation,
                test=graphs.test,
                shift=graphs.shift,
                node_types=graphs.node_types,
            )
            os.replace(unfinished, entry)


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "none"
