"""Amazon Photo from the raw file of gnn-benchmark (Shchur et al. 2018)."""

from __future__ import annotations

from pathlib import Path

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.npz_archives import NpzArchive, load_archive


def load_photo(data_root: Path | None, cache: Path) -> Graph:
    """Load Amazon Photo from Amazon/Photo/raw/amazon_electronics_photo.npz, as `load_archive` says."""
    archive = NpzArchive("Photo", "gnn-benchmark", "Amazon/Photo/raw", "amazon_electronics_photo.npz", _download)
    return load_archive(archive, data_root, cache)


def _download(scratch: Path) -> Path:
    from torch_geometric.datasets import Amazon  # noqa: PLC0415 (takes seconds)

    Amazon(root=str(scratch), name="Photo")
    return scratch / "Photo" / "raw"
