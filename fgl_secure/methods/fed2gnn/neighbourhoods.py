"""What a client trains its decoder on: the sets of its own nodes' neighbours that are its own nodes as well (4.3).

An element of the set of node i is (x_m, r^1, ..., r^(K-1)) for a neighbour m, where r^k sums over the walks of k steps
from m that neither begin by stepping to i nor turn round. The client can compute it from the sums mu of its own nodes:
the walks from m that begin by stepping to i go on as walks from i, so r^k(i, m) = mu_m^k - r^(k-1)(m, i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.graph import FederatedGraph
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhoods:
    """Sets of neighbours.

    Attributes:
        elements: float64 [e, K, w], x_m and r^1 to r^(K-1) of every pair of a node i and a neighbour m.
        others: int64 [e], |N_m| - 1, the neighbours of m but for i.
        first: int64 [s], where the elements of each set begin.
        size: int64 [s], how many elements each set has, from 1 to d.
    """

    elements: Floats
    others: Ids
    first: Ids
    size: Ids

    def sums(self) -> Floats:
        """float64 [s, K, w], what a decoder is given of each set (X_i of Eq. 5)."""
        if not len(self.first):
            return np.empty((0, *self.elements.shape[1:]))
        sums: Floats = np.add.reduceat(self.elements, self.first, axis=0)
        return sums

    def deviations(self) -> Floats:
        """float64 [e, K, w], how far each element is from the mean of its set."""
        means = self.sums() / np.maximum(self.size, 1)[:, None, None]
        return self.elements - np.repeat(means, self.size, axis=0)


def walk_sums(edges: Ids, values: Floats, mu: Floats) -> Floats:
    """The sums r over walks that leave a node's father behind.

    Args:
        edges: int64 [2, e], fathers i above children m, every edge in both directions.
        values: float64 [n, w], x.
        mu: float64 [K - 1, n, w], sums over all walks of 1 to K - 1 steps that do not turn round.

    Returns:
        float64 [e, K, w]: x_m, r^1, ..., r^(K-1).
    """
    father, child = edges
    n = len(values)
    back = np.argsort(child * n + father)[np.argsort(np.argsort(father * n + child))]  # where (m, i) is
    layers = [values[child]]
    for hop in mu:
        layers.append(hop[child] - layers[-1][back])
    return np.stack(layers, axis=1)


def own_neighbourhoods(
    graph: FederatedGraph, client: int, values: Floats, mu: Floats, degree: Floats, most: int, seed: int
) -> Neighbourhoods:
    """The sets of one client.

    Args:
        graph: who has what.
        client: which.
        values: float64 [n, w], x of every node; those of the client's own are looked at.
        mu: float64 [K - 1, n, w], sums of Protocol 1; those of the client's own nodes are looked at.
        degree: float64 [n], numbers of neighbours; as above.
        most: d; of larger neighbourhoods so many elements are drawn.
        seed: of the draws.
    """
    source, target = graph.edges
    edges = graph.edges[::-1, (graph.silo_of[source] == client) & (graph.silo_of[target] == client)]
    elements = walk_sums(edges, values, mu)
    order = np.lexsort((np.random.default_rng(seed).random(edges.shape[1]), edges[0]))
    father = edges[0][order]
    kept = order[np.arange(len(order)) - np.searchsorted(father, father) < most]
    _, first, size = np.unique(edges[0][kept], return_index=True, return_counts=True)
    others = np.maximum(np.rint(degree[edges[1][kept]]).astype(np.int64) - 1, 0)
    return Neighbourhoods(elements[kept], others, first.astype(np.int64), size.astype(np.int64))
