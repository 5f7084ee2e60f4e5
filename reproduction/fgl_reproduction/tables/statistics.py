"""The parts of graphs that clients have, and tables of what papers count in both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fgl_reproduction.tables.table import Choices, Metric, TableCase
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.typing import Ids

NODES, EDGES = Metric("nodes", 0), Metric("edges", 0)
"""Edges have no direction: a pair of nodes with an edge counts once, and a loop not at all."""
FEATURES, CLASSES = Metric("features", 0), Metric("classes", 0)
HOMOPHILY = Metric("edge homophily", 3)
"""The share of edges whose ends have the same label."""
CLIENTS = Metric("clients", 0)
NODES_EACH, EDGES_EACH = Metric("nodes per client", 0), Metric("edges per client", 0)
"""Means over clients; edges inside them."""
CROSSING = Metric("edges between clients", 0)

DRAWS, APART = 100, 1_000_003
"""Most draws of a partition, and how far apart their seeds are."""

Federate = Callable[[Graph, Choices, int], FederatedGraph]
"""Who has what, from a graph, the choices and a seed."""


def graph_figures(data: Graph) -> Mapping[Metric, float]:
    """What is counted in a graph."""
    source, target = _pairs(data)
    alike = data.labels[source] == data.labels[target]
    return {
        NODES: data.num_nodes,
        EDGES: len(source),
        FEATURES: data.num_features,
        CLASSES: data.num_classes,
        HOMOPHILY: float(alike.mean()) if len(alike) else float("nan"),
    }


def client_figures(graph: FederatedGraph) -> Mapping[Metric, float]:
    """What is counted of clients and of the edges inside and between them; edges of the whole graph must be there."""
    source, target = _pairs(graph.graph)
    inside = int((graph.silo_of[source] == graph.silo_of[target]).sum())
    return {
        CLIENTS: graph.num_silos,
        NODES_EACH: graph.num_devices / graph.num_silos,
        EDGES_EACH: inside / graph.num_silos,
        CROSSING: len(source) - inside,
        FEATURES: graph.graph.num_features,
        CLASSES: graph.num_classes,
    }


def with_labels(draw: Callable[[int], Ids], masks: SplitMasks, clients: int, seed: int) -> Ids:
    """A partition that leaves no client without a labelled node, if there is one among `DRAWS` draws.

    Args:
        draw: from a seed to the client of each node, int64 [n].
        masks: which nodes are labelled.
        clients: how many there are.
        seed: of the first draw.
    """
    for number in range(DRAWS):
        client_of = draw(seed + number * APART)
        if np.bincount(client_of[masks.train], minlength=clients).all():
            break
    return client_of


def _pairs(data: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of every edge, the lower number first, each pair once."""
    low, high = np.sort(data.edges, axis=0)
    pairs = np.unique(low[low != high] * data.num_nodes + high[low != high])
    return pairs // data.num_nodes, pairs % data.num_nodes


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Counts of a graph, or of its clients where there is a partition, as a measure; nothing is trained.

    Attributes:
        federated: who has what; None counts the graph.
    """

    federated: Federate | None = None

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Counts."""
        return graph_figures(data) if self.federated is None else client_figures(self.federated(data, choices, seed))


WHOLE = (TableCase("whole graph", "data", GraphCounts()),)
"""The cases of a table of data sets; its metrics are `GRAPH_METRICS`."""
GRAPH_METRICS = (NODES, EDGES, FEATURES, CLASSES, HOMOPHILY)
