"""Sets of graphs from published files: unpacking with a limit, optional libraries, and a cache on disk.

A cache entry is an .npz of plain arrays that is read without pickle. It appears whole or not at all, and an entry that
can't be read counts as absent.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.own_files import cache_folder, plain_arrays
from fgl_secure.graph.partition import SplitMasks

_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)
_ARRAYS = ("name", "shift", "node_types", "features", "edges", "graph_of", "targets", "client_of", "edge_types")
_MASKS = ("train", "validation", "test")
_LIBRARIES = ("scikit-image", "rdkit")
MOST_UNPACKED = 2**28
"""Most bytes of an unpacked file: some kilobytes can unpack to terabytes."""


def gunzip(file: Path, what: str = "a gzipped file") -> bytes:
    """Return the content of a gzipped file.

    Args:
        file: path of the file.
        what: what it must be, for the message.

    Raises:
        InputError: it is not gzipped, or holds more than `MOST_UNPACKED` bytes.
    """
    try:
        with gzip.open(file) as packed:
            data = packed.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file.name} must be {what}; it can't be read ({error})") from None
    if len(data) > MOST_UNPACKED:
        raise InputError(f"{file.name} must hold at most {MOST_UNPACKED:,} bytes once it is unpacked; it holds more")
    return data


def optional_library(module: str, extra: str, wanted_by: str) -> Any:
    """Import and return a module of an optional library.

    Args:
        module: full name of the module.
        extra: the extra of this distribution that installs the library.
        wanted_by: the set of graphs that needs it, for the message.

    Raises:
        InputError: the library is not installed; the message states how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"graph set {wanted_by} needs {module}; not installed: pip install 'fgl-secure-reproduction[{extra}]' "
            f"({error})"
        ) from None


def cached_set(name: str, make: Callable[[int, Path | None], GraphSet], seed: int, data_root: Path | None) -> GraphSet:
    """Return a set from the cache entry of an earlier call with equal arguments, or make it.

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
    graphs = read_set(entry)
    if graphs is None:
        graphs = make(seed, data_root)
        write_set(entry, graphs)
    return graphs


def read_set(entry: Path) -> GraphSet | None:
    """Read a cache entry; return None if it is absent or damaged."""
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
            stored["edge_types"] if len(stored["edge_types"]) else None,
        )
    except _DAMAGED:
        return None


def write_set(entry: Path, graphs: GraphSet) -> None:
    """Write a cache entry; do nothing if the cache can't be written, since it only saves time."""
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
                edge_types=np.empty(0, np.int64) if graphs.edge_types is None else graphs.edge_types,
            )
            os.replace(unfinished, entry)


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "none"
