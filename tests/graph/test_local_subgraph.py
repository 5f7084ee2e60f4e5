"""A client's subgraph: its nodes, their neighbours, and no edge that it can't know."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.graph.local_subgraph import augmented_subgraph
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, graphs_and_silos


@given(graphs_and_silos(), st.data())
def test_exactly_the_edges_with_an_end_in_the_client_are_known(example: tuple[Graph, int], data: st.DataObject) -> None:
    """Mapped back, the edges are those of the whole graph with an own end, and the nodes are own or at such an edge."""
    graph, _ = example
    members = data.draw(st.sets(st.integers(0, graph.num_nodes - 1), min_size=1))
    local = augmented_subgraph(graph, sorted(members))
    expected = [(s, t) for s, t in graph.edges.T.tolist() if s in members or t in members]
    assert sorted(map(tuple, local.nodes[local.graph.edges].T.tolist())) == sorted(expected)
    assert local.nodes.tolist() == sorted(members | {node for edge in expected for node in edge})
    assert set(local.nodes[local.own].tolist()) == members
    assert local.graph.num_nodes == len(local.nodes) == len(local.own)


def test_edges_between_strangers_are_left_out() -> None:
    """The client of node 0 knows its neighbours 1 and 2, but not that they are joined, and not node 3."""
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3)]
    local = augmented_subgraph(graph_from_pairs(4, pairs + [(t, s) for s, t in pairs]), [0])
    assert local.nodes.tolist() == [0, 1, 2]
    assert local.own.tolist() == [True, False, False]
    assert sorted(local.graph.edges.T.tolist()) == [[0, 1], [0, 2], [1, 0], [2, 0]]


def test_features_and_labels_of_others_do_not_show() -> None:
    """The subgraph has neither features nor labels of anybody."""
    graph = Graph.from_arrays("whole", np.full((3, 2), 7.0), np.array([5, 6, 7]), np.array([[0, 1], [1, 2]]))
    local = augmented_subgraph(graph, [0])
    assert not local.graph.features.any()
    assert not local.graph.labels.any()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (np.zeros(0, dtype=np.int64), "members"),
        ([[0]], "members"),
        ([0, 3], "members"),
        ([-1], "members"),
        ([1, 1], "members"),
        ([0.5], "members"),
    ],
)
def test_bad_members_are_refused(members: ArrayLike, message: str) -> None:
    """Nobody, strangers, twins and fractions are refused."""
    with pytest.raises(InputError, check=about(message)):
        augmented_subgraph(graph_from_pairs(3, [(0, 1)]), members)
