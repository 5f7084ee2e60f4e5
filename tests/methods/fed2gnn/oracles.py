"""Slow and obvious: random graphs, walks one by one, and networks on whole graphs as their papers define them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

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


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Parameters of a K-layer network, float64.

    Attributes:
        own: K matrices, not used by GCN.
        weights: K matrices.
        biases: K vectors.
    """

    own: list[Reals]
    weights: list[Reals]
    biases: list[Reals]

    @classmethod
    def drawn(cls, layers: int, seed: int, *, width: int = 3, bias: float = 0.0) -> Network:
        """Random square layers, and biases of that size."""
        rng = np.random.default_rng(seed)
        own, weights = ([rng.normal(size=(width, width)) for _ in range(layers)] for _ in range(2))
        return cls(own, weights, [bias * rng.normal(size=width) for _ in range(layers)])

    @property
    def layers(self) -> int:
        """K."""
        return len(self.weights)


def relu(values: Reals) -> Reals:
    """The larger of a value and 0."""
    return np.maximum(values, 0.0)


def gcn(graph: Graph, network: Network, activation: Callable[[Reals], Reals] = relu) -> Reals:
    """Kipf and Welling (2017), Eq. 2, node by node: float64 [n, width]."""
    heard, h = neighbours_of(graph), graph.features.astype(np.float64)
    D = graph.in_degree + 1.0
    for weight, bias in zip(network.weights, network.biases, strict=True):
        sums = [sum(h[u] / np.sqrt(D[v] * D[u]) for u in [*heard[v], v]) for v in range(len(h))]
        h = activation(np.array(sums) @ weight + bias)
    return h


def sage(graph: Graph, network: Network) -> Reals:
    """GraphSAGE with mean aggregation, node by node: float64 [n, width]; no neighbour, no mean."""
    heard, h = neighbours_of(graph), graph.features.astype(np.float64)
    for own, weight, bias in zip(network.own, network.weights, network.biases, strict=True):
        means = [np.mean(h[near], axis=0) if near else np.zeros(h.shape[1]) for near in heard]
        h = relu(h @ own + np.array(means) @ weight + bias)
    return h


def on_tree(
    weights: sparse.csr_array,
    rows: Reals,
    network: Network,
    *,
    own: bool = False,
    bias_scale: Reals | None = None,
    activation: Callable[[Reals], Reals] = relu,
) -> Reals:
    """The same layers as weighted messages: float64 [t, width]."""
    h, scale = rows, np.ones(len(rows)) if bias_scale is None else bias_scale
    for mine, weight, bias in zip(network.own, network.weights, network.biases, strict=True):
        h = activation((h @ mine if own else 0.0) + weights @ h @ weight + scale[:, None] * bias)
    return h


def neighbours_of(graph: Graph) -> list[list[int]]:
    """The neighbours of each node."""
    source, target = graph.edges
    return [source[target == node].tolist() for node in range(graph.num_nodes)]
