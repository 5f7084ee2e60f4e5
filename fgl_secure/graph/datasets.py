"""The data sets that can be loaded by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from fgl_secure.errors import UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.digits import load_digits_graph
from fgl_secure.graph.npz_archives import load_coauthor, load_dblp, load_photo
from fgl_secure.graph.planetoid import load_planetoid
from fgl_secure.graph.raw_files import DATA_VARIABLE, cache_folder, chosen_folder
from fgl_secure.graph.wikipedia import load_chameleon


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a listing says about a data set.

    Attributes:
        name: What `load` calls it.
        nodes: The number of nodes.
        edges: The number of directed edges; each undirected edge counts twice.
        features: The number of features of a node.
        classes: The number of classes.
        description: One line.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    description: str


@dataclass(frozen=True, slots=True)
class _Entry:
    info: DatasetInfo
    load: Callable[[Path | None, Path], Graph]


def _digits(_data_root: Path | None, _cache: Path) -> Graph:
    return load_digits_graph()


_ENTRIES = (
    _Entry(
        DatasetInfo("digits", 1797, 12616, 64, 10, "8x8 images of digits joined to their 5 nearest; no download"),
        _digits,
    ),
    _Entry(
        DatasetInfo("Cora", 2708, 10556, 1433, 7, "papers on machine learning joined by citations"),
        partial(load_planetoid, "Cora"),
    ),
    _Entry(
        DatasetInfo(
            "CiteSeer", 3327, 9104, 3703, 6, "papers on computer science joined by citations, 48 of them alone"
        ),
        partial(load_planetoid, "CiteSeer"),
    ),
    _Entry(
        DatasetInfo("PubMed", 19717, 88648, 500, 3, "papers on diabetes joined by citations"),
        partial(load_planetoid, "PubMed"),
    ),
    _Entry(
        DatasetInfo("Chameleon", 2277, 36051, 2325, 5, "pages of Wikipedia joined by links that have a direction"),
        load_chameleon,
    ),
    _Entry(
        DatasetInfo("Photo", 7650, 238162, 745, 8, "Amazon Photo: goods joined where they are bought together"),
        load_photo,
    ),
    _Entry(
        DatasetInfo("CS", 18333, 163788, 6805, 15, "authors in computer science joined by joint papers (MSAcademic)"),
        partial(load_coauthor, "CS"),
    ),
    _Entry(
        DatasetInfo(
            "Physics", 34493, 495924, 8415, 5, "authors in physics joined by joint papers; loading takes 2.6 GB"
        ),
        partial(load_coauthor, "Physics"),
    ),
    _Entry(
        DatasetInfo("DBLP", 17716, 105734, 1639, 4, "papers on four fields of computer science joined by citations"),
        load_dblp,
    ),
)
_BY_NAME: Mapping[str, _Entry] = MappingProxyType({entry.info.name.casefold(): entry for entry in _ENTRIES})


def available() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(entry.info.name for entry in _ENTRIES)


def describe() -> tuple[DatasetInfo, ...]:
    """One record a data set, in the order of `available`. Nothing is loaded."""
    return tuple(entry.info for entry in _ENTRIES)


def load(
    name: str, data_root: str | os.PathLike[str] | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> Graph:
    """Load a data set by name.

    Args:
        name: One of `available()`, in upper or lower case.
        data_root: The folder with the raw files, Planetoid/Cora/raw/ind.cora.x and so on; it is never written to. By
            default the environment variable FGL_SECURE_DATA, and without that PyTorch Geometric downloads to the cache.
        cache_dir: Where downloads and parsed graphs are kept. By default the environment variable FGL_SECURE_CACHE, and
            without that the user's cache folder.

    Raises:
        UnknownNameError: There is no data set of that name.
        DataNotFoundError: Its files are not there and could not be had; the message says where they were looked for.
        InputError: Its files can't be read.
    """
    entry = _BY_NAME.get(name.casefold())
    if entry is None:
        raise UnknownNameError("data set", name, available())
    return entry.load(chosen_folder(data_root, DATA_VARIABLE), cache_folder(cache_dir))
