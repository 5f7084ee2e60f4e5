"""Batches of graphs as tensors, ready for a graph isomorphism network.

The first layer of a GIN sees (I + A)[X, 1], which never changes. Where nodes have few kinds of it, as with constant
features, where it says no more than a node's degree, the layer is computed once a kind and not once a node.

The graphs of a batch are padded to the largest of them; places without a node hold zeros.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.typing import Ids

Floats = NDArray[np.float32]

MOST_KINDS = 64
"""More kinds of nodes than this, and the first layer is computed for every node."""


@dataclass(frozen=True, slots=True, eq=False)
class _TypedEdges:
    """The m directed edges of a batch, sorted by target and source.

    Attributes:
        types: int64 [m], the type of each edge.
        sources: CSR [m, n], a one per edge at its source.
        outgoing: CSR [n, m], its transpose: a one per node at each edge that leaves it.
        targets: CSR [m, n], a one per edge at its target.
        incoming: CSR [n, m], its transpose.
    """

    types: torch.Tensor
    sources: torch.Tensor
    outgoing: torch.Tensor
    targets: torch.Tensor
    incoming: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class GraphBatch:
    """Graphs as one graph of many components.

    Attributes:
        features: float32 [n, d + 1], a node's features and a one.
        summed_rows: float32 [r, d + 1], rows of (I + A)[X, 1]: of every kind of node, or of every node.
        kind_of: float32 [n, r], a one at the kind of each node; None where `summed_rows` has a row a node.
        reach: CSR [n, n], I + A, which is symmetric.
        mean: CSR [b, n], one over the size of a graph at each of its nodes.
        spread: CSR [n, b], its transpose.
        graph_of: int64 [n], ascending.
        slot_of: int64 [n], where a node stands in an array of b times `longest` places.
        longest: nodes of the largest graph.
        targets: int64 [b] or float32 [b].
        bonds: the edges with their types; None for a set whose edges have no types.
    """

    features: torch.Tensor
    summed_rows: torch.Tensor
    kind_of: torch.Tensor | None
    reach: torch.Tensor
    mean: torch.Tensor
    spread: torch.Tensor
    graph_of: torch.Tensor
    slot_of: torch.Tensor
    longest: int
    targets: torch.Tensor
    bonds: _TypedEdges | None

    @property
    def graphs(self) -> int:
        """The number of graphs b."""
        return len(self.targets)


class GraphStore:
    """All graphs of a set, sorted once so that a batch is a few gathers.

    Args:
        sets: the graphs.
        device: where batches go.
        types: of nodes, where their features are that; as many as there are in the set unless given.
    """

    def __init__(self, sets: GraphSet, device: torch.device | None = None, types: int | None = None) -> None:
        # Has PyTorch say here, where no party hears it, that its CSR tensors are in beta state: it says so only once.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
            torch.zeros(1, 1).to_sparse_csr()
        self._sets, self._device = sets, device or torch.device("cpu")
        self._features = _with_ones(sets, types_of(sets) if types is None else types)
        self._sources, self._lengths, self._starts = _loops_added(sets)
        features = self._features
        ones = np.ones(sets.edges.shape[1], dtype=np.float32)
        adjacency = sparse.csr_array((ones, (sets.edges[1], sets.edges[0])), shape=(len(features),) * 2)
        received: Floats = adjacency @ features + features
        kinds, kind_of = (
            np.unique(received, axis=0, return_inverse=True) if len(received) else (received, np.zeros(0, int))
        )
        few = len(kinds) <= MOST_KINDS
        self._kinds = torch.from_numpy(kinds).to(self._device) if few else None
        self._summed_rows = received
        self._kind_of = np.eye(len(kinds), dtype=np.float32)[kind_of.reshape(-1)] if few else None

    @property
    def width(self) -> int:
        """The number d + 1 of features of a node, the one included."""
        return int(self._features.shape[1])

    def batch(self, ids: Ids) -> GraphBatch:
        """The graphs of these numbers, at least one, in this order."""
        nodes, graph_of, sizes = _ranges(self._sets.node_starts, ids)
        entries, entry_graph, _ = _ranges(self._starts, ids)
        first = np.cumsum(sizes) - sizes
        columns = self._sources[entries] + first[entry_graph]
        longest = int(sizes.max())
        put = self._put
        share = (1 / np.maximum(sizes, 1)).astype(np.float32)[graph_of]
        pointers = _pointers(self._lengths[nodes])
        return GraphBatch(
            put(self._features[nodes]),
            self._kinds if self._kinds is not None else put(self._summed_rows[nodes]),
            None if self._kind_of is None else put(self._kind_of[nodes]),
            self._csr(pointers, columns, np.ones(len(columns), np.float32), len(nodes)),
            self._csr(_pointers(sizes), np.arange(len(nodes)), share, len(nodes)),
            self._csr(np.arange(len(nodes) + 1), graph_of, share, len(ids)),
            put(graph_of),
            put(np.arange(len(nodes)) + (longest * np.arange(len(ids)) - first)[graph_of]),
            longest,
            put(self._sets.targets[ids]),
            None
            if self._sets.edge_types is None
            else self._typed_edges(ids, first, pointers - np.arange(len(pointers)), self._sets.edge_types),
        )

    def _typed_edges(self, ids: Ids, first: Ids, pointers: Ids, types: Ids) -> _TypedEdges:
        """The edges of graphs whose nodes begin at `first`; a node's incoming edges begin at its pointer."""
        columns, graph, _ = _ranges(self._sets.edge_starts, ids)
        sources, targets = self._sets.edges[:, columns] + (first - self._sets.node_starts[ids])[graph]
        count, nodes = len(columns), len(pointers) - 1
        numbers, ones = np.arange(count + 1), np.ones(count, np.float32)
        # every edge goes both ways, so a node has as many outgoing edges as incoming ones
        outgoing = np.lexsort((targets, sources))
        return _TypedEdges(
            self._put(types[columns]),
            self._csr(numbers, sources, ones, nodes),
            self._csr(pointers, outgoing, ones, count),
            self._csr(numbers, targets, ones, nodes),
            self._csr(pointers, numbers[:-1], ones, count),
        )

    def _put(self, values: NDArray[np.float32] | Ids) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)

    def _csr(self, pointers: Ids, columns: Ids, values: Floats, width: int) -> torch.Tensor:
        parts = (self._put(pointers), self._put(columns), self._put(values))
        return torch.sparse_csr_tensor(*parts, size=(len(pointers) - 1, width), check_invariants=False)


def types_of(sets: GraphSet) -> int:
    """One more than the largest type of a node; 0 where features are no types."""
    return int(sets.features[:, 0].max()) + 1 if sets.node_types else 0


def bond_types_of(sets: GraphSet) -> int:
    """Return one more than the largest type of an edge; 0 without types."""
    return 0 if sets.edge_types is None else int(sets.edge_types.max(initial=0)) + 1


def _with_ones(sets: GraphSet, kinds: int) -> Floats:
    """Float32 [n, d + 1]: features, types of nodes as one column a type, and a one."""
    features = sets.features
    if sets.node_types:
        features = np.eye(kinds, dtype=np.float32)[features[:, 0].astype(np.int64)]
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)


def _loops_added(sets: GraphSet) -> tuple[Ids, Ids, Ids]:
    """The rows of I + A: the source of each entry within its graph, entries of each row, and of each graph's start."""
    count = len(sets.features)
    loops = np.arange(count)
    sources, targets = np.concatenate([sets.edges[0], loops]), np.concatenate([sets.edges[1], loops])
    order = np.lexsort((sources, targets))
    local = sources[order] - sets.node_starts[sets.graph_of[targets[order]]]
    return local, np.bincount(targets, minlength=count), sets.edge_starts + sets.node_starts


def _ranges(starts: Ids, selection: Ids) -> tuple[Ids, Ids, Ids]:
    """Every number of the ranges starts[i]..starts[i+1]-1 of the chosen i, whose it is, and the lengths."""
    lengths = starts[selection + 1] - starts[selection]
    segment = np.repeat(np.arange(len(selection)), lengths)
    first = np.cumsum(lengths) - lengths
    return np.arange(len(segment)) + (starts[selection] - first)[segment], segment, lengths


def _pointers(lengths: Ids) -> Ids:
    return np.concatenate([[0], np.cumsum(lengths)])


def pad(values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """Rows of nodes [n, c] as [b, longest, c], zero where there is no node."""
    padded = cast("torch.Tensor", _Pad.apply(values, batch.slot_of, batch.graphs * batch.longest))  # type: ignore[no-untyped-call]
    return padded.reshape(batch.graphs, batch.longest, values.shape[1])


def graph_sums(values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """Rows of nodes [n, c] summed over the nodes of each graph, [b, c]; the same bits each time on any device."""
    return pad(values, batch).sum(dim=1)


def to_virtual(scores: torch.Tensor, values: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """What virtual nodes hear (inner sum of Eq. 6).

    Args:
        scores: padded s_vm [b, longest, M].
        values: h_v [n, c].
        batch: the graphs.

    Returns:
        [b, M, c], the sum over the nodes v of each graph of s_vm h_v.
    """
    return scores.transpose(1, 2) @ pad(values, batch)


def to_nodes(scores: torch.Tensor, virtual: torch.Tensor, batch: GraphBatch) -> torch.Tensor:
    """What nodes hear (second term of Eq. 5).

    Args:
        scores: padded s_vm [b, longest, M].
        virtual: h_m [b, M, c], of each graph.
        batch: the graphs.

    Returns:
        [n, c], the sum over the virtual nodes m of s_vm h_m.
    """
    # Rows of nodes [n, c] of an array [b, longest, c].
    padded = scores @ virtual
    rows = padded.reshape(-1, padded.shape[2])
    return cast("torch.Tensor", _Unpad.apply(rows, batch.slot_of))  # type: ignore[no-untyped-call]


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, slot_of: torch.Tensor, places: int) -> torch.Tensor:
        ctx.slot_of = slot_of
        return values.new_zeros(places, values.shape[1]).index_copy_(0, slot_of, values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].index_select(0, ctx.slot_of), None, None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, slot_of: torch.Tensor) -> torch.Tensor:
        ctx.slot_of, ctx.places = slot_of, len(rows)
        return rows.index_select(0, slot_of)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        zeros = gradients[0].new_zeros(ctx.places, gradients[0].shape[1])
        return zeros.index_copy_(0, ctx.slot_of, gradients[0]), None
