"""Who sends messages to whom, in little memory where the same parties write to each other again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

SHORT = 1024
"""Batches of fewer messages are kept as they are."""

_FIRST, _SECOND, _THIRD = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Senders and receivers of a batch of messages.

    Attributes:
        senders: int64 [k], party identifiers.
        receivers: int64 [k], party identifiers.
        times: int64 [k], messages from each of these senders to its receiver; None for one.
    """

    senders: Ids
    receivers: Ids
    times: Ids | None = None

    def __len__(self) -> int:
        return len(self.senders) if self.times is None else int(self.times.sum())

    def laid_out(self) -> Ends:
        """One entry a message."""
        if self.times is None:
            return self
        return Ends(np.repeat(self.senders, self.times), np.repeat(self.receivers, self.times))


class RepeatedEnds:
    """Keeps the ends of batches of which sizes alone are recorded: the same ones once, and few pairs as pairs.

    Schemes send between the same parties in every round, or by ways that they draw between few, and fifty rounds of a
    large graph would take gigabytes. In which order such a batch was sent is lost.

    Args:
        parties: how many there are.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._known: dict[tuple[int, int, int], Ends] = {}

    def kept(self, senders: Ids, receivers: Ids) -> Ends:
        """Ends with as many messages between each two parties.

        Those that were seen before are known again by two sums of 64 bits over a hash of each message's ends: others
        are taken for them once in 2^128.

        Args:
            senders: int64 [m], party identifiers.
            receivers: int64 [m], party identifiers.
        """
        if len(senders) < SHORT:
            return Ends(senders, receivers)
        name = len(senders), *_hashed(senders, receivers, self._parties)
        if name not in self._known:
            apart = _pairs(senders, receivers)
            few = 2 * len(apart.senders) <= len(senders)
            self._known[name] = apart if few else Ends(senders, receivers)
        return self._known[name]


def _pairs(senders: Ids, receivers: Ids) -> Ends:
    """The pairs of ends that occur, by receiver, then sender, and how often each does."""
    first, lowest = int(senders.min()), int(receivers.min())
    width = int(senders.max()) - first + 1
    pairs, most = (receivers - lowest) * width + (senders - first), (int(receivers.max()) - lowest + 1) * width
    if most <= len(pairs):  # as between silos and relays: counted in a twentieth of the time that sorting takes
        counts = np.bincount(pairs)
        different = np.flatnonzero(counts)
        times = counts[different]
    else:
        different, times = np.unique(pairs, return_counts=True)
    return Ends(different % width + first, different // width + lowest, times)


@numba.njit(cache=True, boundscheck=False)  # type: ignore[untyped-decorator]  # numba ships no types
def _hashed(senders: Ids, receivers: Ids, parties: int) -> Any:
    """Two sums of 64 bits over a hash of each message's ends."""
    one, other = np.uint64(0), np.uint64(0)
    for i in range(len(senders)):
        mixed = np.uint64(receivers[i] * parties + senders[i]) * _FIRST
        mixed = (mixed ^ (mixed >> _HALF)) * _SECOND
        one += mixed
        mixed = (mixed ^ (mixed >> _HALF)) * _THIRD
        other += mixed
    return one, other
