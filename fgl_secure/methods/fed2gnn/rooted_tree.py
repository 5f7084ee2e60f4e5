"""Rooted trees (Fed2GNN, 4.1): the neighbourhood of a node unfolded, layer by layer, without stepping back.

Layer 0 is the root. The children of a tree node are the neighbours of the graph node that it stands for, but for the
one that its father stands for. Father and children together are then all neighbours of that node, in every layer but
the last, so a K-layer GNN cannot tell the root of a K-layer tree from the node in its graph.

A tree may stand alone, or hang on the local graph of its root's client. Then only the neighbours at other clients are
children of the root: the others are there already, with trees of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.methods.fed2gnn.tree_shape import FoldedTrees, TreeShape

Ids = NDArray[np.int64]

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
