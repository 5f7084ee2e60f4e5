"""Which graph a run is on, and who has what of it, before anything is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fgl_secure.config_fields import check_choices, choice
from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.datasets import find_dataset, load, load_set
from fgl_secure.graph.federated_graph import FederatedGraph
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.own_files import FORM, of_another_form, read_assignment, read_graph
from fgl_secure.graph.partition import PARTITIONS, SplitMasks, partition, random_split

THIRDS = (0.6, 0.2, 0.2)
"""Shares of the nodes that train, validate and test where a method names no others."""


@dataclass(frozen=True, slots=True)
class Data:
    """One graph whose nodes are dealt to silos.

    Attributes:
        name: of a data set, or path of an .npz file (see `read_graph`).
        partition: how nodes are assigned to silos, a key of `PARTITIONS`.
        silos: number of silos.
        silo_file: file with the silo of each node (see `read_assignment`); replaces partition and silos.
        root: folder of the raw data sets; None takes FGL_SECURE_DATA, then a download.
        split: of a graph of one's own, the column that is taken of masks [n, k].

    Raises:
        UnknownNameError: there is no such partition.

    Examples:
        >>> Data("digits", partition="louvain", silos=4).load().num_silos
        4
    """

    name: str = choice(
        "digits",
        "data set, see fgl-secure list datasets, or a graph of your own: the path of an .npz file with the arrays x, "
        "y, edge_index as in PyTorch Geometric",
        option="dataset",
    )
    partition: str = choice("random", "how devices are dealt to silos", known=tuple(PARTITIONS))
    silos: int = choice(5, "number of silos", shown="K")
    silo_file: Path | None = choice(
        None, "silo of each device, one integer a line or .npy; replaces --partition and --silos", shown="FILE"
    )
    root: Path | None = choice(
        None,
        "folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download",
        option="data-root",
        shown="DIR",
    )

    split: int | None = choice(
        None, "which split of your own graph's masks [n, k], whose columns are splits: 0 to k - 1", shown="COLUMN"
    )

    def __post_init__(self) -> None:
        check_choices(self)

    def load(self, seed: int = 0, fractions: tuple[float, float, float] = THIRDS) -> FederatedGraph:
        """Loads the graph, splits its nodes and assigns them to silos.

        Args:
            seed: of split and partition.
            fractions: shares of the nodes that train, validate and test; a user's own masks go before.

        Raises:
            UnknownNameError: there is no data set of that name.
            DataNotFoundError: its raw files are not there.
            InputError: a file breaks a rule, or a silo is left without a training node.
        """
        data, masks = self._load(seed, fractions)
        if self.silo_file is not None:
            return FederatedGraph.from_assignment(data, read_assignment(self.silo_file), masks)
        silo_of = partition(self.partition, data, self.silos, seed)
        idle = np.setdiff1d(np.arange(self.silos), silo_of[masks.train])
        if len(idle):
            raise InputError(
                f"silos must leave a training device to every silo; found {self.silos} for {data.num_nodes:,} devices "
                f"with seed {seed}, and silo {idle[0]} has none: take fewer silos, or another partition or seed"
            )
        return FederatedGraph.from_assignment(data, silo_of, masks, self.partition)

    def _load(self, seed: int, fractions: tuple[float, float, float]) -> tuple[Graph, SplitMasks]:
        path = Path(self.name)
        if self.name.strip().casefold().endswith(FORM):
            return read_graph(path, seed, split=self.split)
        if find_dataset(self.name) is None and (path.suffix or len(path.parts) > 1 or os.path.exists(self.name)):
            raise of_another_form(path)
        if self.split is not None:
            raise InputError(f"split must go with an .npz file whose masks have columns; found {self.name!r}")
        data = load(self.name, self.root)
        return data, random_split(data.num_nodes, seed, fractions)


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

    def load(self, seed: int = 0) -> GraphSet:
        """Loads or draws the set.

        Raises:
            UnknownNameError: there is none of that name.
            DataNotFoundError: its raw files are not there.
        """
        return load_set(self.name, seed, self.root)
