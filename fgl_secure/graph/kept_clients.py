"""The federated graph of those nodes that some client has, as in FedSpray (KDD 2024)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.attributed_graph import Graph, integers, read_only
from fgl_secure.graph.communities import DROPPED
from fgl_secure.graph.federated_graph import FederatedGraph
from fgl_secure.graph.split import per_client_split


def kept_clients(
    graph: Graph,
    client_of: ArrayLike,
    seed: int,
    fractions: tuple[float, float, float] = (0.4, 0.3, 0.3),
    partition: str = "louvain-floor",
) -> FederatedGraph:
    """Leave out the nodes that no client has, number the others anew, and split the nodes of every client.

    Edges between clients stay: `FederatedGraph.restricted_to_silos` drops them, as FedSpray does.

    Args:
        graph: The graph, n nodes.
        client_of: Integers [n], 0..K-1 or -1 for a node that is left out; see `louvain_floor`, `fedspray_partition`.
        seed: Repeats the split.
        fractions: Shares of training, validation and test nodes of every client; FedSpray's by default.
        partition: What the assignment is called in tables.

    Raises:
        InputError: An argument breaks one of these rules, or a client has no node.
    """
    clients = integers("client_of", client_of)
    if clients.shape != (graph.num_nodes,):
        raise InputError(f"client_of must have shape ({graph.num_nodes},), one a node; found shape {clients.shape}")
    if clients.min() < DROPPED:
        node = int(np.argmax(clients < DROPPED))
        raise InputError(f"client_of must be a client or {DROPPED}; node {node} has {clients[node]}")
    kept = np.flatnonzero(clients != DROPPED)
    if not len(kept):
        raise InputError(f"client_of must give at least one node to a client; found only {DROPPED}")
    split = per_client_split(clients[kept], seed, fractions)
    return FederatedGraph.from_assignment(induced_subgraph(graph, kept), clients[kept], split, partition)


def induced_subgraph(graph: Graph, nodes: NDArray[np.int64]) -> Graph:
    """The graph of some nodes and all edges between them; its node i is `nodes[i]`.

    Args:
        graph: The graph.
        nodes: int64 [n'], ascending, none twice, at least one.
    """
    number = np.full(graph.num_nodes, -1, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    edges = number[graph.edges]
    # Nodes keep their order, and so do edges: what was checked once holds, and is not copied a second time.
    return Graph(
        graph.name,
        read_only(graph.features[nodes]),
        read_only(graph.labels[nodes]),
        read_only(edges[:, (edges >= 0).all(axis=0)]),
        graph.image_shape,
    )
