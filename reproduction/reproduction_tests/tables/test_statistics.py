"""Counts of graphs and of clients' parts of them, by hand."""

import numpy as np

from fgl_reproduction.tables.statistics import (
    CLASSES,
    CLIENTS,
    CROSSING,
    EDGES,
    EDGES_EACH,
    FEATURES,
    GRAPH_METRICS,
    HOMOPHILY,
    NODES,
    NODES_EACH,
    WHOLE,
    GraphCounts,
    client_figures,
    graph_figures,
)
from fgl_reproduction.tables.table import Choices, Paper
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks

GRAPH = Graph.from_arrays("square", np.eye(4, 5), [0, 0, 1, 1], [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
MASKS = SplitMasks(np.array([1, 0, 0, 1], bool), np.array([0, 1, 0, 0], bool), np.array([0, 0, 1, 0], bool))


def test_edges_count_once() -> None:
    """Both directions are one edge, one direction is one too, and two of three edges join nodes of one class."""
    assert graph_figures(GRAPH) == {NODES: 4, EDGES: 3, FEATURES: 5, CLASSES: 2, HOMOPHILY: 2 / 3}
    one_way = Graph.from_arrays("one way", GRAPH.features, GRAPH.labels, GRAPH.edges[:, ::2])
    assert graph_figures(one_way)[EDGES] == 3


def test_clients_have_means_and_edges_between_them() -> None:
    """Three nodes and two edges of one client, a node of the other, and an edge between them."""
    found = client_figures(FederatedGraph.from_assignment(GRAPH, [0, 0, 0, 1], MASKS, "by hand"))
    assert (found[CLIENTS], found[NODES_EACH], found[EDGES_EACH], found[CROSSING]) == (2, 2, 1, 1)
    assert (found[FEATURES], found[CLASSES]) == (5, 2)


def test_a_measure_counts_the_graph_or_its_clients() -> None:
    """The seed reaches the partition."""
    seen: list[int] = []

    def dealt(data: Graph, _choices: Choices, seed: int) -> FederatedGraph:
        seen.append(seed)
        return FederatedGraph.from_assignment(data, [0, 0, 0, 1], MASKS, "by hand")

    assert GraphCounts()(GRAPH, Choices(), 3) == graph_figures(GRAPH)
    assert GraphCounts(dealt)(GRAPH, Choices(), 3)[CROSSING] == 1
    assert seen == [3]


def test_a_table_of_data_sets_has_what_is_counted() -> None:
    """Every metric of it is measured."""
    (case,) = WHOLE
    assert case.measure is not None
    assert set(GRAPH_METRICS) == set(case.measure(GRAPH, Choices(), 0))


def test_a_paper_names_its_tables() -> None:
    """By number and part, with the file of printed numbers where there is one."""
    paper = Paper("HiFGL", "KDD 2024", ("digits",), (NODES,))
    found = [paper.table(number, "nodes", WHOLE) for number in ("table3", "fig4d", "table2-small")]
    assert [table.name for table in found] == ["hifgl-table3", "hifgl-fig4d", "hifgl-table2-small"]
    assert [table.title.split(",")[1] for table in found] == [
        " Table 3: nodes",
        " Figure 4(d): nodes",
        " Table 2: nodes",
    ]
    assert [table.printed for table in found] == ["hifgl_table3.csv", None, "hifgl_table2.csv"]
    assert all((table.method, table.datasets, table.metrics) == ("HiFGL", ("digits",), (NODES,)) for table in found)
