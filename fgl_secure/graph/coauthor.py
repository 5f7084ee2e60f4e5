"""Coauthor CS and Physics from the raw files of gnn-benchmark (Shchur et al. 2018): authors, joined by joint papers.

FedSage+ and Fed2GNN call CS "MSAcademic".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.npz_archives import NpzArchive, load_archive

_FILES: Mapping[str, str] = MappingProxyType({"CS": "ms_academic_cs.npz", "Physics": "ms_academic_phy.npz"})


def load_coauthor(name: str, data_root: Path | None, cache: Path) -> Graph:
    """Load one of the two graphs from Coauthor/<name>/raw, as `load_archive` says.

    Args:
        name: "CS" or "Physics".
        data_root: Holds the raw files; None to let PyTorch Geometric download into the cache.
        cache: Where downloads and parsed graphs are kept.
    """
    folder = f"Coauthor/{name}/raw"
    archive = NpzArchive(name, "gnn-benchmark", folder, _FILES[name], partial(_download, name))
    return load_archive(archive, data_root, cache)


def _download(name: str, scratch: Path) -> Path:
    from torch_geometric.datasets import Coauthor  # noqa: PLC0415 (takes seconds)

    Coauthor(root=str(scratch), name=name)
    return scratch / name / "raw"
