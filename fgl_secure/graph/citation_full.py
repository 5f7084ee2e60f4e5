"""DBLP from the raw file of graph2gauss (Bojchevski and Guennemann 2018): papers, joined by citations."""

from __future__ import annotations

from pathlib import Path

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.npz_archives import NpzArchive, load_archive


def load_dblp(data_root: Path | None, cache: Path) -> Graph:
    """Load DBLP from CitationFull/dblp/raw/dblp.npz, as `load_archive` says."""
    archive = NpzArchive("DBLP", "graph2gauss", "CitationFull/dblp/raw", "dblp.npz", _download)
    return load_archive(archive, data_root, cache)


def _download(scratch: Path) -> Path:
    from torch_geometric.datasets import CitationFull  # noqa: PLC0415 (takes seconds)

    CitationFull(root=str(scratch), name="DBLP")
    return scratch / "dblp" / "raw"
