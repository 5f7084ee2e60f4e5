"""Exposure: what a partition shows before any protocol has run."""

import numpy as np
from hypothesis import given

from fgl_secure.graph import (
    FederatedGraph,
    Graph,
    SplitMasks,
    boundary_nodes,
    degree_one_share,
)
from fgl_secure.graph.partition import partition
from tests.graph.strategies import graph_from_pairs, graphs_and_silos


def _federate(graph: Graph, silo_of: np.typing.ArrayLike) -> FederatedGraph:
    everyone = np.ones(graph.num_nodes, dtype=bool)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, ~everyone, ~everyone))


@given(graphs_and_silos())
def test_boundary_agrees_with_looking_at_each_node(example: tuple[Graph, int]) -> None:
    """A node is on the boundary exactly if an edge, in or out, leads to another silo."""
    graph, silos = example
    silo_of = partition("random", graph, silos, 1)
    neighbours: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for source, target in graph.edges.T.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    wanted = [any(silo_of[other] != silo_of[node] for other in neighbours[node]) for node in range(graph.num_nodes)]
    federated = _federate(graph, silo_of)
    assert boundary_nodes(federated).tolist() == wanted


def test_degree_one_counts_incoming_edges_only() -> None:
    """A node with one incoming edge counts; nodes with none, with two, or with only outgoing edges don't."""
    graph = graph_from_pairs(5, [(0, 1), (0, 2), (1, 2), (1, 3)])
    assert degree_one_share(graph) == 0.4
