"""Hypothesis strategies and small examples for the graph tests."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from fgl_secure.graph import Graph

Edge = tuple[int, int]


def graph_from_pairs(num_nodes: int, pairs: Sequence[Edge]) -> Graph:
    """A graph with the given (source, target) pairs, one feature and alternating labels."""
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Graph.from_arrays("small", np.ones((num_nodes, 1)), np.arange(num_nodes) % 2, edges)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """A number of nodes and pairs of them, self-loops and repetitions included."""
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    return num_nodes, draw(st.lists(st.tuples(node, node), max_size=40))


@st.composite
def graphs_and_silos(draw: st.DrawFn) -> tuple[Graph, int]:
    """A graph and a number of silos that it can be dealt to."""
    num_nodes, edges = draw(pairs())
    return graph_from_pairs(num_nodes, edges), draw(st.integers(1, num_nodes))
