"""The sets of graphs that can be loaded by name: those of this package, and those of others by entry points."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fgl_secure.choices import choice
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.datasets import Dataset, find_dataset, installed_datasets
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.graph.graph_sets.motif import (
    motif_basis,
    motif_basis_concept,
    motif_mini,
    motif_size,
    motif_size_concept,
)
from fgl_secure.graph.raw_files import DATA_VARIABLE, chosen_folder


@dataclass(frozen=True, slots=True)
class GraphSetDataset(Dataset):
    """A data set of many small graphs, of which every client has some.

    `load(seed, data_root)` returns a `GraphSet`, with the folder of raw files or None.

    Attributes:
        clients: number of clients.
        graphs: graphs per client.
        features: number of features of a node.
        classes: number of classes; 0 if a value is predicted.
        shift: what differs between the clients.
    """

    clients: int
    graphs: int
    features: int
    classes: int
    shift: str


_OWN: Mapping[str, GraphSetDataset] = MappingProxyType({dataset.name.casefold(): dataset for dataset in (
    GraphSetDataset("Motif-mini", "Motif-basis in small, for tries and audits; generated",
                    lambda seed, _root: motif_mini(seed), 3, 60, 1, 3, "basis"),
    GraphSetDataset("Motif-basis", "a motif at a base that differs by client; generated",
                    lambda seed, _root: motif_basis(seed), 5, 1000, 1, 3, "basis"),
    GraphSetDataset("Motif-size", "a motif at a base whose size differs by client; generated",
                    lambda seed, _root: motif_size(seed), 5, 1000, 1, 3, "size"),
    GraphSetDataset("Motif-basis-concept", "a motif, and a base that follows it or not; generated",
                    lambda seed, _root: motif_basis_concept(seed), 5, 1000, 1, 3, "basis concept"),
    GraphSetDataset("Motif-size-concept", "a motif, and a size that follows it or not; generated",
                    lambda seed, _root: motif_size_concept(seed), 5, 1000, 1, 3, "size concept"),
)})  # fmt: skip


def available_sets() -> tuple[str, ...]:
    """Return the names that `load_set` knows, those of this package first."""
    return tuple(dataset.name for dataset in describe_sets())


def describe_sets() -> tuple[GraphSetDataset, ...]:
    """Return all data sets of many graphs, those of this package first. No graph is loaded."""
    others = (dataset for dataset in installed_datasets(GraphSetDataset) if dataset.name.casefold() not in _OWN)
    return (*_OWN.values(), *others)


def is_known_set(name: str) -> bool:
    """Return whether `load_set` knows a name."""
    return find_dataset(name, _OWN, GraphSetDataset) is not None


def load_set(name: str, seed: int = 0, data_root: str | os.PathLike[str] | None = None) -> GraphSet:
    """Load or generate a set of graphs by name.

    Args:
        name: One of `available_sets()`, in upper or lower case.
        seed: Repeats the graphs that are drawn and their split.
        data_root: The folder with raw files, for sets that need them; by default the environment variable
            FGL_SECURE_DATA.

    Raises:
        UnknownNameError: There is no set of that name.
        DataNotFoundError: Its files are not there; the message says where they were looked for.
        InputError: A library that it needs is not installed, its files can't be read, or the seed is negative.
    """
    dataset = find_dataset(name, _OWN, GraphSetDataset)
    if dataset is None and os.path.exists(name):
        raise InputError(
            f"graph set must be one of {', '.join(available_sets())}, for clients have many graphs; found {name}: a "
            "file with one graph is for the other methods"
        )
    if dataset is None:
        raise UnknownNameError("graph set", name, available_sets())
    graphs: GraphSet = dataset.load(seed, chosen_folder(data_root, DATA_VARIABLE))
    return graphs


@dataclass(frozen=True, slots=True)
class GraphSets:
    """Many small graphs; which client has which comes with them.

    Attributes:
        name: of a set.
        root: folder of the raw data sets; None takes FGL_SECURE_DATA.
    """

    name: str = choice("Motif-mini", "set of graphs, see fgl-secure list datasets", option="dataset")
    root: Path | None = choice(
        None, "folder of raw data sets; None takes FGL_SECURE_DATA", option="data-root", shown="DIR"
    )

    def drawn(self, seed: int = 0) -> GraphSet:
        """Loads or draws the set.

        Raises:
            UnknownNameError: there is none of that name.
            DataNotFoundError: its raw files are not there.
        """
        return load_set(self.name, seed, self.root)
