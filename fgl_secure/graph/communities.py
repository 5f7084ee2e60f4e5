"""Louvain communities of a graph (Blondel et al. 2008), and the clients that are made of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.split import seeded_generator

DROPPED = -1
"""The client of a node that no client has."""


def louvain_communities(graph: Graph, seed: int) -> list[Collection[int]]:
    """The Louvain communities of a graph, of which the direction of edges is ignored.

    Args:
        graph: The graph.
        seed: Repeats them under one version of networkx.

    Returns:
        Sets of nodes, together each node once.

    Raises:
        InputError: `seed` is negative.
    """
    import networkx as nx  # noqa: PLC0415 (a quarter of a second that only this needs)

    undirected = nx.Graph()
    undirected.add_nodes_from(range(graph.num_nodes))
    undirected.add_edges_from(graph.edges.T.tolist())
    # networkx wants its own seed: drawing one here also refuses a negative seed.
    communities: list[Collection[int]] = nx.community.louvain_communities(
        undirected, seed=int(seeded_generator(seed).integers(2**31))
    )
    return communities


def louvain_floor(graph: Graph, floor: int, seed: int) -> NDArray[np.int64]:
    """Make every Louvain community with enough nodes a client, and drop the others.

    What FedSpray (KDD 2024, section 3.3) does: its clients are the largest communities of a graph, and the nodes of the
    small ones are left out. `kept_clients` makes the federated graph of it.

    Args:
        graph: The graph.
        floor: The least number of nodes of a client, at least 1.
        seed: Repeats the communities under one version of networkx.

    Returns:
        The client of each node, int64 [n]: 0 is the largest community, and -1 means dropped.

    Raises:
        InputError: An argument is out of range, or no community is large enough.
    """
    if floor < 1:
        raise InputError(f"floor must be at least 1 node; found {floor}")
    communities = louvain_communities(graph, seed)
    largest = max(len(community) for community in communities)
    if largest < floor:
        raise InputError(
            f"floor must be at most {largest}, the size of the largest Louvain community of {graph.name}; found {floor}"
        )
    kept = sorted((c for c in communities if len(c) >= floor), key=lambda nodes: (-len(nodes), min(nodes)))
    client_of = np.full(graph.num_nodes, DROPPED, dtype=np.int64)
    for client, community in enumerate(kept):
        client_of[list(community)] = client
    return client_of
