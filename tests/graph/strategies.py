"""Hypothesis strategies and small examples for the graph tests."""

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from fgl_secure.graph import Graph, SplitMasks
from fgl_secure.graph.graph_sets import GraphSet

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


@st.composite
def graph_sets(draw: st.DrawFn) -> GraphSet:
    """One to six graphs with random edges at one to three clients, labels or values as targets."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    starts = np.cumsum([0, *sizes])
    pairs = [random.integers(start, end, size=(2, random.integers(0, 8))) for start, end in itertools.pairwise(starts)]
    edges = np.concatenate(pairs, axis=1)
    clients = draw(st.integers(1, len(sizes)))
    client_of = random.permutation(np.arange(len(sizes)) % clients)
    train = np.zeros(len(sizes), dtype=bool)
    train[np.unique(client_of, return_index=True)[1]] = True
    targets = random.integers(3, size=len(sizes)) if draw(st.booleans()) else random.normal(size=len(sizes))
    return GraphSet.from_arrays(
        "drawn",
        random.normal(size=(starts[-1], 2)),
        np.concatenate([edges, edges[::-1]], axis=1),
        np.repeat(np.arange(len(sizes)), sizes),
        targets,
        client_of,
        SplitMasks(train, np.zeros_like(train), ~train),
        "nothing",
    )
