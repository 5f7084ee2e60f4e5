"""Graphs that are published as one .npz of plain arrays: gnn-benchmark (Shchur et al. 2018) and graph2gauss (2018).

The file has two sparse matrices, adj_* and attr_*, and the labels, and is read without pickle. PyTorch Geometric makes
the same of all of them: edges in both directions, no self-loops, features 0 or 1.

They are Amazon Photo (co-purchases), Coauthor CS and Physics (co-authorship), and DBLP (citations). FedSage+ and
Fed2GNN call CS "MSAcademic".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.own_files import MOST_ENTRIES, plain_arrays
from fgl_secure.graph.raw_files import RawFiles, load_raw


@dataclass(frozen=True, slots=True)
class NpzArchive:
    """Where the archive of a graph is.

    Attributes:
        name: What `load` calls the graph.
        publisher: Whose file it is, for messages.
        folder: Its folder under the data root, as PyTorch Geometric lays it out.
        file: Its name.
        download: Lets PyTorch Geometric download into an empty folder, and returns the folder that then has the file.
    """

    name: str
    publisher: str
    folder: str
    file: str
    download: Callable[[Path], Path]


def load_archive(archive: NpzArchive, data_root: Path | None, cache: Path) -> Graph:
    """Load a graph as PyTorch Geometric has it: symmetric, without self-loops, features 0 or 1.

    Args:
        archive: Which.
        data_root: Holds the raw file in the archive's folder; None to let PyTorch Geometric download into the cache.
        cache: Where downloads and parsed graphs are kept; entries are told apart by the raw files they came from.

    Raises:
        DataNotFoundError: The raw file is missing under `data_root`, or could not be downloaded.
        InputError: The raw file is there but is not what it should be.
    """
    parse = partial(_parse, archive.name, archive.file)
    source = RawFiles(archive.name, archive.publisher, archive.folder, (archive.file,), parse, archive.download)
    return load_raw(source, data_root, cache)


def _parse(name: str, file_name: str, raw: Path) -> Graph:
    stored = plain_arrays(raw / file_name, [*(f"{m}_{part}" for m in ("adj", "attr") for part in _CSR), "labels"])
    features = _sparse(stored, "attr") > 0
    source, target = _sparse(stored, "adj").nonzero()
    edges: NDArray[np.int64] = np.stack([np.append(source, target), np.append(target, source)]).astype(np.int64)
    return Graph.from_arrays(name, features, stored["labels"], edges)


_CSR = ("data", "indices", "indptr", "shape")


def _sparse(stored: Mapping[str, NDArray[Any]], prefix: str) -> Any:
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    parts = (stored[f"{prefix}_data"], stored[f"{prefix}_indices"], stored[f"{prefix}_indptr"])
    rows, columns = stored[f"{prefix}_shape"].tolist()
    if prefix == "attr" and rows * columns > MOST_ENTRIES:
        raise ValueError(f"features must be at most {MOST_ENTRIES:,} numbers; found {rows:,} * {columns:,}")
    matrix = csr_array(parts, shape=(rows, columns))
    matrix.check_format(full_check=True)  # an index outside of the matrix would be read from foreign memory
    return matrix


def load_photo(data_root: Path | None, cache: Path) -> Graph:
    """Load Amazon Photo from Amazon/Photo/raw/amazon_electronics_photo.npz, as `load_archive` says."""
    archive = NpzArchive("Photo", "gnn-benchmark", "Amazon/Photo/raw", "amazon_electronics_photo.npz", _download_photo)
    return load_archive(archive, data_root, cache)


def _download_photo(scratch: Path) -> Path:
    from torch_geometric.datasets import Amazon  # noqa: PLC0415 (takes seconds)

    Amazon(root=str(scratch), name="Photo")
    return scratch / "Photo" / "raw"


_FILES: Mapping[str, str] = MappingProxyType({"CS": "ms_academic_cs.npz", "Physics": "ms_academic_phy.npz"})


def load_coauthor(name: str, data_root: Path | None, cache: Path) -> Graph:
    """Load one of the two graphs from Coauthor/<name>/raw, as `load_archive` says.

    Args:
        name: "CS" or "Physics".
        data_root: Holds the raw files; None to let PyTorch Geometric download into the cache.
        cache: Where downloads and parsed graphs are kept.
    """
    folder = f"Coauthor/{name}/raw"
    archive = NpzArchive(name, "gnn-benchmark", folder, _FILES[name], partial(_download_coauthor, name))
    return load_archive(archive, data_root, cache)


def _download_coauthor(name: str, scratch: Path) -> Path:
    from torch_geometric.datasets import Coauthor  # noqa: PLC0415 (takes seconds)

    Coauthor(root=str(scratch), name=name)
    return scratch / name / "raw"


def load_dblp(data_root: Path | None, cache: Path) -> Graph:
    """Load DBLP from CitationFull/dblp/raw/dblp.npz, as `load_archive` says."""
    archive = NpzArchive("DBLP", "graph2gauss", "CitationFull/dblp/raw", "dblp.npz", _download_dblp)
    return load_archive(archive, data_root, cache)


def _download_dblp(scratch: Path) -> Path:
    from torch_geometric.datasets import CitationFull  # noqa: PLC0415 (takes seconds)

    CitationFull(root=str(scratch), name="DBLP")
    return scratch / "dblp" / "raw"
