"""How much of a graph a partition exposes before any protocol has run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.federated_graph import FederatedGraph


def boundary_nodes(graph: FederatedGraph) -> NDArray[np.bool_]:
    """Which nodes have a neighbour, by an edge in either direction, outside their own silo: bool [n]."""
    on_boundary = np.zeros(graph.num_devices, dtype=np.bool_)
    on_boundary[graph.edges[:, graph.crosses_silos].ravel()] = True
    return on_boundary


def boundary_share(graph: FederatedGraph) -> float:
    """The share of nodes with a neighbour outside their own silo, 0..1.

    This is eps_p of HiFGL (Eq. 6) as a fraction, averaged over the silos with their numbers of nodes as weights. It
    says what the partition exposes and nothing about a protocol.
    """
    return float(boundary_nodes(graph).mean())


def degree_one_share(graph: Graph) -> float:
    """The share of nodes that receive exactly one message in a layer, 0..1.

    For such a node the sum of the messages is the message, so no grouped sum can hide it from its receiver.
    """
    return float((graph.in_degree == 1).mean())
