"""A graph whose nodes are devices of several silos: what every federated method, attack and audit is given.

It is read by its attributes alone: importing PyTorch Geometric takes seconds, and importing this package should not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph, as_array, read_only
from fgl_secure.graph.own_files import MASKS, REQUIRED, data_warnings, own_graph
from fgl_secure.graph.partition import AssignmentRules, SplitMasks, partition

if TYPE_CHECKING:
    from torch_geometric.data import Data


def _arrays_of(data: Any) -> tuple[dict[str, Any], list[str]]:
    """What a graph of PyTorch Geometric holds of `REQUIRED` and `MASKS`, and the names of all else."""
    if hasattr(data, "to_homogeneous"):
        raise InputError(
            f"data must have one type of nodes and edges; found {type(data).__name__}: take data.to_homogeneous(), in "
            "which nodes without a label have -1"
        )
    result = {key: getattr(data, key, None) for key in (*REQUIRED, *MASKS)}
    arrays = {key: value for key, value in result.items() if value is not None}
    names = data.keys() if callable(getattr(data, "keys", None)) else getattr(data, "__dict__", ())
    others = (str(name) for name in names if name not in (*result, "num_nodes"))
    unused = [name for name in others if getattr(data, name, None) is not None]
    if "edge_index" not in arrays and "adj_t" in unused:
        arrays["edge_index"], weighted = _edges_of(data.adj_t)
        unused = ["values of adj_t" if name == "adj_t" else name for name in unused if weighted or name != "adj_t"]
    missing = [key for key in REQUIRED if key not in arrays]
    if missing:
        raise InputError(
            f"data must have {', '.join(REQUIRED)} as torch_geometric.data.Data has them; missing: "
            f"{', '.join(missing)}; found {type(data).__name__}{_CONVERSIONS.get(type(data).__name__, '')}"
        )
    return arrays, unused


_CONVERSIONS = {
    "dict": ": take torch_geometric.data.Data(**data)",
    "Graph": ": take torch_geometric.utils.from_networkx(data), with x and y",
    "DiGraph": ": take torch_geometric.utils.from_networkx(data), with x and y",
}
"""By type of data, how PyTorch Geometric converts it."""


def _edges_of(adj_t: Any) -> tuple[NDArray[np.int64], bool]:
    """The edges of a transposed sparse adjacency matrix, of torch or torch_sparse, and whether they have weights.

    Sources are its columns.
    """
    if hasattr(adj_t, "coo"):
        target, source, values = adj_t.coo()
    else:
        coalesced = adj_t.to_sparse_coo().coalesce()
        (target, source), values = coalesced.indices(), coalesced.values()
    weighted = values is not None and bool((as_array("adj_t", values) != 1).any())
    return np.stack([as_array("adj_t", source), as_array("adj_t", target)]), weighted


def _dealt(graph: Graph, silos: ArrayLike | str | int, seed: int) -> tuple[str, ArrayLike]:
    """What an assignment is called, and the silo of each node."""
    if isinstance(silos, int | np.integer) and not isinstance(silos, bool):
        return "random", partition("random", graph, int(silos), seed)
    if not isinstance(silos, str):
        return "given", silos
    name, _, count = silos.partition(":")
    if not count.isdecimal():
        raise InputError(f"silos must be a number, one silo a node, or PARTITION:K such as louvain:5; found {silos!r}")
    return name, partition(name, graph, int(count), seed)


_RULES = AssignmentRules("silo_of", "node", "silo")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FederatedGraph:
    """A graph, the silo of each node, and the nodes that train, validate and test.

    Build one with `from_assignment` or `from_pyg`: the bare constructor trusts its arguments. All arrays are read-only.

    Attributes:
        graph: The whole graph, as only an omniscient observer sees it.
        silo_of: int64 [n] in 0..K-1; each of the K silos has a device and a training device.
        train_mask: bool [n].
        validation_mask: bool [n].
        test_mask: bool [n]; no node is in two masks.
        partition: What the assignment is called in tables.

    Examples:
        graph = FederatedGraph.from_pyg(data, "louvain:5")  # data of PyTorch Geometric
    """

    graph: Graph
    silo_of: NDArray[np.int64]
    train_mask: NDArray[np.bool_]
    validation_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]
    partition: str

    @classmethod
    def from_assignment(
        cls, graph: Graph, silo_of: ArrayLike, masks: SplitMasks, partition: str = "given"
    ) -> FederatedGraph:
        """Check an assignment of nodes to silos, and copy it.

        Args:
            graph: The graph, n nodes.
            silo_of: Integers [n] in 0..K-1.
            masks: Three disjoint masks, bool [n] or in another form of `read_mask`; each silo must have a
                training node.
            partition: What the assignment is called in tables.

        Raises:
            InputError: An argument breaks one of these rules; the message names the node or the silo.
        """
        checked = _RULES.checked_owners(silo_of, graph.num_nodes)
        train, validation, test = _RULES.checked_masks(masks, checked)
        return cls(graph, read_only(checked), read_only(train), read_only(validation), read_only(test), partition)

    @classmethod
    def from_pyg(
        cls,
        data: Data,
        silos: ArrayLike | str | int,
        *,
        name: str = "custom",
        seed: int = 0,
        split: int | None = None,
        verbose: bool = True,
    ) -> FederatedGraph:
        """Take a graph of your own from PyTorch Geometric, directed or undirected as it is.

            FederatedGraph.from_pyg(data, 5)                # five silos of equal size, at random
            FederatedGraph.from_pyg(data, "louvain:5")      # five silos of communities
            FederatedGraph.from_pyg(data, silo_of)          # as you say, one integer a node

        Args:
            data: Must have x [n, d], y [n] and edge_index [2, m] (or adj_t). A node with label -1 has none and is in
                no mask. Its train_mask, val_mask and test_mask are the split, in any form of `read_mask`; one that is
                missing marks no node. Without any of the three the nodes are split 60/20/20 at random.
            silos: Integers [n] in 0..K-1; or the number K of silos of equal size; or a partition by name and K, as
                "louvain:5" (see `PARTITIONS`).
            name: What the graph is called in tables.
            seed: Repeats the random split, and the partition.
            split: The column that is taken of masks [n, k], each of whose columns is a split.
            verbose: Whether to warn, by `DataWarning`, of what is dropped, not used or missing.

        Raises:
            InputError: Something is missing (the message says what), or breaks a rule of `Graph.from_arrays`, of
                `from_assignment` or of the partition.
        """
        arrays, unused = _arrays_of(data)
        with data_warnings(verbose=verbose):
            graph, masks = own_graph(name, arrays, seed, unused=unused, split=split)
        called, silo_of = _dealt(graph, silos, seed)
        return cls.from_assignment(graph, silo_of, masks, called)

    @property
    def num_devices(self) -> int:
        """The number of nodes n."""
        return self.graph.num_nodes

    @property
    def num_silos(self) -> int:
        """The number of silos K."""
        return int(self.silo_of.max()) + 1

    @property
    def num_classes(self) -> int:
        """One more than the largest label."""
        return self.graph.num_classes

    @property
    def features(self) -> NDArray[np.float32]:
        """The features of each node, float32 [n, d]."""
        return self.graph.features

    @property
    def labels(self) -> NDArray[np.int64]:
        """The label of each node, int64 [n]."""
        return self.graph.labels

    @property
    def edges(self) -> NDArray[np.int64]:
        """Sources above targets, int64 [2, m], sorted by (target, source)."""
        return self.graph.edges

    @property
    def in_degree(self) -> NDArray[np.int64]:
        """The number of messages that each node receives in one layer, int64 [n]."""
        return self.graph.in_degree

    @property
    def crosses_silos(self) -> NDArray[np.bool_]:
        """Whether source and target of each edge are in different silos, bool [m]."""
        source, target = self.silo_of[self.edges]
        crosses: NDArray[np.bool_] = source != target
        return crosses

    def devices_of(self, silo: int) -> NDArray[np.int64]:
        """The nodes of one silo in ascending order, int64.

        Raises:
            InputError: There is no such silo.
        """
        if not 0 <= silo < self.num_silos:
            raise InputError(f"silo must be in 0..{self.num_silos - 1}; found {silo}")
        return np.flatnonzero(self.silo_of == silo)

    def restricted_to_split(self) -> FederatedGraph:
        """Keep only the edges whose two ends are in the same mask, as HiFGL's published code does.

        That code still divides by the degrees in the full graph: take them from the original, which is unchanged.
        """
        split = self.train_mask + 2 * self.validation_mask + 3 * self.test_mask
        source, target = split[self.edges]
        remaining = self.edges[:, (source == target) & (source > 0)]
        return self._with_edges(remaining)

    def restricted_to_silos(self) -> FederatedGraph:
        """Keep only the edges whose two ends are in the same silo, as frameworks do that let no silo see another's."""
        return self._with_edges(self.edges[:, ~self.crosses_silos])

    def some_neighbourhoods(self, most: int, seed: int, *, filled: bool = False) -> FederatedGraph:
        """Keep some devices drawn at random, every party whom they hear from, and the edges between all these.

        What the drawn ones hear is what they hear in the whole graph; the others hear from those alone who stay. The
        first device of each silo stays as well, so that no silo is empty.

        Args:
            most: Devices that are kept at most, beside those first ones; one is drawn even if it hears from more.
            seed: Repeats the draw.
            filled: Whether more devices are drawn without those whom they hear from, until all draws have equally many.

        Returns:
            The smaller graph, whose devices are in the order that they have here.
        """
        source, target = self.edges
        starts = np.searchsorted(target, np.arange(self.num_devices + 1))
        selected = np.zeros(self.num_devices, dtype=np.bool_)
        order = np.random.default_rng(seed).permutation(self.num_devices)
        for device in order.tolist():
            group = np.append(source[starts[device] : starts[device + 1]], device)
            if selected.any() and selected.sum() + np.count_nonzero(~selected[group]) > most:
                break
            selected[group] = True
        selected[np.unique(self.silo_of, return_index=True)[1]] = True
        if filled:
            selected[order[~selected[order]][: most + self.num_silos - selected.sum()]] = True
        devices, place = np.flatnonzero(selected), np.cumsum(selected) - 1
        graph = replace(
            self.graph,
            stored=read_only(self.graph.features_of(devices)),
            labels=read_only(self.labels[devices]),
            edges=read_only(place[self.edges[:, selected[source] & selected[target]]]),
        )
        train, validation, test = (
            read_only(mask[devices]) for mask in (self.train_mask, self.validation_mask, self.test_mask)
        )
        silo_of = read_only(self.silo_of[devices])
        return FederatedGraph(graph, silo_of, train, validation, test, self.partition)

    def with_features(self, features: NDArray[Any]) -> FederatedGraph:
        """Return the same graph with other features, float [n, d]."""
        return replace(self, graph=replace(self.graph, stored=read_only(features.astype(np.float32))))

    def redealt(self, seed: int, *, split_apart: bool = False, clients_too: bool = False) -> FederatedGraph:
        """Other inputs of the same shape: in every silo the nodes swap places, and no node that can move stays.

        What is true of a node of one graph says nothing of the node with the same number in the other; silos have as
        many nodes, training nodes and edges between them as before.

        Args:
            seed: Repeats the swaps.
            split_apart: Whether training, validation and test nodes are drawn anew within each silo, so that the labels
                which a silo trains on change as well; else the masks move with the nodes.
            clients_too: Whether every silo has the next one's nodes in the end, so that its label counts change too.
        """
        swap = within_silos(self.silo_of, seed)
        drawn = within_silos(self.silo_of, seed + 1) if split_apart else swap
        place = np.argsort(swap)
        edges = place[self.edges]
        graph = replace(
            self.graph,
            stored=self.graph.reorder_features(swap),
            labels=read_only(self.labels[swap]),
            edges=read_only(edges[:, np.lexsort((edges[0], edges[1]))]),
        )
        train, validation, test = (
            read_only(mask[drawn]) for mask in (self.train_mask, self.validation_mask, self.test_mask)
        )
        silo_of = read_only((self.silo_of - 1) % self.num_silos) if clients_too else self.silo_of
        return FederatedGraph(graph, silo_of, train, validation, test, self.partition)

    def without_edges(self) -> FederatedGraph:
        """Drop all edges: what a model without message passing sees."""
        return self._with_edges(np.empty((2, 0), dtype=np.int64))

    def in_one_silo(self) -> FederatedGraph:
        """Put all nodes into one silo, with the masks as they are: the centralised reference."""
        return replace(self, silo_of=read_only(np.zeros(self.num_devices, dtype=np.int64)), partition="none")

    def _with_edges(self, edges: NDArray[np.int64]) -> FederatedGraph:
        return replace(self, graph=replace(self.graph, edges=read_only(edges)))

    def __repr__(self) -> str:
        return f"FederatedGraph({self.graph!r}, silos={self.num_silos}, partition={self.partition!r})"


def within_silos(silo_of: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Which node takes the place of each, int64 [n]: every silo's nodes along one random cycle.

    No node keeps its own place, but one that is alone in its silo.
    """
    swap = np.arange(len(silo_of))
    rng = np.random.default_rng(seed)
    for silo in range(int(silo_of.max()) + 1):
        cycle = rng.permutation(np.flatnonzero(silo_of == silo))
        swap[cycle] = np.roll(cycle, 1)
    return swap


def boundary_nodes(graph: FederatedGraph) -> NDArray[np.bool_]:
    """Which nodes have a neighbour, by an edge in either direction, outside their own silo: bool [n].

    Their share is eps_p of HiFGL (Eq. 6): it says what the partition exposes and nothing about a protocol.
    """
    on_boundary = np.zeros(graph.num_devices, dtype=np.bool_)
    on_boundary[graph.edges[:, graph.crosses_silos].ravel()] = True
    return on_boundary


def degree_one_share(graph: Graph) -> float:
    """The share of nodes that receive exactly one message in a layer, 0..1.

    For such a node the sum of the messages is the message, so no grouped sum can hide it from its receiver.
    """
    return float((graph.in_degree == 1).mean())
