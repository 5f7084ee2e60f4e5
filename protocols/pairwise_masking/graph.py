"""Who masks with whom: every party with every party, or a sparse regular graph (Bell et al., CCS 2020).

The sparse graph places the senders on a ring in random order and joins each with the k/2 next on either side
(Harary's graph under a random permutation, as Bell et al. 3.1). Taking senders away disconnects the others only
where k/2 consecutive places go, at two places of the ring; so the bounds below are sums of hypergeometric terms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Ids

COMPLETE_UP_TO = 64
"""With so many senders or fewer every party masks with every party."""
PRIVACY_BITS = 40
"""A party that withholds what, the sparse graph of a sum exposes a party with probability up to 2^-40."""
RECOVERY_BITS = 20
"""A sum over a random sparse graph cannot be unmasked with probability up to 2^-20."""
MOST_WITHHELD = 4
"""A sparse graph is drawn though so many of those that committed to it reveal nothing, and no more."""
COLLUSION = 0.1
"""A sparse graph is made for coalitions of up to so large a share of the senders, unless another is stated."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """A regular graph over senders.

    Attributes:
        table: int64 [m, k], the neighbours of each sender in ascending order; senders are numbered from 0.
    """

    table: Ids

    @classmethod
    def complete(cls, senders: int) -> Neighbours:
        """Every party is every party's neighbour."""
        places = np.arange(senders - 1)
        return cls(places + (places >= np.arange(senders)[:, None]))

    @classmethod
    def ring(cls, order: Ids, degree: int) -> Neighbours:
        """The k/2 next on either side of a ring.

        Args:
            order: int64 [m], a permutation: who stands at each place.
            degree: k, even, below m.
        """
        m = len(order)
        if degree % 2 or not 2 <= degree < m:
            raise InputError(f"degree must be even and lie in 2..{m - 1} for {m} senders; found {degree}")
        steps = np.array([s for s in range(-degree // 2, degree // 2 + 1) if s])
        table = np.empty((m, degree), dtype=np.int64)
        table[order] = np.sort(order[(np.arange(m)[:, None] + steps) % m], axis=1)
        return cls(table)

    @property
    def degree(self) -> int:
        """The number of neighbours, k."""
        return int(self.table.shape[1])


def local_threshold(senders: int, degree: int, threshold: int) -> int:
    """Shares that open a secret: the threshold itself on the complete graph, a majority of a sparse neighbourhood.

    A sender keeps a share of its own secrets, so a neighbourhood has degree + 1 members.
    """
    return threshold if degree == senders - 1 else (degree + 1) // 2 + 1


def split_bound(senders: int, degree: int, gone: int) -> float:
    """Bound of the probability that a random ring without `gone` senders falls apart.

    A given run of k/2 places is emptied with probability C(m - k/2, gone - k/2) / C(m, gone), and one of the m runs
    must be.
    """
    run = degree // 2
    if gone < run:
        return 0.0
    return min(1.0, senders * math.comb(senders - run, gone - run) / math.comb(senders, gone))


def exposure_bound(senders: int, degree: int, colluding: int, needed: int) -> float:
    """Bound of the probability that some sender has `needed` colluding neighbours, who hold its shares."""
    return min(1.0, senders * _tail(senders - 1, colluding, degree, needed))


def shortfall_bound(senders: int, degree: int, gone: int, needed: int) -> float:
    """Bound of the probability that some sender's secret has fewer than `needed` shares left when `gone` are gone."""
    # a sender that is gone itself: `needed` of its neighbours must be left
    too_many = degree - needed + 1
    return min(1.0, senders * _tail(senders - 1, gone, degree, too_many))


def freedom_bits(senders: int) -> float:
    """Binary logarithm of how many graphs there are to choose among for who sees first what all others reveal.

    A server, with senders that collude with it, can leave out up to MOST_WITHHELD of what was committed to, each
    choice of which gives another graph. A bound of 2^-b on one graph is one of 2^-(b - this) on the worst of them.
    """
    return math.log2(sum(math.comb(senders - 1, missing) for missing in range(MOST_WITHHELD + 1)))


@dataclass(frozen=True, slots=True)
class SparseGraph:
    """A sparse graph that is drawn for each sum, and what it withstands.

    Attributes:
        senders: m.
        degree: neighbours of each, k.
        threshold: senders that are left at least.
    """

    senders: int
    degree: int
    threshold: int

    @property
    def max_dropouts(self) -> int:
        """The most senders that may drop out."""
        return self.senders - self.threshold

    @property
    def required_shares(self) -> int:
        """Shares that open a secret."""
        return local_threshold(self.senders, self.degree, self.threshold)

    def privacy_bits(self, colluding: int) -> float:
        """b, where 2^-b bounds the probability that a sum exposes a party to an aggregator with a random coalition.

        It is that of the worst graph that can be chosen, with as many senders gone at random as may be: that one has
        `required_shares` neighbours in the coalition, or that what is left without the coalition falls apart.
        """
        exposed = exposure_bound(self.senders, self.degree, colluding, self.required_shares)
        apart = split_bound(self.senders, self.degree, min(colluding + self.max_dropouts, self.senders))
        return _bits(exposed + apart) - freedom_bits(self.senders)

    @property
    def recovery_bits(self) -> float:
        """b, where 2^-b bounds the probability that a sum is not opened when as many are gone at random as may be."""
        return _bits(shortfall_bound(self.senders, self.degree, self.max_dropouts, self.required_shares))


def _bits(probability: float) -> float:
    return math.inf if probability == 0 else -math.log2(probability)


def colluding_for(senders: int, degree: int, threshold: int) -> int:
    """The largest coalition of senders that a graph withstands with the aggregator, all but `threshold` of them gone.

    On the complete graph threshold - 1, with certainty; on a sparse one as many as leave the probability of exposure at
    2^-40 or below for all graphs that could be chosen, and -1 where none does: the graph then withstands not even the
    aggregator alone.
    """
    if degree == senders - 1:
        return threshold - 1
    graph = SparseGraph(senders, degree, threshold)
    return bisect_left(range(threshold), True, key=lambda colluding: graph.privacy_bits(colluding) < PRIVACY_BITS) - 1


def _tail(population: int, marked: int, drawn: int, least: int) -> float:
    """Probability that at least so many of `drawn` without replacement are marked."""
    ways = sum(
        math.comb(marked, hits) * math.comb(population - marked, drawn - hits)
        for hits in range(max(least, 0), min(marked, drawn) + 1)
    )
    return ways / math.comb(population, drawn)


@lru_cache(maxsize=64)
def degree_for(senders: int, threshold: int, colluding: int) -> int:
    """The degree rule: the least even k that keeps both bounds, or m - 1 for the complete graph; it grows like log m.

    Args:
        senders: m.
        threshold: senders that are left at least; who drops out does so at random.
        colluding: senders that may pool their views with the aggregator, a random coalition.
    """
    if senders <= COMPLETE_UP_TO:
        return senders - 1
    for degree in range(2, senders - 1, 2):
        graph = SparseGraph(senders, degree, threshold)
        if graph.recovery_bits >= RECOVERY_BITS and graph.privacy_bits(colluding) >= PRIVACY_BITS:
            return degree
    return senders - 1
