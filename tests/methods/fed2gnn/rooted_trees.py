"""Rooted trees of Fed2GNN (4.1) and the weights with which a root has its node's own embedding: oracles of what is run.

Layer 0 is the root. The children of a tree node are the neighbours of the graph node that it stands for, but for the
one that its father stands for. Father and children together are then all neighbours of that node, in every layer but
the last, so a K-layer GNN cannot tell the root of a K-layer tree from the node in its graph.

A tree may stand alone, or hang on the local graph of its root's client. Then only the neighbours at other clients are
children of the root: the others are there already, with trees of their own.

A layer is H <- sigma(P H W + b), and for GraphSAGE H <- sigma(H W_own + P H W + b). P[v, u] is the weight of the
message from u to v, and need not be that from v to u. With D the number of neighbours in the graph + 1, and h the
embeddings in the graph, GCN has h_v <- sigma(sum of h_u W / sqrt(D_v D_u) over u in N_v and v itself).

Any K. Let position v of a tree hold c_v h_v with c_v > 0, and the leaf below v hold c times the sum of
x_j / sqrt(D_j) over the children j that it stands for, which one client can add up without knowing D_v. Then

    P[v, u] = c_v / (c_u sqrt(D_v D_u)), u a father, a child, a linked root or v itself,
    P[v, leaf] = c_v / (c sqrt(D_v))

gives c_v h_v again in the next layer, for ReLU commutes with positive factors; a bias does not, and v needs c_v b.
With c_v = 1 everywhere, the default, any activation and any bias will do. Messages to leaves reach no root within K
layers and have no weight.

Appendix A has K = 2, c_v = sqrt(3 / D_m) for the neighbours m of the root i and c = sqrt(2), by the degrees 3 and 2,
self-loops included, that they have in the tree (`published_scale`, for any K). Its weights are the ones above but for
one: it prints sqrt(3) / (D_i sqrt(D_m)) for the message from i to m, also in its Eq. 10. That is right only where the
two degrees agree. It has to be sqrt(3) / (D_m sqrt(D_i)).

GraphSAGE's mean needs the numbers of neighbours and no factors: P[v, u] = 1 / |N_v|, the leaf holding a plain sum.

A leaf serves models whose first step is linear. DAGNN puts rows through a perceptron first: its leaves would have to
add up what comes out, or trees be one layer deeper, so that K layers have their nodes laid out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods.fed2gnn.grouping import check_undirected

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TreeShape:
    """Which positions of a forest are joined; roots come first, and fathers before children.

    Attributes:
        hops: K, the number of the last layer.
        father: int64 [t], the position of each father; -1 for roots.
        layer: int64 [t], ascending from 0.
        links: int64 [2, l], positions of roots that are joined in the local graph, in both directions, sources above
            targets; [2, 0] where every tree stands alone.
    """

    hops: int
    father: Ids
    layer: Ids
    links: Ids

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise InputError(f"hops must be at least 1; found {self.hops}")
        if self.father.shape != self.layer.shape or self.father.ndim != 1:
            raise InputError(
                f"father and layer must be vectors of one length; found {self.father.shape} and {self.layer.shape}"
            )
        below = self.father >= 0
        if (below != (self.layer > 0)).any() or (self.layer[self.father[below]] + 1 != self.layer[below]).any():
            raise InputError("father must be in the layer before, and -1 in layer 0; found one that is not")
        if (np.diff(self.layer) < 0).any() or int(self.layer.max(initial=0)) > self.hops:
            raise InputError(f"layer must ascend from 0 to at most hops={self.hops}; found {self.layer.tolist()[:20]}")

    @property
    def size(self) -> int:
        """Positions t."""
        return len(self.father)

    @property
    def roots(self) -> int:
        """How many roots: positions 0 to roots - 1."""
        return int(np.searchsorted(self.layer, 1))

    @property
    def leaves(self) -> NDArray[np.bool_]:
        """Bool [t], whether a position is in the last layer."""
        last: NDArray[np.bool_] = self.layer == self.hops
        return last

    @property
    def joined(self) -> Ids:
        """int64 [2, m], positions that are joined, in both directions, sources above targets."""
        child = np.flatnonzero(self.father >= 0)
        father = self.father[child]
        return np.concatenate([self.links, np.stack([child, father]), np.stack([father, child])], axis=1)

    @property
    def neighbours(self) -> Ids:
        """int64 [t], how many positions each is joined to."""
        return np.bincount(self.joined[1], minlength=self.size).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FoldedTrees:
    """Trees whose last layer has at most one leaf a father.

    Attributes:
        shape: who is joined to whom.
        holds: CSR [t, n], a 1 at the node that a position stands for, or at all those whose features a leaf adds up.
    """

    shape: TreeShape
    holds: sparse.csr_array

    def at(self, values: NDArray[np.int64]) -> Ids:
        """int64 [t], what `values` [n] say of the node that each position stands for; 0 for leaves."""
        found: Ids = (self.holds @ values).astype(np.int64)
        found[self.shape.leaves] = 0
        return found


LARGEST_TREES = 50_000_000
"""Most nodes of all trees together; their number grows with the power of the degree."""


@dataclass(frozen=True, slots=True, eq=False)
class RootedTrees:
    """Trees of K layers below their roots, all nodes laid out.

    Attributes:
        shape: who is joined to whom.
        origin: int64 [t], the node of the graph that each position stands for.
        nodes: n, nodes of the graph.
    """

    shape: TreeShape
    origin: Ids
    nodes: int

    def folded(self) -> FoldedTrees:
        """Makes one leaf of all children that a node has in the last layer (4.1, "a single node")."""
        shape, origin = self.shape, self.origin
        inner = int(np.searchsorted(shape.layer, shape.hops))
        fathers, leaf = np.unique(shape.father[inner:], return_inverse=True)
        folded = TreeShape(
            shape.hops,
            np.concatenate([shape.father[:inner], fathers]),
            np.concatenate([shape.layer[:inner], np.full(len(fathers), shape.hops)]),
            shape.links,
        )
        holder = np.concatenate([np.arange(inner), inner + leaf])
        holds = sparse.csr_array((np.ones(len(origin)), (holder, origin)), shape=(folded.size, self.nodes))
        return FoldedTrees(folded, holds)


def unfold(graph: Graph, roots: Ids, hops: int) -> RootedTrees:
    """The rooted trees of some nodes, side by side.

    Args:
        graph: every edge in both directions.
        roots: int64 [r], the nodes.
        hops: K, layers below the root, at least 1.

    Raises:
        InputError: an argument is out of range, the graph is directed, or the trees are too large.
    """
    _check(graph, hops)
    if len(roots) and not (int(roots.min()) >= 0 and int(roots.max()) < graph.num_nodes):
        raise InputError(f"roots must be in 0..{graph.num_nodes - 1}; found {int(roots.min())}..{int(roots.max())}")
    everywhere = _lists(graph.edges, graph.num_nodes)
    return _grown(roots, [everywhere] * hops, graph.num_nodes, np.empty((2, 0), dtype=np.int64))


def missing_branches(graph: FederatedGraph, hops: int, client: int | None = None) -> RootedTrees:
    """Local graphs with the branches that clients miss, each on its node (4.1, last paragraph).

    Args:
        graph: who has what; every edge in both directions.
        hops: K, at least 1.
        client: whose local graph; None for those of all, side by side.

    Returns:
        Trees whose roots are the client's nodes in ascending order, joined as in its local graph.

    Raises:
        InputError: an argument is out of range, the graph is directed, or the trees are too large.
    """
    check_undirected(graph)
    _check(graph.graph, hops)
    roots = np.arange(graph.num_devices) if client is None else graph.devices_of(client)
    crosses, n = graph.crosses_silos, graph.num_devices
    abroad, everywhere = _lists(graph.edges[:, crosses], n), _lists(graph.edges, n)
    inside = graph.edges[:, ~crosses]
    links = np.searchsorted(roots, inside[:, np.isin(inside[0], roots)]).astype(np.int64)
    return _grown(roots, [abroad, *[everywhere] * (hops - 1)], n, links)


def _grown(roots: Ids, lists: list[sparse.csr_array], nodes: int, links: Ids) -> RootedTrees:
    """Adds a layer for each table of neighbours."""
    origins, fathers = [roots.astype(np.int64)], [np.full(len(roots), -1, dtype=np.int64)]
    before, first = np.full(len(roots), -1, dtype=np.int64), 0
    for table in lists:
        parent, child = _children(table, origins[-1], before, sum(map(len, origins)))
        before = origins[-1][parent]
        fathers.append(first + parent)
        first += len(origins[-1])
        origins.append(child)
    layer = np.repeat(np.arange(len(origins)), [len(each) for each in origins])
    shape = TreeShape(len(lists), np.concatenate(fathers), layer, links)
    return RootedTrees(shape, np.concatenate(origins), nodes)


def _children(table: sparse.csr_array, origin: Ids, before: Ids, so_far: int) -> tuple[Ids, Ids]:
    """The children of tree nodes that stand for `origin` [t], below fathers that stand for `before` [t].

    Returns:
        int64 [c] and int64 [c]: the place of each child's father among the t, and the node that the child stands for.
    """
    counts = np.diff(table.indptr).astype(np.int64)[origin]
    total = int(counts.sum())
    if so_far + total > LARGEST_TREES:
        raise InputError(
            f"hops must leave the trees below {LARGEST_TREES:,} nodes; found {so_far + total:,}: sample neighbours"
        )
    parent = np.repeat(np.arange(len(origin)), counts)
    offset = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    child = table.indices[table.indptr[origin][parent] + offset].astype(np.int64)
    onward = child != before[parent]
    return parent[onward], child[onward]


def _lists(edges: Ids, nodes: int) -> sparse.csr_array:
    """CSR [n, n], row i has the neighbours of node i in ascending order."""
    source, target = edges
    table = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(nodes, nodes))
    table.sort_indices()
    return table


def _check(graph: Graph, hops: int) -> None:
    if hops < 1:
        raise InputError(f"hops must be at least 1; found {hops}")
    if not graph.is_symmetric:
        raise InputError("graph must have every edge in both directions; found one that has not")


Reals = NDArray[np.float64]
Counts = NDArray[np.integer[Any]] | Reals


def gcn_weights(shape: TreeShape, neighbours: Counts, scale: Reals | None = None) -> sparse.csr_array:
    """The weights of GCN on trees, self-loops included.

    Args:
        shape: the trees, folded: whatever is in the last layer holds a sum.
        neighbours: [t], |N| of the node that each position stands for; not looked at in the last layer.
        scale: float64 [t], the factor c of each position; None for 1 everywhere.

    Returns:
        float64 CSR [t, t], rows are receivers.

    Raises:
        InputError: an argument has the wrong length, or an entry out of range.
    """
    c = _checked_scale(shape, scale)
    root = np.sqrt(_checked_counts(shape, neighbours) + 1.0)
    source_root = np.where(shape.leaves, 1.0, root)  # a leaf's rows are divided before they are added up
    inner = np.flatnonzero(~shape.leaves)
    source, target = np.concatenate([_messages(shape), np.stack([inner, inner])], axis=1)
    weights = c[target] / (c[source] * root[target] * source_root[source])
    return _csr(shape, source, target, weights)


def gcn_rows(trees: FoldedTrees, neighbours: Counts, scale: Reals | None = None) -> sparse.csr_array:
    """What the positions of trees hold, as weights of nodes' features: c_v x_v, and c sum of x_j / sqrt(D_j) in leaves.

    Args:
        trees: folded.
        neighbours: [n], |N| of the nodes of the graph.
        scale: float64 [t], as in `gcn_weights`.

    Returns:
        float64 CSR [t, n]; times X [n, d] it gives the input of the first layer.
    """
    c, leaves = _checked_scale(trees.shape, scale), trees.shape.leaves
    divided = trees.holds @ sparse.diags_array(1 / np.sqrt(np.asarray(neighbours, dtype=np.float64) + 1))
    kinds = [sparse.diags_array(c * kind) @ rows for kind, rows in ((leaves, divided), (~leaves, trees.holds))]
    return sparse.csr_array(kinds[0] + kinds[1])


def published_scale(shape: TreeShape, neighbours: Counts) -> Reals:
    """The factors of Appendix A: the root of the degree in the tree over that in the graph, self-loops included.

    Returns:
        float64 [t]: 1 for roots and wherever the tree has all neighbours.
    """
    in_tree = shape.neighbours + 1.0
    in_graph = np.where(shape.leaves, 1.0, _checked_counts(shape, neighbours) + 1.0)
    scale = np.sqrt(in_tree / in_graph)
    scale[: shape.roots] = 1.0
    return scale


def sage_weights(shape: TreeShape, neighbours: Counts) -> sparse.csr_array:
    """The weights of GraphSAGE's mean on trees; own rows are not in it.

    Args:
        shape: the trees, folded: whatever is in the last layer holds a sum.
        neighbours: [t], |N| of the node that each position stands for; not looked at in the last layer.

    Returns:
        float64 CSR [t, t], rows are receivers.
    """
    count = _checked_counts(shape, neighbours)
    source, target = _messages(shape)
    return _csr(shape, source, target, 1 / np.maximum(count[target], 1))


def _messages(shape: TreeShape) -> NDArray[np.int64]:
    """int64 [2, m], all messages but those to leaves."""
    joined = shape.joined
    return joined[:, ~shape.leaves[joined[1]]]


def _csr(shape: TreeShape, source: NDArray[np.int64], target: NDArray[np.int64], weights: Reals) -> sparse.csr_array:
    return sparse.csr_array((weights, (target, source)), shape=(shape.size, shape.size))


def _checked_scale(shape: TreeShape, scale: Reals | None) -> Reals:
    if scale is None:
        return np.ones(shape.size)
    if scale.shape != (shape.size,) or not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(f"scale must be {shape.size} positive numbers; found shape {list(scale.shape)}")
    return scale


def _checked_counts(shape: TreeShape, neighbours: Counts) -> Reals:
    counts = np.asarray(neighbours, dtype=np.float64)
    if counts.shape != (shape.size,):
        raise InputError(f"neighbours must be [{shape.size}], one a position; found {list(counts.shape)}")
    if (counts < 0).any():
        raise InputError(f"neighbours must be 0 or more; found {counts.min():g}")
    return counts
