"""A set of small graphs, the client that has each of them, and which of them train, choose and test a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import MOST_CLASSES, Graph, integers, read_only
from fgl_secure.graph.federated_graph import FederatedGraph
from fgl_secure.graph.partition import AssignmentRules, SplitMasks

_TEST_SHARE = 0.2
"""FedVN (AAAI 2025, appendix E.1) trains on 80 % of a client's graphs and tests on the rest."""


def client_split(client_of: NDArray[np.int64], draw: np.random.Generator, validation: float) -> SplitMasks:
    """Split the graphs of every client at random: 20 % test, `validation` choose, the rest train.

    The published code has no validation graphs: that is `validation` 0. Which graphs test does not depend on it.

    Args:
        client_of: int64 [g], the client of each graph.
        draw: The source of the split.
        validation: Share of a client's graphs, 0 to 0.7.

    Raises:
        InputError: `validation` is out of range.
    """
    if not 0 <= validation <= 0.7:
        raise InputError(f"validation must be in 0..0.7, a share of a client's graphs; found {validation}")
    share = np.empty(len(client_of))
    for client in range(int(client_of.max()) + 1):
        graphs = np.flatnonzero(client_of == client)
        share[graphs[draw.permutation(len(graphs))]] = np.arange(len(graphs)) / len(graphs)
    test = share < _TEST_SHARE
    chooses = ~test & (share < _TEST_SHARE + validation - 1e-9)
    return SplitMasks(train=~test & ~chooses, validation=chooses, test=test)


_CLIENTS = AssignmentRules("client_of", "graph", "client")


def _checked_graph_of(values: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    """The graph of each node: ascending, none left out.

    Raises:
        InputError: It is not; the message names the node.
    """
    graph_of = integers("graph_of", values)
    if graph_of.shape != (num_nodes,):
        raise InputError(f"graph_of must have shape ({num_nodes},), one entry a node; found shape {graph_of.shape}")
    if graph_of[0] != 0:
        raise InputError(f"graph_of must begin with graph 0; node 0 has graph {graph_of[0]}")
    jumps = np.diff(graph_of)
    invalid = np.flatnonzero((jumps < 0) | (jumps > 1))
    if len(invalid):
        node = int(invalid[0]) + 1
        raise InputError(
            f"graph_of must ascend and leave out no graph; node {node} has graph {graph_of[node]} after "
            f"{graph_of[node - 1]}"
        )
    return graph_of


def _checked_node_types(features: NDArray[np.float32], node_types: bool) -> None:
    """Check that types of nodes, where features are that, are one column of integers from 0.

    Raises:
        InputError: They are not.
    """
    if not node_types:
        return
    if features.shape[1] != 1:
        raise InputError(f"features must be one column where node_types is set; found {features.shape[1]} columns")
    invalid = (features[:, 0] < 0) | (features[:, 0] != np.floor(features[:, 0]))
    if invalid.any():
        node = int(np.argmax(invalid))
        raise InputError(
            f"features must be integers from 0 where node_types is set; node {node} has {features[node, 0]}"
        )


MOST_EDGE_TYPES = 1024
"""Each has a learnt embedding per layer, and a column of a one-hot matrix."""


def _checked_edge_types(values: ArrayLike, edges: ArrayLike, graph: Graph) -> NDArray[np.int64]:
    """Return the type of each edge in the graph's canonical order, int64 [m].

    Raises:
        InputError: Types are not one integer from 0 per edge, or an edge's two directions have different types.
    """
    types, given = integers("edge_types", values), integers("edges", edges)
    if types.shape != given.shape[1:]:
        raise InputError(f"edge_types must have shape ({given.shape[1]},), one per edge; found shape {types.shape}")
    if len(types) and types.max() >= MOST_EDGE_TYPES:
        raise InputError(
            f"edge_types must stay below {MOST_EDGE_TYPES}; edge {int(types.argmax())} has {types.max()}: number "
            "them anew"
        )
    if len(types) and types.min() < 0:
        raise InputError(f"edge_types must be 0 or more; edge {int(types.argmin())} has {types.min()}")
    # both directions of an edge have one code
    code = given.max(axis=0, initial=0) * graph.num_nodes + given.min(axis=0, initial=graph.num_nodes)
    pairs, first, pair_of = np.unique(code, return_index=True, return_inverse=True)
    differing = types != types[first][pair_of]
    if differing.any():
        edge = int(np.argmax(differing))
        source, target = given[:, edge]
        raise InputError(
            f"edge_types must be the same in both directions; {source} -> {target} has {types[edge]} and "
            f"{types[first][pair_of][edge]}: give an edge one type"
        )
    wanted = graph.edges.max(axis=0, initial=0) * graph.num_nodes + graph.edges.min(axis=0, initial=graph.num_nodes)
    return read_only(types[first][np.searchsorted(pairs, wanted)])


def _checked_targets(values: ArrayLike, num_graphs: int) -> NDArray[np.int64] | NDArray[np.float32]:
    """Labels as int64 or values as float32, one a graph.

    Raises:
        InputError: They are neither; the message names the graph.
    """
    raw = np.asarray(values)
    if raw.dtype.kind not in "iuf":
        raise InputError(f"targets must be integers (labels) or real numbers (values); found dtype {raw.dtype}")
    if raw.shape != (num_graphs,):
        raise InputError(f"targets must have shape ({num_graphs},), one a graph; found shape {raw.shape}")
    if raw.dtype.kind == "f":
        invalid = ~np.isfinite(raw.astype(np.float32))
        rule = "finite"
    else:
        invalid = (raw < 0) | (raw >= MOST_CLASSES)
        rule = f"in 0..{MOST_CLASSES - 1} where they are labels"
    if invalid.any():
        graph = int(np.argmax(invalid))
        raise InputError(f"targets must be {rule}; graph {graph} has {raw[graph]}")
    return read_only(raw.astype(np.float32)) if raw.dtype.kind == "f" else read_only(raw.astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some graphs of a set as one graph of many components, renumbered from 0.

    Attributes:
        features: float32 [nodes, d], the nodes of the first graph first.
        edges: int64 [2, edges], source above target.
        graph_of: int64 [nodes], which of the b chosen graphs a node is of, ascending 0..b-1.
        targets: int64 [b] labels or float32 [b] values, in the order in which the graphs were asked for.
    """

    features: NDArray[np.float32]
    edges: NDArray[np.int64]
    graph_of: NDArray[np.int64]
    targets: NDArray[np.int64] | NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GraphSet:
    """Graphs with a label or a value each, dealt to clients: what federated graph classification is given.

    Build one with `from_arrays`: the bare constructor trusts its arguments. All arrays are read-only.

    Attributes:
        name: What the set is called in tables.
        features: float32 [n, d] of the n nodes of all graphs together.
        edges: int64 [2, m], source above target, numbers of nodes of the whole set, both directions; sorted by
            (target, source), so that the edges of a graph stand together.
        graph_of: int64 [n], the graph of each node, ascending 0..g-1.
        targets: int64 [g] labels or float32 [g] values.
        client_of: int64 [g] in 0..K-1, the client that has each graph.
        train: bool [g], the graphs that train a model.
        validation: bool [g], the graphs that choose it; may be empty.
        test: bool [g], the graphs that score it; no graph is in two of these.
        shift: What differs between the clients, such as "basis" or "scaffold".
        node_types: Whether the features are one column with the number of a node's type, which has no order.
        node_starts: int64 [g+1], where the nodes of each graph begin.
        edge_starts: int64 [g+1], where the edges of each graph begin.
        edge_types: int64 [m], the type of each edge, such as a bond's, which has no order; None without types.
    """

    name: str
    features: NDArray[np.float32]
    edges: NDArray[np.int64]
    graph_of: NDArray[np.int64]
    targets: NDArray[np.int64] | NDArray[np.float32]
    client_of: NDArray[np.int64]
    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]
    shift: str
    node_types: bool
    node_starts: NDArray[np.int64]
    edge_starts: NDArray[np.int64]
    edge_types: NDArray[np.int64] | None = None

    @classmethod
    def from_arrays(
        cls,
        name: str,
        features: ArrayLike,
        edges: ArrayLike,
        graph_of: ArrayLike,
        targets: ArrayLike,
        client_of: ArrayLike,
        masks: SplitMasks,
        shift: str,
        node_types: bool = False,
        edge_types: ArrayLike | None = None,
    ) -> GraphSet:
        """Check the arrays, copy them, and bring the edges into canonical order.

        Duplicate edges are merged and self-loops are dropped, as in `Graph.from_arrays`.

        Args:
            name: What the set is called in tables.
            features: Real numbers [n, d], n and d at least 1, finite as float32.
            edges: Integers [2, m] in 0..n-1, every edge in both directions and inside one graph; m may be 0.
            graph_of: Integers [n], ascending, every graph 0..g-1 at least once.
            targets: Integers [g], 0 or more (labels), or finite real numbers [g] (values).
            client_of: Integers [g], every client 0..K-1 at least once.
            masks: Three disjoint bool [g] over graphs; each client must have a training graph.
            shift: What differs between the clients.
            node_types: Whether the features are one column of integers from 0.
            edge_types: Integers [m] from 0, the type of each edge, the same in both directions; None without types.

        Raises:
            InputError: An argument breaks one of these rules; the message names the node, edge, graph or client.
        """
        graph = Graph.from_arrays(name, features, np.zeros(len(np.atleast_1d(features)), dtype=np.int64), edges)
        owner = _checked_graph_of(graph_of, graph.num_nodes)
        num_graphs = int(owner[-1]) + 1
        # Check that no edge joins two graphs, and that every edge goes both ways.
        between = owner[graph.edges[0]] != owner[graph.edges[1]]
        if between.any():
            source, target = graph.edges[:, int(np.argmax(between))]
            raise InputError(f"edges must stay inside one graph; {source} -> {target} joins two")
        if not graph.is_symmetric:
            source, target = graph.edges
            forward, back = target * graph.num_nodes + source, source * graph.num_nodes + target
            lonely = int(np.argmax(~np.isin(back, forward)))
            raise InputError(
                f"edges must be there in both directions; {source[lonely]} -> {target[lonely]} has no return"
            )
        _checked_node_types(graph.features, node_types)
        clients = _CLIENTS.checked_owners(client_of, num_graphs)
        train, validation, test = _CLIENTS.checked_masks(masks, clients)
        starts = np.arange(num_graphs + 1)
        return cls(
            name=name,
            features=graph.features,
            edges=graph.edges,
            graph_of=read_only(owner),
            targets=_checked_targets(targets, num_graphs),
            client_of=read_only(clients),
            train=read_only(train),
            validation=read_only(validation),
            test=read_only(test),
            shift=shift,
            node_types=node_types,
            node_starts=read_only(np.searchsorted(owner, starts).astype(np.int64)),
            edge_starts=read_only(np.searchsorted(owner[graph.edges[1]], starts).astype(np.int64)),
            edge_types=None if edge_types is None else _checked_edge_types(edge_types, edges, graph),
        )

    @property
    def num_graphs(self) -> int:
        """The number of graphs g."""
        return len(self.targets)

    @property
    def num_clients(self) -> int:
        """The number of clients K."""
        return int(self.client_of.max()) + 1

    @property
    def num_classes(self) -> int:
        """One more than the largest label; 0 where the targets are values."""
        return int(self.targets.max()) + 1 if self.targets.dtype == np.int64 else 0

    @property
    def num_features(self) -> int:
        """The number of features d of a node."""
        return int(self.features.shape[1])

    def graphs_of(self, client: int) -> NDArray[np.int64]:
        """The graphs of one client in ascending order, int64.

        Raises:
            InputError: There is no such client.
        """
        if not 0 <= client < self.num_clients:
            raise InputError(f"client must be in 0..{self.num_clients - 1}; found {client}")
        return np.flatnonzero(self.client_of == client)

    def only(self, client: int) -> GraphSet:
        """The graphs of one client, in the same order, as a set with that client alone.

        Raises:
            InputError: There is no such client.
        """
        ids = self.graphs_of(client)
        batch, starts = self.batch(ids), np.arange(len(ids) + 1)
        batch.targets.setflags(write=False)
        return replace(
            self,
            features=read_only(batch.features),
            edges=read_only(batch.edges),
            graph_of=read_only(batch.graph_of),
            targets=batch.targets,
            client_of=read_only(np.zeros(len(ids), dtype=np.int64)),
            train=read_only(self.train[ids]),
            validation=read_only(self.validation[ids]),
            test=read_only(self.test[ids]),
            node_starts=read_only(np.searchsorted(batch.graph_of, starts).astype(np.int64)),
            edge_starts=read_only(np.searchsorted(batch.graph_of[batch.edges[1]], starts).astype(np.int64)),
            edge_types=None
            if self.edge_types is None
            else read_only(self.edge_types[_ranges(self.edge_starts, ids)[0]]),
        )

    def union(self) -> FederatedGraph:
        """All graphs as one graph of many components, whose silos are the clients.

        A node has the silo, the label and the masks of its graph. Where the targets are values, every label is 0.
        """
        labels = self.targets.astype(np.int64) if self.num_classes else np.zeros(self.num_graphs, dtype=np.int64)
        graph = Graph(self.name, self.features, read_only(labels[self.graph_of]), self.edges)
        masks = SplitMasks(self.train[self.graph_of], self.validation[self.graph_of], self.test[self.graph_of])
        return FederatedGraph.from_assignment(graph, self.client_of[self.graph_of], masks, self.shift)

    def batch(self, ids: ArrayLike) -> Batch:
        """The graphs of these numbers as one renumbered graph.

        Args:
            ids: Integers [b] in 0..g-1, at least one; a graph may come twice.

        Raises:
            InputError: `ids` breaks this rule.
        """
        chosen = integers("ids", ids)
        if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= self.num_graphs:
            raise InputError(f"ids must be one or more graphs in 0..{self.num_graphs - 1}; found {chosen.tolist()}")
        nodes, graph_of = _ranges(self.node_starts, chosen)
        columns, edge_graph = _ranges(self.edge_starts, chosen)
        # Nodes of a graph keep their order, so all of them move by the same distance.
        moved = np.searchsorted(graph_of, np.arange(len(chosen))) - self.node_starts[chosen]
        edges = self.edges[:, columns] + moved[edge_graph]
        return Batch(self.features[nodes], edges, graph_of, self.targets[chosen])

    def __repr__(self) -> str:
        return (
            f"GraphSet({self.name!r}, graphs={self.num_graphs}, clients={self.num_clients}, "
            f"nodes={len(self.features)}, edges={self.edges.shape[1]}, features={self.num_features})"
        )


def _ranges(starts: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every number of the ranges starts[i]..starts[i+1]-1 of the chosen i, and which of the chosen it is of."""
    lengths = starts[chosen + 1] - starts[chosen]
    segment = np.repeat(np.arange(len(chosen)), lengths)
    first = np.cumsum(lengths) - lengths
    return np.arange(len(segment)) + (starts[chosen] - first)[segment], segment
