"""Sums over the ends of walks that never step back, as clients extend them hop by hop (Fed2GNN, Appendix F).

With N_i the neighbours of node i, mu_i^0 = x_i, and over all walks of k steps from i that never turn round at once

    mu_i^k sums the rows x of their ends,
    f_i^k those of the walks whose first step leaves the client, eta_i^k = mu_i^k - f_i^k those of the others.

Let q sum mu_m^(k-1) over the neighbours m of i at other clients. Walks from m may start by stepping back to i, and go
on from there to anywhere but m. So f_i^k = q - N mu_i^(k-2) + f_i^(k-2), with N the number of these m and f^0 = 0:
lines 18 and 22 of Protocol 1. The same holds for eta and the neighbours at the own client, and line 23 is their sum.

This needs that every m hears of i in turn. Where a scheme refuses small sums, or each client samples for itself, some
do not. Nothing of i comes back from these, so N counts the others alone; and f^(k-2) has walks through them that are
not in q, so whoever sends q subtracts their mu^(k-3) from it (`PairMap.one_sided`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.topology import Ids

Reals = NDArray[np.float64]


class Walks:
    """What clients hold after each hop; every client extends the rows of its own nodes.

    Args:
        graph: who has what.
        values: float64 [n, d], x.
        mutual: int64 [n], how many of the neighbours at other clients that each node hears of hear of it in turn.

    Attributes:
        mu: float64 [n, d] a hop, from hop 0.
        f: the same.
        eta: the same.
    """

    def __init__(self, graph: FederatedGraph, values: Reals, mutual: Ids) -> None:
        source, target = graph.edges[:, ~graph.crosses_silos]
        n = graph.num_devices
        self._inside = sparse.csr_array((np.ones(len(source)), (target, source)), shape=(n, n))
        degrees = np.bincount(target, minlength=n).astype(np.float64)
        self._inside_degree, self._mutual = degrees[:, None], mutual.astype(np.float64)[:, None]
        nothing = np.zeros_like(values)
        self.mu, self.f, self.eta = [values], [nothing], [nothing]

    def extend(self, heard: Reals) -> None:
        """Takes the sums [n, d] that arrived in the next hop, and takes steps back out of them."""
        self.f.append(self._forward(heard, self._mutual, self.f))
        self.eta.append(self._forward(self._inside @ self.mu[-1], self._inside_degree, self.eta))
        self.mu.append(self.f[-1] + self.eta[-1])

    def _forward(self, total: Reals, returning: Reals, before: list[Reals]) -> Reals:
        if len(before) < 2:
            return total
        return total - returning * self.mu[-2] + before[-2]
