"""Who adds what for whom in one collective, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Segments
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.runtime import Direction, Directory, Role
from fgl_secure.typing import Flags, Ids

ROUNDS = 16
"""Of wishes: links that are open after them stay closed. Random graphs of 20,000 nodes settle within ten."""
TRIES = 8
"""How often a device with few partners asks for one more."""
REACH = 2
"""Most devices that pass a request on, and later a tag."""


class SmallGroups(StrEnum):
    """What becomes of a device with fewer partners than a sum must have messages."""

    SKIP = "skip"
    """It gets no sum."""
    TWO_HOP = "two-hop"
    """Its partners ask partners of their own, of whom some send it their rows; it doesn't learn which."""


class Contributors(StrEnum):
    """Which contributors of a sum `k_min` counts."""

    ALL = "all-contributors"
    """Every device whose row is in the sum."""
    FOREIGN = "foreign-contributors"
    """Those of other silos than the receiver's, where there are any, and then all: a process that hosts all devices of
    a silo can subtract their rows from what its devices receive."""


def is_computed(groups: Ids, least: int, foreign: Flags | None = None, counted: Flags | None = None) -> Flags:
    """Return which messages may go into the sums that they are for.

    Args:
        groups: int64 [m], the sum of each message, numbered from 0.
        least: fewest messages of a sum that is computed.
        foreign: bool [m], messages of which a sum has at least `least` or none; None where all count alike. A sum with
            fewer goes without them.
        counted: bool [m], the messages that count; all of them unless given.

    Returns:
        Bool [m].
    """
    counted = np.ones(len(groups), dtype=np.bool_) if counted is None else counted
    dropped = np.zeros_like(counted)
    if foreign is not None:
        dropped = foreign & (np.bincount(groups, weights=counted & foreign) < least)[groups]
    enough = np.bincount(groups, weights=counted & ~dropped) >= least
    result: Flags = enough[groups] & ~dropped
    return result


@dataclass(frozen=True, slots=True)
class Partnering:
    """The rules of an agreement, the same for all devices.

    Attributes:
        most: D, most partners of a device.
        least: k_min, how many a device wants at least.
        small_groups: what becomes of those that have fewer.
        contributors: which partners count when it is decided what a sum is over; see `is_computed`.

    Raises:
        InputError: most is below least, or least below 1.
    """

    most: int
    least: int
    small_groups: SmallGroups = SmallGroups.TWO_HOP
    contributors: Contributors = Contributors.ALL

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InputError(f"least and most must be 1 <= least <= most; found {self.least} and {self.most}")

    @property
    def tries(self) -> int:
        """How often a device with few partners asks for one more."""
        return TRIES if self.small_groups is SmallGroups.TWO_HOP else 0

    @property
    def reach(self) -> int:
        """Most devices between two partners."""
        return REACH if self.small_groups is SmallGroups.TWO_HOP else 0


def check_mutual(owners: NDArray[np.int64], others: NDArray[np.int64]) -> None:
    """Checks that partners can be chosen among neighbours.

    Args:
        owners: int64 [m], who gets a row.
        others: int64 [m], whose row it is.

    Raises:
        InputError: a row travels one way alone between two devices, or two rows travel one way.
    """
    forward, back = (np.sort(a << 32 | b) for a, b in ((owners, others), (others, owners)))
    if not np.array_equal(forward, back):
        raise InputError(
            "rows must travel both ways between two partners (an undirected graph); some travel one way; take "
            "relay-coded[graph-shown], or make the graph undirected"
        )
    if len(np.unique(forward)) < len(forward):
        raise InputError("two devices must exchange one row each way; found two of one to the other")


Reals = NDArray[np.floating[Any]]

NEIGHBOURS = "neighbours"
"""A row a device, a sum for each device over its neighbours."""
MEMBERS = "members"
"""A vector a device, a sum for the device's silo."""
CLIENTS = "clients"
"""A vector a client, a sum for one other client."""
SERVER = "server"
"""A vector a client, a sum for the server."""
TOPOLOGIES = (NEIGHBOURS, MEMBERS, CLIENTS, SERVER)


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

    def reverse(self) -> Grouping:
        """The sums of the backward pass: every message turned round."""
        return Grouping(
            self.group_owner, self.row_owner, self.target, self.source, self.group_custodian, self.row_custodian
        )

    @property
    def owners(self) -> Ids:
        """int64 [k], ascending: the owners of rows and groups, in either pass."""
        return np.unique(np.concatenate([self.row_owner, self.group_owner]))

    @property
    def segments(self) -> Segments:
        """Messages by group."""
        return Segments.by_group(self.target, len(self.group_owner))

    @property
    def foreign(self) -> Flags:
        """Bool [m]: which messages are between owners that different parties administer."""
        result: Flags = self.row_custodian[self.source] != self.group_custodian[self.target]
        return result

    def answered_grouping(self, minimum: int, contributors: Contributors = Contributors.ALL) -> Grouping:
        """Without the messages to groups of fewer than `minimum`, whose sums are not computed; see `is_computed`."""
        mask = is_computed(self.target, minimum, self.foreign if contributors is Contributors.FOREIGN else None)
        return self if mask.all() else replace(self, source=self.source[mask], target=self.target[mask])

    @property
    def largest_group(self) -> int:
        """Most messages in one sum."""
        return int(np.bincount(self.target, minlength=1).max())


@dataclass(frozen=True, slots=True, eq=False)
class AgreedGrouping(Grouping):
    """Messages of which it is known, one by one, which go into sums: a process with some parties cannot count.

    Attributes:
        forward: bool [m], which messages go into sums of the forward pass.
        backward: bool [m], which do, turned round, in the backward pass; none that did not go forward.
    """

    forward: Flags
    backward: Flags

    def __post_init__(self) -> None:
        Grouping.__post_init__(self)
        if self.forward.shape != self.source.shape or self.backward.shape != self.source.shape:
            raise InputError(
                f"forward and backward must have one entry for each of {len(self.source)} messages; "
                f"found {self.forward.shape} and {self.backward.shape}"
            )

    def answered_grouping(self, minimum: int, contributors: Contributors = Contributors.ALL) -> Grouping:  # noqa: ARG002
        """Those that go into sums, as counted by the parties that know all messages of a sum."""
        if self.forward.all():
            return self
        ends = self.source[self.forward], self.target[self.forward]
        flags = self.forward[self.forward], self.backward[self.forward]
        return AgreedGrouping(self.row_owner, self.group_owner, *ends, self.row_custodian, self.group_custodian, *flags)

    def reverse(self) -> Grouping:
        """The sums of the other pass."""
        return AgreedGrouping(
            self.group_owner, self.row_owner, self.target, self.source,
            self.group_custodian, self.row_custodian, self.backward, self.forward,
        )  # fmt: skip


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
        way = way.answered_grouping(minimum)
        ends = (way.row_owner[way.source], way.group_owner[way.target], way.group_custodian[way.target])
        for ids in ends:
            ids.flags.writeable = False
        return cls(way, way.segments, *ends)

    @classmethod
    def both_ways(cls, grouping: Grouping, minimum: int = 1) -> dict[Direction, Route]:
        """The forward pass along the grouping, the backward pass along the reverse of what was answered forward.

        With a minimum, a backward sum over fewer than that is left out as well.
        """
        forward = grouping.answered_grouping(minimum)
        return {Direction.FORWARD: cls.along(forward), Direction.BACKWARD: cls.along(forward.reverse(), minimum)}


MOST_ASKED = 8
"""Questions that are kept: of two hops in either direction, and of parties that are late."""


class _PairIndex:
    """Finds pairs of numbers among known ones, which are sorted once.

    Args:
        ones: int64 [k], not negative and below 2^31.
        others: int64 [k]; no pair is there twice.
    """

    __slots__ = ("_asked", "_names", "_order", "_others")

    def __init__(self, ones: Ids, others: Ids) -> None:
        self._others = np.unique(others)
        names = ones << 32 | np.searchsorted(self._others, others)
        self._order = np.argsort(names)
        self._names = names[self._order]
        self._asked: list[tuple[Ids, Ids, Ids]] = []

    def find(self, ones: Ids, others: Ids) -> Ids:
        """int64 [m]: the place of each pair among the known ones, -1 for others.

        The last few questions are kept: parties ask the same ones in every round.
        """
        for known in self._asked:
            if np.array_equal(known[0], ones) and np.array_equal(known[1], others):
                return known[2]
        result = self._find(ones, others)
        result.flags.writeable = False
        self._asked = [*self._asked[1 - MOST_ASKED :], (ones.copy(), others.copy(), result)]
        return result

    def _find(self, ones: Ids, others: Ids) -> Ids:
        if not len(self._names):
            return np.full(len(ones), -1, dtype=np.int64)
        rank = np.minimum(np.searchsorted(self._others, others), len(self._others) - 1)
        wanted = ones << 32 | rank
        place = np.minimum(np.searchsorted(self._names, wanted), len(self._names) - 1)
        known = (self._names[place] == wanted) & (self._others[rank] == others)
        result: Ids = np.where(known, self._order[place], -1)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Circuits:
    """Ways between devices that exchange rows and don't know each other: those on it hand on what they say.

    Attributes:
        table: int64 [w, 5], of each way at each device on it that is known: the device, the way's number, who is
            before and behind it, -1 beyond an end, and, at an end, whom it exchanges rows with, as the grouping calls
            it; -1 elsewhere. A process that hosts one end alone calls the other by an identifier that is no party's.
        hops: most devices between two ends, as the rules have it.
    """

    table: Ids = field(default_factory=lambda: np.empty((0, 5), dtype=np.int64), repr=False)
    hops: int = 0
    _places: _PairIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", _PairIndex(self.table[:, 0], self.table[:, 1]))

    @property
    def ends(self) -> Ids:
        """int64 [4, e]: devices at ends, whom they exchange rows with, numbers of the ways, and who is next on them."""
        device, ticket, before, behind, other = self.table[self.table[:, 4] >= 0].T
        return np.stack([device, other, ticket, np.where(before < 0, behind, before)])

    def onward(self, tickets: Ids, senders: Ids, receivers: Ids) -> Ids:
        """Where devices hand on what has come to them on a way.

        Args:
            tickets: int64 [m], of the ways.
            senders: int64 [m], who it has come from.
            receivers: int64 [m], the devices.

        Returns:
            int64 [m]: who is next, -1 at the end of a way.

        Raises:
            MalformedMessageError: there is no such way, or the two are not next to each other on it.
        """
        place = self._places.find(receivers, tickets)
        if (place >= 0).all():
            before, behind = self.table[place, 2], self.table[place, 3]
            if (((before == senders) | (behind == senders)) & (senders >= 0)).all():
                result: Ids = np.where(before == senders, behind, before)
                return result
        raise MalformedMessageError("what is handed on must come along a known way; at least one message does not")


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """One collective, as data.

    Attributes:
        name: one of `TOPOLOGIES`.
        grouping: rows, groups, and the messages between their owners.
        width: most entries of a row, at least 1.
        bound: largest magnitude of an entry where rows are integers; None where they are reals or field elements.
        aggregator: the party that may add up, where there is one; it may be entitled to the sum.
        helpers: int64 [k], ascending identifiers of those who help beside owners and custodians, such as relays.
        circuits: ways between owners of rows and of groups that don't know each other.
        others: int64 [k], identifiers of custodians whom the grouping, of one process's parties, lacks.
        veto: whether owners of rows may veto the one sum, so that no party learns it.
    """

    name: str
    grouping: Grouping
    width: int
    bound: int | None = None
    aggregator: int | None = None
    helpers: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    circuits: Circuits = field(default_factory=Circuits)
    others: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    veto: bool = False

    def __post_init__(self) -> None:
        if self.name not in TOPOLOGIES:
            raise InputError(f"name of a topology must be one of {', '.join(TOPOLOGIES)}; found {self.name!r}")
        if self.width < 1 or (self.bound is not None and self.bound < 1):
            raise InputError(f"width and bound must be at least 1; found {self.width} and {self.bound}")

    @classmethod
    def example(cls, name: str) -> Topology:
        """A small one of that name: what a scheme says of topologies where there is no run."""
        parties = Directory.hierarchy(3, 3)
        silos, devices = parties.ids(Role.SILO), parties.ids(Role.DEVICE)
        if name == SERVER:
            return cls.to_server(parties, 1, 1)
        if name == CLIENTS:
            return cls.to_client(parties, silos[:2], int(silos[2]), 1, 1)
        rows, hub = np.arange(2), np.full(2, 2)
        owners, silo = (devices, silos) if name == NEIGHBOURS else (silos, silos)
        return cls(name, Grouping(devices, owners, rows, hub, silos, silo), 1)

    @classmethod
    def to_server(cls, parties: Directory, width: int, bound: int | None = None) -> Topology:
        """One vector of every silo, whose sum the server adds up and is entitled to."""
        server = int(parties.ids(Role.SERVER)[0])
        return cls.to_one(SERVER, parties.ids(Role.SILO), server, server, width, bound)

    @classmethod
    def to_client(cls, parties: Directory, senders: Ids, receiver: int, width: int, bound: int | None) -> Topology:
        """One vector of each of some silos, whose sum the server adds up and another silo is entitled to.

        Args:
            parties: of the run.
            senders: int64 [m], party identifiers, all different; none is the receiver.
            receiver: party identifier.
            width: entries of a vector.
            bound: largest magnitude of an entry.
        """
        return cls.to_one(CLIENTS, senders, receiver, int(parties.ids(Role.SERVER)[0]), width, bound)

    @classmethod
    def to_one(cls, name: str, senders: Ids, receiver: int, aggregator: int, width: int, bound: int | None) -> Topology:
        """One row of each sender, and one sum of all of them."""
        m, one = len(senders), np.array([receiver], dtype=np.int64)
        if not m or len(np.unique(senders)) != m:
            raise InputError(f"senders must be one or more different parties; found {senders.tolist()}")
        if receiver in senders or aggregator in senders:
            raise InputError(
                f"receiver and aggregator must not be among the senders, whose rows they know; "
                f"found {receiver} and {aggregator}"
            )
        rows = np.arange(m, dtype=np.int64)
        grouping = Grouping(senders, one, rows, np.zeros(m, dtype=np.int64), senders, one)
        return cls(name, grouping, width, bound, aggregator)

    @property
    def senders(self) -> Ids:
        """Party identifiers of the owners of the rows, int64 [n]."""
        return self.grouping.row_owner

    @property
    def custodians(self) -> Ids:
        """int64 [k], ascending identifiers of all custodians."""
        return np.unique(np.concatenate([self.grouping.row_custodian, self.grouping.group_custodian, self.others]))

    @property
    def receiver(self) -> int | None:
        """The one party that is entitled to a sum; None where there are several sums."""
        owners = self.grouping.group_owner
        return int(owners[0]) if len(owners) == 1 else None

    @property
    def is_one_sum(self) -> bool:
        """Whether every row goes once into one sum that one party adds up."""
        g, m = self.grouping, len(self.grouping.row_owner)
        return self.aggregator is not None and len(g.group_owner) == 1 and np.array_equal(g.source, np.arange(m))

    @property
    def terms(self) -> int:
        """Most rows in one sum, in either direction."""
        g = self.grouping
        return max(g.largest_group, int(np.bincount(g.source, minlength=1).max()), 1)
