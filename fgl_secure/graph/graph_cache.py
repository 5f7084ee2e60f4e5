"""Parsed graphs on disk, so that the second load of a data set takes milliseconds.

A cache entry is an .npz of plain arrays that is read without pickle. It appears whole or not at all, and an entry that
can't be read counts as absent.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from fgl_secure.graph.attributed_graph import Graph

# What reading a damaged file raises: RuntimeError where a wrong bit says that the archive is encrypted, and ValueError
# covers InputError, since an entry that isn't a valid graph is damaged too.
_DAMAGED = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_graph(entry: Path, name: str) -> Graph | None:
    """Read a cache entry, or return None where it is absent or damaged."""
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    try:
        # Opened here, because np.load leaves the file open when it turns out not to be an archive.
        with entry.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            parts = (stored["values"], stored["columns"], stored["row_starts"])
            features = csr_array(parts, shape=tuple(stored["shape"])).toarray()
            return Graph.from_arrays(name, features, stored["labels"], stored["edges"])
    except _DAMAGED:
        return None


def write_graph(entry: Path, graph: Graph) -> None:
    """Write a cache entry; where the cache can't be written, do nothing, since it only saves time.

    Features are stored as a sparse matrix: most public graphs have bags of words.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    sparse = csr_array(graph.features)
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent) as workspace:
            unfinished = Path(workspace) / "graph.npz"
            np.savez(
                unfinished,
                values=sparse.data,
                columns=sparse.indices,
                row_starts=sparse.indptr,
                shape=np.array(sparse.shape),
                labels=graph.labels,
                edges=graph.edges,
            )
            os.replace(unfinished, entry)
