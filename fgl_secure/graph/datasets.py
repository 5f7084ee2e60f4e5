"""The data sets that can be loaded by name: those of this package, and those of others by entry points.

An entry point of group `fgl_secure.datasets` names a `GraphDataset`, or a
`fgl_secure.graph.graph_sets.GraphSetDataset` of many small graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from fgl_secure import plugins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.digits import load_digits_graph
from fgl_secure.graph.npz_archives import load_coauthor, load_dblp, load_photo
from fgl_secure.graph.planetoid import load_planetoid
from fgl_secure.graph.raw_files import DATA_VARIABLE, cache_folder, chosen_folder

GROUP = "fgl_secure.datasets"


@dataclass(frozen=True, slots=True)
class Dataset:
    """What all data sets have.

    Attributes:
        name: on the command line and in Python, in upper or lower case.
        description: one line for listings.
        load: returns the data; its arguments depend on the kind of data set.
    """

    name: str
    description: str
    load: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class GraphDataset(Dataset):
    """A data set of one graph.

    `load(data_root, cache)` returns a `Graph`, with the folder of raw files or None, and the folder for downloads.

    Attributes:
        nodes: number of nodes.
        edges: number of directed edges; each undirected edge counts twice.
        features: number of features of a node.
        classes: number of classes.
    """

    nodes: int
    edges: int
    features: int
    classes: int


Kind = TypeVar("Kind", bound=Dataset)


def installed_datasets(kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the data sets of one kind that other packages register.

    Raises:
        InputError: an entry point names something else, or does not load.
    """
    loaded = []
    for point in sorted(plugins.installed_plugins(GROUP)):
        dataset = plugins.load_plugin(point)
        if not isinstance(dataset, Dataset):
            raise InputError(f"entry point {point.name} of {GROUP} must name a Dataset; found {point.value}")
        loaded.append(dataset)
    return tuple(dataset for dataset in loaded if isinstance(dataset, kind))


def find_dataset(name: str, own: Mapping[str, Kind], kind: type[Kind]) -> Kind | None:
    """Return a data set by its name, or None. Plugins are loaded only for names that this package lacks.

    Args:
        name: in upper or lower case.
        own: data sets of this package, by lower-case name.
        kind: the class of data sets to look for.
    """
    wanted = name.casefold()
    if wanted in own:
        return own[wanted]
    return next((dataset for dataset in installed_datasets(kind) if dataset.name.casefold() == wanted), None)


def _digits(_data_root: Path | None, _cache: Path) -> Graph:
    return load_digits_graph()


_OWN: Mapping[str, GraphDataset] = MappingProxyType({dataset.name.casefold(): dataset for dataset in (
    GraphDataset("digits", "8x8 images of digits joined to their 5 nearest; no download",
                 _digits, 1797, 12616, 64, 10),
    GraphDataset("Cora", "papers on machine learning joined by citations",
                 partial(load_planetoid, "Cora"), 2708, 10556, 1433, 7),
    GraphDataset("CiteSeer", "papers on computer science joined by citations, 48 of them alone",
                 partial(load_planetoid, "CiteSeer"), 3327, 9104, 3703, 6),
    GraphDataset("PubMed", "papers on diabetes joined by citations",
                 partial(load_planetoid, "PubMed"), 19717, 88648, 500, 3),
    GraphDataset("Photo", "Amazon Photo: goods joined where they are bought together",
                 load_photo, 7650, 238162, 745, 8),
    GraphDataset("CS", "authors in computer science joined by joint papers (MSAcademic)",
                 partial(load_coauthor, "CS"), 18333, 163788, 6805, 15),
    GraphDataset("Physics", "authors in physics joined by joint papers; loading takes 2.6 GB",
                 partial(load_coauthor, "Physics"), 34493, 495924, 8415, 5),
    GraphDataset("DBLP", "papers on four fields of computer science joined by citations",
                 load_dblp, 17716, 105734, 1639, 4),
)})  # fmt: skip


def available() -> tuple[str, ...]:
    """Return the names that `load` knows, those of this package first."""
    return tuple(dataset.name for dataset in describe())


def describe() -> tuple[GraphDataset, ...]:
    """Return all data sets of one graph, those of this package first. No graph is loaded."""
    others = (dataset for dataset in installed_datasets(GraphDataset) if dataset.name.casefold() not in _OWN)
    return (*_OWN.values(), *others)


def is_known(name: str) -> bool:
    """Return whether `load` knows a name."""
    return find_dataset(name, _OWN, GraphDataset) is not None


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
        InputError: Its files can't be read, or a package with data sets does not load.
    """
    dataset = find_dataset(name, _OWN, GraphDataset)
    if dataset is None:
        raise UnknownNameError("data set", name, available())
    graph: Graph = dataset.load(chosen_folder(data_root, DATA_VARIABLE), cache_folder(cache_dir))
    return graph
