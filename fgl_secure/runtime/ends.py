"""Who sends messages to whom, in little memory where the same parties write to each other again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.jit import njit
from fgl_secure.runtime.narrow import Numbers, narrow

Ids = NDArray[np.int64]

SHORT = 1024
"""Batches of fewer messages are kept as they are."""

_FIRST, _SECOND, _THIRD = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Senders and receivers of a batch of messages.

    Attributes:
        senders: [k], party identifiers: int64, or int32 where many are kept.
        receivers: [k], party identifiers, as senders.
        times: int64 [k], messages from each of these senders to its receiver; None for one.
    """

    senders: Numbers
    receivers: Numbers
    times: Ids | None = None

    def __len__(self) -> int:
        return len(self.senders) if self.times is None else int(self.times.sum())

    def laid_out(self) -> Ends:
        """One entry a message, int64."""
        senders, receivers = (ends.astype(np.int64, copy=False) for ends in (self.senders, self.receivers))
        if self.times is None:
            return self if senders is self.senders else Ends(senders, receivers)
        return Ends(np.repeat(senders, self.times), np.repeat(receivers, self.times))


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
            apart = _pairs(senders, receivers, len(senders) // 2)
            self._known[name] = (
                Ends(*(narrow(e, self._parties) for e in (senders, receivers))) if apart is None else apart
            )
        return self._known[name]


def _pairs(senders: Ids, receivers: Ids, most_pairs: int | None = None) -> Ends | None:
    """The pairs of ends that occur, by receiver, then sender, and how often each does; None where they are more."""
    first, lowest = int(senders.min()), int(receivers.min())
    width = int(senders.max()) - first + 1
    pairs, most = (receivers - lowest) * width + (senders - first), (int(receivers.max()) - lowest + 1) * width
    if most <= len(pairs):  # as between silos and relays: counted in a twentieth of the time that sorting takes
        counts = np.bincount(pairs)
        different = np.flatnonzero(counts)
        if most_pairs is not None and len(different) > most_pairs:
            return None
        times = counts[different]
    else:
        pairs.sort()
        new = np.append(True, pairs[1:] != pairs[:-1])
        if most_pairs is not None and np.count_nonzero(new) > most_pairs:
            return None
        starts = np.flatnonzero(new)
        different, times = pairs[starts], np.diff(starts, append=len(pairs))
    return Ends(different % width + first, different // width + lowest, times)


@njit(boundscheck=False)
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
