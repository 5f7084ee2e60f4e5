"""The value that the n p largest entries of all clients have in common, found from sums of histograms alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Phase, Role, Step

UNIT_BITS = 36
"""Entries of a power lie in 0..1 and are compared in units of 2^-36."""

DIGIT_BITS = 12
"""Each histogram settles so many bits of the threshold."""

DIGITS = UNIT_BITS // DIGIT_BITS
BINS = 2**DIGIT_BITS

MOST_ENTRIES = 2**31
"""Entries that a client may have in one bin."""

Ids = NDArray[np.int64]


def in_units(values: NDArray[np.float64]) -> Ids:
    """Entries of a power in units of 2^-36, below 2^36."""
    units: Ids = np.minimum(np.rint(values * 2.0**UNIT_BITS).astype(np.int64), 2**UNIT_BITS - 1)
    return units


@dataclass(frozen=True, slots=True)
class Search:
    """What is known of the threshold.

    Attributes:
        digit: how many digits are settled.
        prefix: those digits.
        above: entries of all clients that are certainly kept.
        least: the least value that is kept, in units; None until it is known.
    """

    digit: int = 0
    prefix: int = 0
    above: int = 0
    least: int | None = None

    def histogram(self, units: Ids) -> Ids:
        """A client's part: how many of its entries fall into each bin of the next digit, int64 [BINS]."""
        bins = units >> (UNIT_BITS - DIGIT_BITS * (self.digit + 1))
        inside = bins >> DIGIT_BITS == self.prefix
        return np.bincount((bins - (self.prefix << DIGIT_BITS))[inside], minlength=BINS).astype(np.int64)

    def after(self, total: Ids, count: int) -> Search:
        """The part of whoever gets the sum of all histograms: one digit further.

        Args:
            total: int64 [BINS].
            count: most entries that are kept.
        """
        from_here = self.above + np.cumsum(total[::-1])[::-1]  # entries at or above each bin
        fitting = from_here <= count
        if fitting[0]:
            return replace(self, least=self.prefix << (UNIT_BITS - DIGIT_BITS * self.digit))
        first = int(np.argmax(fitting)) if fitting.any() else len(total)
        # The bin below `first` holds more than there is room for: the threshold lies in it, or at its end.
        above = int(from_here[first]) if fitting.any() else self.above
        prefix, digit = (self.prefix << DIGIT_BITS) + first - 1, self.digit + 1
        return Search(digit, prefix, above, prefix + 1 if digit == DIGITS else None)


@dataclass(frozen=True, slots=True)
class CommonThreshold:
    """Finds the threshold of the public code's pruning without showing any client's entries.

    In three rounds every client counts its entries by twelve more bits of their value; the sums of these histograms
    go to one client, who tells all others between which values the threshold lies. What is learnt is the
    distribution of all entries around it, and by all clients the threshold.

    Attributes:
        scheme: adds the histograms up.
    """

    scheme: Scheme

    def pruned(
        self, channel: Channel, client_of: Ids, power: sparse.csr_array, count: int, step: Step
    ) -> sparse.csr_array:
        """Keeps the `count` largest entries, or fewer where several are equal to the smallest of them.

        Args:
            channel: between server and clients.
            client_of: int64 [n], the client of each row.
            power: CSR [n, n], rows as their clients hold them.
            count: most entries that are kept.
            step: when.
        """
        units = in_units(power.data)
        row = np.repeat(np.arange(power.shape[0]), np.diff(power.indptr))
        low = self._least_kept(channel, client_of[row], units, count, step)
        kept = units >= low
        return sparse.csr_array((power.data[kept], (row[kept], power.indices[kept])), shape=power.shape)

    def _least_kept(self, channel: Channel, client: Ids, units: Ids, count: int, step: Step) -> int:
        """The least value from which on there are at most `count` entries."""
        search = Search()
        while search.least is None:
            step_now = Step(step.round, step.layer, part=search.digit)
            search = search.after(self._added(channel, client, units, search, step_now), count)
            if search.least is None or search.digit == DIGITS:
                self._tell(channel, search.prefix, step_now)
        return search.least

    def _added(self, channel: Channel, client: Ids, units: Ids, search: Search, step: Step) -> Ids:
        clients = channel.parties.ids(Role.SILO)
        histograms = np.stack([search.histogram(units[client == k]) for k in range(len(clients))])
        topology = Topology.to_client(channel.parties, clients[1:], int(clients[0]), BINS, MOST_ENTRIES)
        total: Ids = histograms[0] + Collective(self.scheme, topology, channel).sum(histograms[1:], step)[0]
        return total

    @staticmethod
    def _tell(channel: Channel, prefix: int, step: Step) -> None:
        """The first client tells the others in which bin the threshold lies."""
        clients = channel.parties.ids(Role.SILO)
        told = np.full((len(clients) - 1, 1), prefix, dtype=np.int64)
        channel.send(Phase.THRESHOLDS, step, np.full(len(told), clients[0]), clients[1:], told)
