"""The interface of sums over clients: long vectors of integers, one from each of a few senders, for one receiver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.promising import Promising
from fgl_secure.runtime import Channel, Step

Ids = NDArray[np.int64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VectorGroup:
    """Who sends to whom.

    Attributes:
        senders: int64 [m], party identifiers, all different; none is the receiver.
        receiver: the party that is entitled to the sum.
        aggregator: the party that adds up; it may be the receiver.
    """

    senders: Ids
    receiver: int
    aggregator: int

    def __post_init__(self) -> None:
        if self.senders.ndim != 1 or len(np.unique(self.senders)) != len(self.senders) or not len(self.senders):
            raise InputError(f"senders must be one or more different parties; found {self.senders.tolist()}")
        if self.receiver in self.senders:
            raise InputError(f"receiver must not be one of the senders, whose term it knows; found {self.receiver}")


class VectorSession(ABC):
    """A scheme at work on one group, with whatever its set-up agreed on."""

    @abstractmethod
    def sum(self, rows: Integers, step: Step) -> Integers:
        """Adds up one vector of each sender.

        A sender whose messages the channel loses has dropped out, and is left out of the sum.

        Args:
            rows: int64 [m, length], in the order of the senders, of magnitude up to `bound`.
            step: when; no two sums of a session may have the same.

        Returns:
            int64 [length], the exact sum as its receiver gets it.

        Raises:
            InputError: rows have another shape, or a value is beyond the bound.
            ProtocolError: too many senders dropped out, or somebody departs from the protocol.
        """


class VectorScheme(Promising):
    """A way to add up vectors of integers, and what it promises about them."""

    @abstractmethod
    def limit(self, terms: int) -> int:
        """The largest magnitude that a sum of up to `terms` vectors may reach and still be exact."""

    @abstractmethod
    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """Sets the scheme up.

        Args:
            channel: carries and records all messages; gives the coins.
            group: who sends to whom.
            length: entries of every vector, at least 1.
            bound: largest magnitude of one entry, at least 1.

        Raises:
            FieldRangeError: `terms * bound` is beyond `limit(terms)`.
        """


def check_range(scheme: VectorScheme, terms: int, length: int, bound: int) -> None:
    """Raises unless sums of so many terms of that magnitude are exact under a scheme."""
    if length < 1 or bound < 1:
        raise InputError(f"length and bound must be at least 1; found {length} and {bound}")
    if terms * bound > scheme.limit(terms):
        raise FieldRangeError(
            f"bound must satisfy terms * bound <= {scheme.limit(terms):,} under {scheme.name}; "
            f"found {terms:,} * {bound:,}"
        )


def check_rows(rows: Integers, terms: int, length: int, bound: int) -> None:
    """Raises unless rows are int64 [terms, length] of magnitude up to the bound; says nothing of their values."""
    if rows.dtype != np.int64 or rows.shape != (terms, length):
        raise InputError(f"rows must be int64 [{terms}, {length}]; found {rows.dtype} {list(rows.shape)}")
    if rows.size and max(int(rows.max()), -int(rows.min())) > bound:
        raise InputError(f"rows must have magnitude up to bound = {bound:,}; at least one entry is beyond it")
