"""Chameleon from the raw files of geom-gcn (Pei et al. 2020): tab-separated text, nothing in it that could run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph import Graph, GraphDataset
from fgl_secure.graph.own_files import RawFiles, load_raw

_NODES, _EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"


def load_chameleon(data_root: Path | None, cache: Path) -> Graph:
    """Load Chameleon: directed links between pages, five classes of traffic; its self-loops are dropped.

    Of the raw files, the ten splits are not read.

    Args:
        data_root: Holds WikipediaNetwork/chameleon/geom_gcn/raw/out1_*.txt; None to let PyTorch Geometric download into
            the cache.
        cache: Where downloads and parsed graphs are kept; entries are told apart by the raw files they came from.

    Raises:
        DataNotFoundError: Raw files are missing under `data_root`, or could not be downloaded.
        InputError: The raw files are there but are not what they should be.
    """
    folder = "WikipediaNetwork/chameleon/geom_gcn/raw"
    source = RawFiles("Chameleon", "geom-gcn", folder, (_NODES, _EDGES), _parse, _download)
    return load_raw(source, data_root, cache)


def _parse(raw: Path) -> Graph:
    rows = _rows(raw / _NODES, columns=3)
    nodes = [int(row[0]) for row in rows]
    if nodes != list(range(len(nodes))):
        raise ValueError(f"{_NODES} must list nodes 0, 1, 2, ... in this order")
    features = np.array([row[1].split(",") for row in rows]).astype(np.float32)
    labels = np.array([int(row[2]) for row in rows], dtype=np.int64)
    edges: NDArray[np.int64] = np.array([[int(v) for v in row] for row in _rows(raw / _EDGES, columns=2)]).T
    return Graph.from_arrays("Chameleon", features, labels, edges)


def _rows(file: Path, columns: int) -> list[list[str]]:
    """The lines under the header, cut at tabs."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    if any(len(row) != columns for row in rows):
        raise ValueError(f"{file.name} must have {columns} columns")
    return rows


def _download(scratch: Path) -> Path:
    from torch_geometric.datasets import WikipediaNetwork  # noqa: PLC0415 (takes seconds)

    WikipediaNetwork(root=str(scratch), name="chameleon", geom_gcn_preprocess=True)
    return scratch / "chameleon" / "geom_gcn" / "raw"


CHAMELEON = GraphDataset(
    "Chameleon",
    "pages of Wikipedia joined by links that have a direction",
    load_chameleon,
    nodes=2277,
    edges=36051,
    features=2325,
    classes=5,
)
