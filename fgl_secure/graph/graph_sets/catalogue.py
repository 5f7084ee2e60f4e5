"""The sets of graphs that can be loaded by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from fgl_secure.choices import choice
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.graph_sets.colour_digits import colour_digits
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.graph.graph_sets.motif import (
    motif_basis,
    motif_basis_concept,
    motif_mini,
    motif_size,
    motif_size_concept,
)
from fgl_secure.graph.graph_sets.set_cache import kept_set
from fgl_secure.graph.graph_sets.zinc import zinc
from fgl_secure.graph.raw_files import DATA_VARIABLE, chosen_folder


@dataclass(frozen=True, slots=True)
class GraphSetInfo:
    """What a listing says about a set of graphs.

    Attributes:
        name: What `load_set` calls it.
        clients: The number of clients K.
        graphs: Graphs a client.
        features: The number of features of a node.
        classes: The number of classes; 0 where a value is predicted.
        shift: What differs between the clients.
        description: One line.
    """

    name: str
    clients: int
    graphs: int
    features: int
    classes: int
    shift: str
    description: str


@dataclass(frozen=True, slots=True)
class _Entry:
    info: GraphSetInfo
    make: Callable[[int, Path | None], GraphSet]


_ENTRIES = (
    _Entry(
        GraphSetInfo("Motif-mini", 3, 60, 1, 3, "basis", "Motif-basis in small, for tries and audits; generated"),
        lambda seed, _root: motif_mini(seed),
    ),
    _Entry(
        GraphSetInfo("Motif-basis", 5, 1000, 1, 3, "basis", "a motif at a base that differs by client; generated"),
        lambda seed, _root: motif_basis(seed),
    ),
    _Entry(
        GraphSetInfo("Motif-size", 5, 1000, 1, 3, "size", "a motif at a base whose size differs by client; generated"),
        lambda seed, _root: motif_size(seed),
    ),
    _Entry(
        GraphSetInfo(
            "Motif-basis-concept",
            5,
            1000,
            1,
            3,
            "basis concept",
            "a motif, and a base that follows it or not; generated",
        ),
        lambda seed, _root: motif_basis_concept(seed),
    ),
    _Entry(
        GraphSetInfo(
            "Motif-size-concept", 5, 1000, 1, 3, "size concept", "a motif, and a size that follows it or not; generated"
        ),
        lambda seed, _root: motif_size_concept(seed),
    ),
    _Entry(
        GraphSetInfo("CMNIST", 5, 1000, 3, 10, "color", "superpixels of digits, a colour a client; needs scikit-image"),
        partial(kept_set, "CMNIST", colour_digits),
    ),
    _Entry(
        GraphSetInfo("ZINC", 10, 1000, 1, 0, "scaffold", "solubility of molecules, skeletons by client; needs RDKit"),
        partial(kept_set, "ZINC", zinc),
    ),
)
_BY_NAME: Mapping[str, _Entry] = MappingProxyType({entry.info.name.casefold(): entry for entry in _ENTRIES})

_WITHOUT_FEATURES = "sst2"


def available_sets() -> tuple[str, ...]:
    """The names that `load_set` knows."""
    return tuple(entry.info.name for entry in _ENTRIES)


def describe_sets() -> tuple[GraphSetInfo, ...]:
    """One record a set, in the order of `available_sets`. Nothing is loaded."""
    return tuple(entry.info for entry in _ENTRIES)


def load_set(name: str, seed: int = 0, data_root: str | os.PathLike[str] | None = None) -> GraphSet:
    """Load or generate a set of graphs by name.

    Args:
        name: One of `available_sets()`, in upper or lower case.
        seed: Repeats the graphs that are drawn and their split.
        data_root: The folder with the raw files of CMNIST and ZINC; by default the environment variable
            FGL_SECURE_DATA.

    CMNIST and ZINC are kept in the cache (FGL_SECURE_CACHE, or the user's cache folder), since making them takes about
    half a minute.

    Raises:
        UnknownNameError: There is no set of that name.
        DataNotFoundError: Its files are not there; the message says where they were looked for.
        InputError: A library that it needs is not installed, its files can't be read, or the seed is negative.
    """
    if name.casefold() == _WITHOUT_FEATURES:
        raise InputError(
            "graph set SST2 can't be had: its features are embeddings of a language model, its edges a parser's, and "
            f"neither comes with the sentences; the sets are {', '.join(available_sets())}"
        )
    entry = _BY_NAME.get(name.casefold())
    if entry is None and os.path.exists(name):
        raise InputError(
            f"graph set must be one of {', '.join(available_sets())}, for clients have many graphs; found {name}: a "
            "file with one graph is for the other methods"
        )
    if entry is None:
        raise UnknownNameError("graph set", name, available_sets())
    return entry.make(seed, chosen_folder(data_root, DATA_VARIABLE))


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
