"""Cora, CiteSeer and PubMed from the raw files of Planetoid, read through PyTorch Geometric."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.raw_files import RawFiles, load_raw, silence

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def load_planetoid(name: str, data_root: Path | None, cache: Path) -> Graph:
    """Load one of the three graphs, without self-loops and duplicate edges.

    Args:
        name: "Cora", "CiteSeer" or "PubMed".
        data_root: Holds Planetoid/<name>/raw/ind.<name>.*; None to let PyTorch Geometric download into the cache.
        cache: Where downloads and parsed graphs are kept; entries are told apart by the raw files they came from.

    Raises:
        DataNotFoundError: Raw files are missing under `data_root`, or could not be downloaded.
        InputError: The raw files are there but are not what they should be.
    """
    files = tuple(f"ind.{name.lower()}.{part}" for part in _PARTS)
    folder = f"Planetoid/{name}/raw"
    source = RawFiles(name, "Planetoid", folder, files, partial(_parse, name), partial(_download, name))
    return load_raw(source, data_root, cache)


def _parse(name: str, raw: Path) -> Graph:
    # PyTorch Geometric unpickles the raw files. They are local files that the user chose to trust; nothing that comes
    # from a party of a protocol may ever be read this way.
    with silence():
        from torch_geometric.io import read_planetoid_data  # noqa: PLC0415 (takes seconds)

        data = read_planetoid_data(str(raw), name)
    return Graph.from_arrays(name, data.x.numpy(), data.y.numpy(), data.edge_index.numpy())


def _download(name: str, scratch: Path) -> Path:
    from torch_geometric.datasets import Planetoid  # noqa: PLC0415 (takes seconds)

    Planetoid(root=str(scratch), name=name)
    return scratch / name / "raw"
