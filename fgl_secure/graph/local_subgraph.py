"""What a client of subgraph federated learning knows of the whole graph's edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph, integers, read_only


@dataclass(frozen=True, slots=True, eq=False)
class LocalSubgraph:
    """A client's nodes, their neighbours elsewhere, and every edge with an end in the client.

    Attributes:
        graph: The m nodes, numbered anew, for functions of the edges: it has one feature, 0, and label 0 throughout,
            since a client doesn't know those of other clients' nodes.
        nodes: int64 [m], the node of the whole graph behind each, ascending.
        own: bool [m], whose rows are the client's.
    """

    graph: Graph
    nodes: NDArray[np.int64]
    own: NDArray[np.bool_]


def augmented_subgraph(graph: Graph, members: ArrayLike) -> LocalSubgraph:
    """Take what one client knows: no edge between two nodes of other clients.

    Args:
        graph: The whole graph.
        members: Integers [k], k at least 1, the client's nodes, each once.

    Raises:
        InputError: `members` is empty, names a node twice or one that isn't there.
    """
    inside = _inside(graph, members)
    known = inside[graph.edges].any(axis=0)
    present = inside.copy()
    present[graph.edges[:, known]] = True
    nodes = np.flatnonzero(present)
    local = np.cumsum(present) - 1
    blank = np.zeros((len(nodes), 1)), np.zeros(len(nodes), dtype=np.int64)
    subgraph = Graph.from_arrays(f"{graph.name} of a client", *blank, local[graph.edges[:, known]])
    return LocalSubgraph(subgraph, read_only(nodes), read_only(inside[nodes]))


def _inside(graph: Graph, members: ArrayLike) -> NDArray[np.bool_]:
    checked = integers("members", members)
    if checked.ndim != 1 or not len(checked):
        raise InputError(f"members must have shape [k], k at least 1; found shape {checked.shape}")
    if checked.min() < 0 or checked.max() >= graph.num_nodes:
        raise InputError(f"members must be nodes 0..{graph.num_nodes - 1}; found {checked.min()} to {checked.max()}")
    inside = np.zeros(graph.num_nodes, dtype=np.bool_)
    inside[checked] = True
    if inside.sum() != len(checked):
        raise InputError(f"members must name each node once; found {len(checked)} with {inside.sum()} different ones")
    return inside
