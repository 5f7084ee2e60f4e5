"""The true children of positions in place of decoded ones, to compare."""

import numpy as np

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.decoder import walk_sums
from fgl_secure.methods.fed2gnn.trees import UNKNOWN, Children, Level
from fgl_secure.typing import Floats


class TrueChildren(Children):
    """The children that are there: what no client knows, for comparison.

    Args:
        graph: who has what, with the edges of neighbours that are asked for.
        values: float64 [n, w], rows as they are exchanged.
        mu: float64 [K - 1, n, w], sums over walks.
        usual: as in `DecodedChildren`.
    """

    def __init__(self, graph: FederatedGraph, values: Floats, mu: Floats, usual: float) -> None:
        self._graph, self._usual = graph, usual
        source, target = graph.edges
        self._child, n = source, graph.num_devices
        self._elements = walk_sums(np.stack([target, source]), values, mu)
        self._first = np.searchsorted(target, np.arange(n + 1))
        self._degree = graph.in_degree.astype(np.float64)

    def single(self, level: Level) -> Level:
        """Looks the neighbours up: of roots those at other clients, of other nodes all but the father."""
        counts = np.diff(self._first)[level.node]
        parent = np.repeat(np.arange(level.size), counts)
        edge = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - self._first[level.node], counts)
        node = self._child[edge]
        silo = self._graph.silo_of
        root = level.father[parent] == UNKNOWN
        kept = np.where(root, silo[node] != silo[level.node[parent]], node != level.father[parent])
        parent, edge, node = parent[kept], edge[kept], node[kept]
        elements = self._elements[edge][:, : level.below.shape[1]]
        neighbours = self._degree[node]
        ones = np.ones(len(node))
        return Level(
            parent, elements[:, 0], elements[:, 1:], neighbours - 1, neighbours, ones, node, level.node[parent]
        )

    def degrees(self, elements: Floats) -> Floats:
        """The usual number: no true node is the mean of others."""
        return np.full(len(elements), self._usual)
