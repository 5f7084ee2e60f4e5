"""Orbit counts the slow and obvious way: look at every set of nodes, and at every automorphism of what is found."""

from itertools import combinations

import networkx as nx
import numpy as np
from networkx.algorithms.isomorphism import GraphMatcher
from numpy.typing import NDArray

# The graphs of Przulj's figure under the names that networkx has for them, with one node of each orbit. Where networkx
# has no name, edges are given.
NAMED: tuple[tuple[nx.Graph, dict[int, int]], ...] = (
    (nx.path_graph(2), {0: 0}),
    (nx.path_graph(3), {0: 1, 1: 2}),
    (nx.complete_graph(3), {0: 3}),
    (nx.path_graph(4), {0: 4, 1: 5}),
    (nx.star_graph(3), {1: 6, 0: 7}),
    (nx.cycle_graph(4), {0: 8}),
    (nx.lollipop_graph(3, 1), {3: 9, 0: 10, 2: 11}),
    (nx.diamond_graph(), {0: 12, 1: 13}),
    (nx.complete_graph(4), {0: 14}),
    (nx.path_graph(5), {0: 15, 1: 16, 2: 17}),
    (nx.Graph([(0, 1), (1, 2), (2, 3), (2, 4)]), {0: 18, 3: 19, 1: 20, 2: 21}),
    (nx.star_graph(4), {1: 22, 0: 23}),
    (nx.bull_graph(), {3: 24, 0: 25, 1: 26}),
    (nx.lollipop_graph(3, 2), {4: 27, 3: 28, 0: 29, 2: 30}),
    (nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3), (0, 4)]), {3: 31, 1: 32, 0: 33}),
    (nx.cycle_graph(5), {0: 34}),
    (nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)]), {4: 35, 2: 36, 1: 37, 0: 38}),
    (nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4)]), {4: 39, 2: 40, 1: 41, 0: 42}),
    (nx.windmill_graph(2, 3), {1: 43, 0: 44}),
    (nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 4)]), {4: 45, 3: 46, 2: 47, 0: 48}),
    (nx.complete_bipartite_graph(2, 3), {2: 49, 0: 50}),
    (nx.house_graph(), {0: 51, 4: 52, 2: 53}),
    (nx.complete_multipartite_graph(1, 1, 3), {2: 54, 0: 55}),
    (nx.lollipop_graph(4, 1), {4: 56, 0: 57, 3: 58}),
    (nx.Graph([(0, 1), (1, 2), (2, 3), (4, 0), (4, 1), (4, 2), (4, 3)]), {0: 59, 1: 60, 4: 61}),
    (nx.Graph([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)]), {4: 62, 2: 63, 0: 64}),
    (nx.house_x_graph(), {4: 65, 0: 66, 2: 67}),
    (nx.wheel_graph(5), {1: 68, 0: 69}),
    (nx.complete_multipartite_graph(2, 1, 1, 1), {0: 70, 2: 71}),
    (nx.complete_graph(5), {0: 72}),
)


def brute_force_orbits(graph: nx.Graph) -> NDArray[np.int64]:
    """int64 [n, 73] for a graph with nodes 0..n-1."""
    counts = np.zeros((graph.number_of_nodes(), 73), dtype=np.int64)
    for size in range(2, 6):
        for nodes in combinations(range(graph.number_of_nodes()), size):
            found = graph.subgraph(nodes)
            if nx.is_connected(found):
                for node, orbit in _orbits(found).items():
                    counts[node, orbit] += 1
    return counts


def _orbits(found: nx.Graph) -> dict[int, int]:
    """The orbit of each node: that of a marked node of the figure which some isomorphism takes it to."""
    for model, marked in NAMED:
        matcher = GraphMatcher(found, model)
        if matcher.is_isomorphic():
            return {
                node: marked[image]
                for mapping in GraphMatcher(found, model).isomorphisms_iter()
                for node, image in mapping.items()
                if image in marked
            }
    raise AssertionError("a connected graph with at most five nodes is missing")
