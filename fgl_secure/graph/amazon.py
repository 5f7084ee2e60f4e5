"""Amazon Photo from the raw file of gnn-benchmark (Shchur et al. 2018).

The file is an .npz of plain arrays, two sparse matrices and the labels, and is read without pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.raw_files import RawFiles, load_raw

_FILE = "amazon_electronics_photo.npz"


def load_photo(data_root: Path | None, cache: Path) -> Graph:
    """Load Amazon Photo as PyTorch Geometric has it: symmetric, without self-loops, features 0 or 1.

    Args:
        data_root: Holds Amazon/Photo/raw/amazon_electronics_photo.npz; None to let PyTorch Geometric download into the
            cache.
        cache: Where downloads and parsed graphs are kept; entries are told apart by the raw files they came from.

    Raises:
        DataNotFoundError: The raw file is missing under `data_root`, or could not be downloaded.
        InputError: The raw file is there but is not what it should be.
    """
    source = RawFiles("Photo", "gnn-benchmark", "Amazon/Photo/raw", (_FILE,), _parse, _download)
    return load_raw(source, data_root, cache)


def _parse(raw: Path) -> Graph:
    # Opened here, because np.load leaves the file open when it turns out not to be an archive.
    with (raw / _FILE).open("rb") as file, np.load(file, allow_pickle=False) as stored:
        features = _sparse(stored, "attr").toarray() > 0
        source, target = _sparse(stored, "adj").nonzero()
        edges: NDArray[np.int64] = np.stack([np.append(source, target), np.append(target, source)]).astype(np.int64)
        return Graph.from_arrays("Photo", features, stored["labels"], edges)


def _sparse(stored: Mapping[str, NDArray[Any]], prefix: str) -> Any:
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    parts = (stored[f"{prefix}_data"], stored[f"{prefix}_indices"], stored[f"{prefix}_indptr"])
    matrix = csr_array(parts, shape=tuple(stored[f"{prefix}_shape"]))
    matrix.check_format(full_check=True)  # an index outside of the matrix would be read from foreign memory
    return matrix


def _download(scratch: Path) -> Path:
    from torch_geometric.datasets import Amazon  # noqa: PLC0415 (takes seconds)

    Amazon(root=str(scratch), name="Photo")
    return scratch / "Photo" / "raw"
