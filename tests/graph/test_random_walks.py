"""Random walks: along edges only, with the chances that p and q say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.graph import Graph
from fgl_secure.graph.node2vec import out_edges, random_walks
from tests.graph.strategies import graph_from_pairs, graphs_and_silos


@given(graphs_and_silos(), st.sampled_from([(1.0, 1.0), (10.0, 0.2), (0.5, 4.0)]))
def test_walks_follow_edges_and_stay_where_none_leads_away(
    example: tuple[Graph, int], bias: tuple[float, float]
) -> None:
    """Every step is an edge in its direction, or a stay at a node without one."""
    graph, seed = example
    starts = np.arange(graph.num_nodes)
    walks = random_walks(*out_edges(graph), starts, 6, *bias, np.random.default_rng(seed))
    assert walks.shape == (graph.num_nodes, 7)
    np.testing.assert_array_equal(walks[:, 0], starts)
    edges = set(map(tuple, graph.edges.T.tolist()))
    stuck = set(starts.tolist()) - set(graph.edges[0].tolist())
    for source, target in zip(walks[:, :-1].ravel().tolist(), walks[:, 1:].ravel().tolist(), strict=True):
        assert (source, target) in edges or (source == target and source in stuck)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (4.0, 0.25), (0.25, 4.0)])
def test_second_steps_have_the_weights_of_node2vec(p: float, q: float) -> None:
    """From 0 by 1, the chances to go back to 0, to their common neighbour 2 and on to 3 are as 1/p, 1 and 1/q."""
    pairs = [(0, 1), (0, 2), (1, 2), (1, 3)]
    graph = graph_from_pairs(4, pairs + [(target, source) for source, target in pairs])
    walks = random_walks(*out_edges(graph), np.zeros(60000, dtype=np.int64), 2, p, q, np.random.default_rng(0))
    by_one = walks[walks[:, 1] == 1]
    assert len(by_one) == pytest.approx(30000, abs=5 * 123)
    weights = np.array([1 / p, 0, 1, 1 / q])
    shares = np.bincount(by_one[:, 2], minlength=4) / len(by_one)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=5 * 0.003)
