"""Slow and obvious: random graphs, and walks one by one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph, Graph, SplitMasks

Reals = NDArray[np.float64]
Ids = NDArray[np.int64]


def graph_of(pairs: Any, nodes: int, silo_of: Any = None, features: Any = None) -> FederatedGraph:
    """An undirected graph of pairs of nodes; every node trains."""
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    edges = np.concatenate([ends, ends[::-1]], axis=1)
    rows = np.arange(1.0, nodes + 1)[:, None] if features is None else features
    nobody = np.zeros(nodes, dtype=np.bool_)
    silos = np.zeros(nodes, dtype=np.int64) if silo_of is None else np.asarray(silo_of, dtype=np.int64)
    graph = Graph.from_arrays("given", rows, np.zeros(nodes, dtype=np.int64), edges)
    return FederatedGraph.from_assignment(graph, silos, SplitMasks(~nobody, nobody, nobody))


def random_graph(nodes: int, edges: int, silos: int, seed: int) -> FederatedGraph:
    """Random pairs, a hub, and isolated nodes where chance leaves some."""
    rng = np.random.default_rng(seed)
    hub = np.stack([np.zeros(min(nodes - 1, 8), dtype=np.int64), rng.integers(0, nodes, min(nodes - 1, 8))], axis=1)
    pairs = np.concatenate([rng.integers(0, nodes, (edges, 2)), hub])
    silos = min(silos, nodes)
    silo_of = np.concatenate([np.arange(silos), rng.integers(0, silos, nodes - silos)])
    return graph_of(pairs, nodes, silo_of, rng.normal(size=(nodes, 3)))


@st.composite
def graphs(draw: st.DrawFn) -> FederatedGraph:
    """Graphs of up to 200 nodes at up to 5 clients, of few or of many edges, or of none."""
    nodes = draw(st.sampled_from([1, 2, 3, 6, 15, 40, 100, 199, 200]))
    edges = round(nodes * draw(st.sampled_from([0.0, 0.5, 1.0, 1.5])))
    return random_graph(nodes, edges, draw(st.integers(1, 5)), draw(st.integers(0, 2**32 - 1)))


def walks(heard: list[list[int]], hops: int, node: int, first: list[int]) -> Iterator[int]:
    """The ends of all walks of `hops` steps from a node that begin with one of `first` and never step back."""

    def onward(here: int, before: int, left: int) -> Iterator[int]:
        if not left:
            yield here
            return
        for there in heard[here]:
            if there != before:
                yield from onward(there, here, left - 1)

    for there in first:
        yield from onward(there, node, hops - 1)


def neighbours_of(graph: Graph) -> list[list[int]]:
    """The neighbours of each node."""
    source, target = graph.edges
    return [source[target == node].tolist() for node in range(graph.num_nodes)]
