"""Cora, CiteSeer and PubMed from the raw files of Planetoid, read through PyTorch Geometric.

The folder with the raw files is only read. What is downloaded or derived goes to the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graph_cache import read_graph, write_graph

DATA_VARIABLE = "FGL_SECURE_DATA"
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
    raw = (cache if data_root is None else data_root) / "Planetoid" / name / "raw"
    missing = _missing_files(raw, name)
    if missing and data_root is not None:
        raise DataNotFoundError(
            f"data_root must hold the raw files of {name}; not in {raw}: {', '.join(missing)}. Put the Planetoid raw "
            f"files there, or unset {DATA_VARIABLE} (and give no data_root) to let PyTorch Geometric download them"
        )
    if missing:
        _download(name, raw, cache)
    entry = cache / "graphs" / f"{name.lower()}-{_fingerprint(raw, name)}.npz"
    graph = read_graph(entry, name)
    if graph is None:
        graph = _parse(name, raw)
        write_graph(entry, graph)
    return graph


def _file_names(name: str) -> list[str]:
    return [f"ind.{name.lower()}.{part}" for part in _PARTS]


def _missing_files(raw: Path, name: str) -> list[str]:
    return [file for file in _file_names(name) if not (raw / file).is_file()]


def _fingerprint(raw: Path, name: str) -> str:
    """Tell raw folders apart, and notice when their files are replaced."""
    stats = [(raw / file).stat() for file in _file_names(name)]
    identity = [str(raw.resolve()), *(f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)]
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]


def _parse(name: str, raw: Path) -> Graph:
    # PyTorch Geometric unpickles the raw files. They are local files that the user chose to trust; nothing that comes
    # from a party of a protocol may ever be read this way.
    try:
        with _silence():
            from torch_geometric.io import read_planetoid_data  # noqa: PLC0415 (takes seconds)

            data = read_planetoid_data(str(raw), name)
        return Graph.from_arrays(name, data.x.numpy(), data.y.numpy(), data.edge_index.numpy())
    except Exception as error:  # a damaged pickle can raise anything
        raise InputError(
            f"the raw files of {name} must be Planetoid's; those in {raw} can't be read "
            f"({type(error).__name__}: {error})"
        ) from error


def _download(name: str, raw: Path, cache: Path) -> None:
    """Download and parse in a scratch folder first, so that only raw files that work reach the cache."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            with _silence():
                from torch_geometric.datasets import Planetoid  # noqa: PLC0415 (takes seconds)

                Planetoid(root=scratch, name=name)
            raw.mkdir(parents=True, exist_ok=True)
            for file in _file_names(name):
                os.replace(Path(scratch) / name / "raw" / file, raw / file)
    except Exception as error:  # the network, the server, the disk and the parser each have their own exceptions
        raise DataNotFoundError(
            f"{name} could not be downloaded into {cache} ({type(error).__name__}: {error}). Try again with a network "
            f"connection, or set {DATA_VARIABLE} to a folder that has Planetoid/{name}/raw/ with the files "
            f"{', '.join(_file_names(name))}"
        ) from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep PyTorch Geometric's progress lines and the deprecation warnings of its own imports from the caller."""
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield
