"""The interface of every scheme: grouped sums between parties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint, Segments
from fgl_secure.errors import InputError
from fgl_secure.protocols.promising import Promising
from fgl_secure.runtime import Channel, Delivery, Direction, Step

Ids = NDArray[np.int64]
Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Which rows go into which sums, and which parties are involved; ideal functionality: `index_add`.

    Message e carries row source[e] from its owner to the owner of group target[e].

    Attributes:
        row_owner: int64 [n], the party that holds each row.
        group_owner: int64 [g], the party that is entitled to each sum.
        source: int64 [m], the row of each message.
        target: int64 [m], the group of each message.
        row_custodian: int64 [n], the party that administers each row's owner (a device's silo).
        group_custodian: int64 [g], the party that administers each group's owner.
    """

    row_owner: Ids
    group_owner: Ids
    source: Ids
    target: Ids
    row_custodian: Ids
    group_custodian: Ids

    def __post_init__(self) -> None:
        if self.source.shape != self.target.shape or self.source.ndim != 1:
            raise InputError(
                f"source and target must be vectors of one length; found {self.source.shape} and {self.target.shape}"
            )
        for owners, custodians in ((self.row_owner, self.row_custodian), (self.group_owner, self.group_custodian)):
            if len(owners) != len(custodians):
                raise InputError(
                    f"custodians must be given for every owner; found {len(custodians)} for {len(owners)} owners"
                )
        for name, index, size in (("source", self.source, len(self.row_owner)),
                                  ("target", self.target, len(self.group_owner))):  # fmt: skip
            if len(index) and not (int(index.min()) >= 0 and int(index.max()) < size):
                raise InputError(f"{name} must lie in 0..{size - 1}; found {int(index.min())}..{int(index.max())}")

    def reversed(self) -> Grouping:
        """The sums of the backward pass: every message turned round."""
        return Grouping(
            self.group_owner, self.row_owner, self.target, self.source, self.group_custodian, self.row_custodian
        )

    @property
    def segments(self) -> Segments:
        """Messages by group."""
        return Segments.by_group(self.target, len(self.group_owner))

    def answered(self, minimum: int) -> Grouping:
        """Without the messages to groups of fewer than `minimum`, whose sums are not computed."""
        sizes = np.bincount(self.target, minlength=len(self.group_owner))
        kept = sizes[self.target] >= minimum
        return self if kept.all() else replace(self, source=self.source[kept], target=self.target[kept])

    @property
    def largest_group(self) -> int:
        """Most messages in one sum."""
        return int(np.bincount(self.target, minlength=1).max())


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A grouping as one pass uses it, with its messages sorted by group once.

    Attributes:
        way: the grouping in the direction of the pass.
        segments: its messages by group.
        senders: int64 [m], who sends each message.
        receivers: int64 [m], whose group it is for.
        custodians: int64 [m], who administers that receiver.
    """

    way: Grouping
    segments: Segments
    senders: Ids
    receivers: Ids
    custodians: Ids

    @classmethod
    def along(cls, way: Grouping, minimum: int = 1) -> Route:
        """Works out the ends of every message; a run of many rounds keeps one copy of them.

        Args:
            way: who sends what to whom.
            minimum: least messages of a sum that is computed; smaller groups are left out.
        """
        way = way.answered(minimum)
        ends = (way.row_owner[way.source], way.group_owner[way.target], way.group_custodian[way.target])
        for ids in ends:
            ids.flags.writeable = False
        return cls(way, way.segments, *ends)

    @classmethod
    def both_ways(cls, grouping: Grouping, minimum: int = 1) -> dict[Direction, Route]:
        """The forward pass along the grouping, the backward pass along the reverse of what was answered forward.

        With a minimum, a backward sum over fewer than that is left out as well.
        """
        forward = grouping.answered(minimum)
        return {
            Direction.FORWARD: cls.along(forward),
            Direction.BACKWARD: cls.along(forward.reversed(), minimum),
        }

    def check_values(self, values: Reals) -> None:
        """Raises unless there is one row of values for each row of the pass; compiled loops check no bounds."""
        if values.ndim != 2 or len(values) != len(self.way.row_owner):
            raise InputError(f"values must be [{len(self.way.row_owner)}, d]; found {list(values.shape)}")

    def arrived(self, delivery: Delivery) -> Segments:
        """The delivered messages by group: all of them, or those that a lossy network let through."""
        if delivery.rows is None:
            return self.segments
        return Segments.by_group(self.way.target[delivery.rows], len(self.way.group_owner))


class Session(ABC):
    """A scheme at work on one grouping, with whatever its set-up agreed on."""

    @abstractmethod
    def sum(self, values: Reals, step: Step) -> NDArray[np.float64]:
        """Computes the grouped sums of one step.

        Args:
            values: [n, d], the rows to be summed; in a backward step the rows are the groups of the forward pass.
            step: round, layer and direction; a backward step runs along the reversed messages.

        Returns:
            float64 [g, d], the sum of each group, zero where nothing was sent.
        """


class Scheme(Promising):
    """A way to compute grouped sums, and what it promises about them."""

    @property
    @abstractmethod
    def minimum_group(self) -> int:
        """Least messages of a sum that is computed; the owner of a smaller group gets zero and is told nothing."""

    @abstractmethod
    def gradient_scheme(self, members: int) -> Scheme | None:
        """What sums parameter gradients of up to that many devices for their silo; None where they go in the clear.

        Its sums of so many gradients must stay below 2^53 units of its fixed point, which float64 holds exactly.
        """

    @abstractmethod
    def fixed_point(self, terms: int) -> FixedPoint | None:
        """The map into the field for sums of up to `terms` rows; None for a scheme over real numbers.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """

    @property
    @abstractmethod
    def relays(self) -> int:
        """How many relays take part beside the parties of the grouping."""

    @property
    @abstractmethod
    def variants(self) -> tuple[Scheme, ...]:
        """The same scheme under other parameters or readings of its source, which an audit runs as well."""

    @abstractmethod
    def open(self, channel: Channel, grouping: Grouping, width: int) -> Session:
        """Sets the scheme up.

        Args:
            channel: carries and records all messages; gives the coins.
            grouping: who sends what to whom in the forward pass.
            width: most coordinates that a row will have.
        """
