"""Which neighbours at other clients a node asks about: at most d of them (Fed2GNN 4.3), as both ends agree.

Every edge between clients draws one number that both its ends know. A node picks its edges with the lowest numbers,
its client says so to the client of the other end, and an edge stays if both ends pick it. If each end kept what it
picked, a node would hear of neighbours that do not hear of it, no graph would be left whose rooted trees are unfolded,
and a node's own row could not be taken out of what it hears by the published formulas. So a node with few neighbours
loses an edge only to one with more than d. And whoever hears nothing about an edge learns that its other end has more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.fed2gnn.grouping import check_undirected, tell_neighbours
from fgl_secure.protocols.topology import Ids
from fgl_secure.runtime import Channel, Step


def agreed_neighbours(graph: FederatedGraph, channel: Channel, most: int, seed: int, step: Step) -> FederatedGraph:
    """Clients tell each other what their nodes picked, and keep what both ends did; see `sampled_neighbours`.

    Raises:
        InputError: `most` is below 1, or the graph is directed.
        ProtocolError: a pick got lost, and the ends of its edge would not agree.
    """
    nodes, picked = picked_neighbours(graph, most, seed)
    tell_neighbours(graph, channel, nodes, picked, step)
    return sampled_neighbours(graph, most, seed)


def sampled_neighbours(graph: FederatedGraph, most: int, seed: int) -> FederatedGraph:
    """Leaves at most so many neighbours at other clients to every node: the edges that both ends pick.

    Args:
        graph: who has what; every edge in both directions.
        most: d, at least 1.
        seed: of the numbers.

    Raises:
        InputError: `most` is below 1, or the graph is directed.
    """
    node, other = picked_neighbours(graph, most, seed)
    n = graph.num_devices
    source, target = graph.edges
    kept = ~graph.crosses_silos | (
        np.isin(target * n + source, node * n + other) & np.isin(source * n + target, node * n + other)
    )
    return replace(graph, graph=replace(graph.graph, edges=read_only(graph.edges[:, kept])))


def picked_neighbours(graph: FederatedGraph, most: int, seed: int) -> NDArray[np.int64]:
    """int64 [2, m], nodes above the neighbours at other clients that they pick; see `sampled_neighbours`."""
    if most < 1:
        raise InputError(f"most must be at least 1 neighbour; found {most}")
    check_undirected(graph)
    source, target = graph.edges[:, graph.crosses_silos]
    numbers = _edge_numbers(source, target, graph.num_devices, seed)
    order = np.lexsort((numbers, target))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(target[order], target[order])
    picked = rank < most
    return np.stack([target[picked], source[picked]])


def _edge_numbers(source: Ids, target: Ids, nodes: int, seed: int) -> NDArray[np.float64]:
    """float64 [m], the number of each edge, the same in both directions."""
    code = np.minimum(source, target) * nodes + np.maximum(source, target)
    edges, which = np.unique(code, return_inverse=True)
    numbers: NDArray[np.float64] = np.random.default_rng(seed).random(len(edges))[which]
    return numbers
