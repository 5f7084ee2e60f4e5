"""The circuits of one process's parties: who opens them to whose groups, and what they carry in a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.wire import found_among, names_of, ranks
from fgl_secure.protocols.topology import MEMBERS, Circuits, Contributors, Grouping
from fgl_secure.runtime import Direction
from fgl_secure.runtime.transcript import Numbers, kind_of, narrow
from fgl_secure.typing import Flags, Ids

COVER = -1
"""Row of a circuit that carries zero."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that all parties know.

    Attributes:
        field: of the shares.
        T: degree of the polynomials.
        R: relays.
        k_min: least messages of a sum that is computed.
        hidden: whether relays must not see the graph.
        padding: D, circuits of every device and group; None takes the most that a device has to open.
        contributors: which messages k_min counts.
        reopen_every: steps after which circuits are opened anew; 0 for after a loss alone.
    """

    field: PrimeField
    T: int
    R: int
    k_min: int
    hidden: bool
    padding: int | None
    contributors: Contributors = Contributors.ALL
    reopen_every: int = 0

    def mixes(self, name: str) -> bool:
        """Whether rows of a topology go via silos; whose devices are a silo's is no secret."""
        return self.hidden and name != MEMBERS

    def padding_of(self, way: Grouping, name: str) -> int | None:
        """Return how many circuits everyone opens and every group has; None where counts are shown."""
        if not self.mixes(name):
            return None
        return int(np.bincount(way.target, minlength=1).max()) if self.padding is None else self.padding


@dataclass(frozen=True, slots=True, eq=False)
class Tellings:
    """What passes once an opening from owners of groups to those who send to them.

    Attributes:
        owners: int64 [t].
        senders: int64 [t].
        groups: int64 [t].
        places: the number of each among those of the same two parties; int64 of the way between those who don't know
            each other.
    """

    owners: Ids
    senders: Ids
    groups: Ids
    places: NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.owners)

    def some(self, which: Flags) -> Tellings:
        """Return some of them."""
        return Tellings(self.owners[which], self.senders[which], self.groups[which], self.places[which])

    def names(self, scale: int) -> Ids:
        """Return a number for each of those whose ends know each other."""
        return names_of(self.owners, self.senders) * scale + self.places.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What circuits carry in one pass.

    Attributes:
        rows: [m], of each circuit the row among those of hosted owners; COVER for zero.
        count: rows of hosted owners.
        groups: int64 [h], places in `CircuitPlan.owned` of the sums of hosted owners, in the order of the pass.
        wanted: int64 [h], messages in each sum; sums of too few are refused.
        expected: int64 [h], circuits of each group.
    """

    rows: Numbers
    count: int
    groups: Ids
    wanted: Ids
    expected: Ids


@dataclass(frozen=True, eq=False)
class CircuitPlan:
    """Circuits of hosted senders, ascending by sender and slot, and the groups of hosted owners.

    Attributes:
        way: whose numbers groups go by.
        senders: [m], ascending party identifiers.
        groups: [m], the group that each is to.
        custodians: int64 [m], who administers the senders.
        owned: int64 [h], the hosted groups.
        near, far: what hosted owners tell those who send to them, whom they know, and by way of others.
        next_to: int64, who is first on the way of each of the latter.
        heard_near, heard_far: what hosted senders are told.
        at_near, at_far: the circuit of each of these.
        own: int64, circuits to groups of their own senders.
    """

    way: Grouping
    senders: Numbers
    groups: Numbers
    custodians: Ids
    owned: Ids
    near: Tellings
    far: Tellings
    next_to: Ids
    heard_near: Tellings
    heard_far: Tellings
    at_near: Ids
    at_far: Ids
    own: Ids

    def __len__(self) -> int:
        return len(self.senders)

    @property
    def parties(self) -> Ids:
        """int64 [s], the senders, ascending."""
        return np.unique(self.senders).astype(np.int64)

    @property
    def owners(self) -> Ids:
        """int64 [h], of the hosted groups."""
        return self.way.group_owner[self.owned]

    @cached_property
    def slots(self) -> NDArray[np.uint32]:
        """uint32 [m], from 0 for each sender."""
        return (np.arange(len(self)) - np.searchsorted(self.senders, self.senders)).astype(np.uint32)

    @classmethod
    def of(
        cls,
        way: Grouping,
        parties: Ids,
        shuffle: Callable[[int], Ids | None],
        padding: int | None = None,
        paths: Circuits | None = None,
    ) -> CircuitPlan:
        """Plan the circuits of some parties.

        Args:
            way: who sends what to whom.
            parties: int64, those hosted.
            shuffle: gives numbers for the order of slots of so many circuits; None takes the order of groups.
            padding: how many circuits every owner of a group and a row opens; None for one a message.
            paths: between owners that don't know each other.

        Raises:
            InputError: a party has more messages than that, or sends more or fewer than it gets.
        """
        hosted = np.isin(way.row_owner, parties)
        origin = np.flatnonzero(hosted[way.source])
        groups, senders = way.target[origin], way.row_owner[way.source[origin]]
        custodians = way.row_custodian[way.source[origin]]
        if padding is not None:
            covering = _cover(way, parties, padding)
            groups, senders = np.concatenate([groups, covering]), np.concatenate([senders, way.group_owner[covering]])
            custodians = np.concatenate([custodians, way.group_custodian[covering]])
        by = shuffle(len(groups))
        order = np.lexsort((groups if by is None else by, senders))
        groups, senders = groups[order], senders[order]
        owned = np.flatnonzero(np.isin(way.group_owner, parties))
        tellings = _tellings(way, parties, groups, senders, paths)
        told, first, heard = tellings[:2], tellings[2], tellings[3:5]
        own = np.flatnonzero(way.group_owner[groups] == senders)
        numbers = narrow(senders), groups.astype(kind_of(max(len(way.group_owner), 1)))
        return cls(way, *numbers, custodians[order], owned, *told, first, *heard, tellings[5], tellings[6], own)

    def carried(self, answered: Grouping, parties: Ids, padding: int | None) -> Carried:
        """Return what circuits carry of the messages of a pass that go into sums.

        Args:
            answered: these messages.
            parties: int64, those hosted.
            padding: circuits of each group; None for one a message.

        Raises:
            InputError: a message has no circuit.
        """
        hosted = np.isin(answered.row_owner, parties)
        sent = np.flatnonzero(hosted[answered.source])
        ends = answered.row_owner[answered.source[sent]], answered.group_owner[answered.target[sent]]
        own = self.senders.astype(np.int64), self.way.group_owner[self.groups]
        if padding is None:  # of one pass, whose groups have numbers of their own
            ends, own = (ends[0], answered.target[sent]), (own[0], self.groups.astype(np.int64))
        at = _matched(ends, own)
        rows = np.full(len(self), COVER, dtype=kind_of(len(answered.row_owner)))
        rows[at] = (np.cumsum(hosted) - 1)[answered.source[sent]]
        groups = np.flatnonzero(np.isin(answered.group_owner, parties))
        places = np.arange(len(groups)) if padding is None else _matched(
            (answered.group_owner[groups], groups * 0), (self.owners, self.owned * 0)
        )  # fmt: skip
        wanted = np.bincount(answered.target, minlength=len(answered.group_owner))[groups]
        expected = wanted if padding is None else np.full(len(groups), padding)
        return Carried(rows, int(hosted.sum()), places, wanted, expected)


def _matched(wanted: tuple[Ids, Ids], known: tuple[Ids, Ids]) -> Ids:
    """Return the place of each wanted pair among known ones; of equal pairs the first takes the first."""
    seconds = np.unique(np.concatenate([wanted[1], known[1]]))
    names = [names_of(one, np.searchsorted(seconds, other)) for one, other in (wanted, known)]
    orders = [np.argsort(each, kind="stable") for each in names]
    sought, there = names[0][orders[0]], names[1][orders[1]]
    at = np.searchsorted(there, sought) + ranks(sought)
    if len(sought) and (int(at.max()) >= len(there) or (there[at] != sought).any()):
        raise InputError("messages of both passes must be between the same parties; at least one is not")
    out = np.empty(len(sought), dtype=np.int64)
    out[orders[0]] = orders[1][at]
    return out


def passes(grouping: Grouping, scheme: Parameters) -> dict[Direction, tuple[Grouping, Grouping]]:
    """Return for either direction all messages, and those that go into sums."""
    counted = scheme.k_min, scheme.contributors
    answered = grouping.answered_grouping(*counted)
    return {
        Direction.FORWARD: (grouping, answered),
        Direction.BACKWARD: (grouping.reverse(), answered.reverse().answered_grouping(*counted)),
    }


def _tellings(
    way: Grouping, parties: Ids, groups: Ids, senders: Ids, paths: Circuits | None
) -> tuple[Tellings, Tellings, Ids, Tellings, Tellings, Ids, Ids]:
    """What is sent, to known receivers and via others; see `CircuitPlan`."""
    of_group, of_row = way.group_owner[way.target], way.row_owner[way.source]
    abroad = np.flatnonzero(of_group != of_row)
    every = Tellings(of_group[abroad], of_row[abroad], way.target[abroad], np.empty(len(abroad), dtype=np.int64))
    every.places[:] = ranks(names_of(every.owners, every.senders))
    far, first = np.zeros(len(every), dtype=np.bool_), np.empty(len(every), dtype=np.int64)
    if paths is not None and len(paths.table):
        devices, others, tickets, following = paths.ends
        known = names_of(devices, others)
        order = np.argsort(known)
        by_owner, by_sender = (
            found_among(names_of(*ends), known[order])
            for ends in ((every.owners, every.senders), (every.senders, every.owners))
        )
        far = np.maximum(by_owner, by_sender) >= 0
        every.places[far] = tickets[order[np.maximum(by_owner, by_sender)[far]]]
        known_ways = by_owner >= 0
        first[known_ways] = following[order[by_owner[known_ways]]]
    told, heard = np.isin(every.owners, parties), np.isin(every.senders, parties)
    parts = [every.some(which) for which in (told & ~far, told & far, heard & ~far, heard & far)]
    at = [_matched((each.senders, each.groups), (senders, groups)) for each in parts[2:]]
    return parts[0], parts[1], first[told & far], parts[2], parts[3], at[0], at[1]


def _cover(way: Grouping, parties: Ids, padding: int) -> Ids:
    """The groups of the circuits that devices open to themselves, until they have as many as everyone else."""
    owners, groups = np.unique(way.group_owner, return_index=True)
    hosted = np.isin(owners, parties)
    owners, groups, senders = owners[hosted], groups[hosted], way.row_owner[way.source]
    senders = senders[np.isin(senders, parties)]
    sent = np.bincount(senders, minlength=int(owners.max(initial=-1)) + 1)[owners]
    heard = np.bincount(way.target, minlength=len(way.group_owner))[groups]
    if not np.array_equal(np.union1d(owners, senders), owners) or not np.array_equal(sent, heard):
        raise InputError(
            "profile graph-hidden needs a grouping in which everyone sends as many messages as it gets (an undirected "
            "graph); found one in which that differs; take relay-coded[graph-shown]"
        )
    if int(sent.max(initial=0)) > padding:
        raise InputError(
            f"max_degree must be at least the most messages of one sender, {int(sent.max())}; found {padding}, which "
            f"{int((sent > padding).sum())} senders exceed"
        )
    return np.repeat(groups, padding - sent)
