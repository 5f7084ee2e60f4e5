"""The run of Fed2GNN that attacks on hop sums must break."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.rooted_trees.knowledge import FED2GNN
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks, partition
from fgl_secure.methods.fed2gnn.scenarios import HopSetting, drawn_hops
from fgl_secure.protocols.plaintext import Plaintext

WIDTH, HOPS = 8, 3


def along_communities(network: nx.Graph, clients: int) -> FederatedGraph:
    """A network of nodes 0, 1 and so on, dealt to clients by the Louvain method."""
    pairs, nodes = np.array(network.edges, dtype=np.int64), network.number_of_nodes()
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = Graph.from_arrays("reference", np.ones((nodes, 1)), np.arange(nodes) % 2, edges)
    everyone = np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, partition("louvain", graph, clients, 0), masks, "louvain")


def drawn_rows(nodes: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Normal rows."""
    return np.random.default_rng(0).normal(size=(nodes, width))


@cache
def _in_the_clear() -> RecordedRun:
    """Every node has three neighbours: few enough for sums that are solved, and for surroundings that are explained."""
    graph = along_communities(nx.random_regular_graph(3, 900, seed=0), 2)
    return drawn_hops(graph, drawn_rows(graph.num_devices), HopSetting(HOPS, Plaintext()), "reference, three hops")


CONTROLS: Makers = MappingProxyType({FED2GNN: _in_the_clear})
"""What attacks on hop sums must break, by name; made when it is first asked for."""
