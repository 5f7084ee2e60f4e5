"""The circuits of one process's parties: their senders and groups, and the rows that they carry in a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.wire import find_positions, ranks, slot_names
from fgl_secure.protocols.topology import MEMBERS, Circuits, Contributors, Grouping
from fgl_secure.runtime import Direction
from fgl_secure.runtime.transcript import Numbers, kind_of, narrow
from fgl_secure.typing import Flags, Ids

DUMMY = -1
"""Row of a dummy: its circuit carries zero."""


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
        reopen_every: steps after which circuits are reopened; 0 for after a loss only.
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
        """Whether rows of a topology go via silos; the devices of a silo are no secret."""
        return self.hidden and name != MEMBERS

    def padding_of(self, grouping: Grouping, name: str) -> int | None:
        """Return how many circuits every device opens and every group has; None if counts are public."""
        if not self.mixes(name):
            return None
        return int(np.bincount(grouping.target, minlength=1).max()) if self.padding is None else self.padding


@dataclass(frozen=True, slots=True, eq=False)
class Notices:
    """Messages from owners of groups to their senders, once per opening.

    Attributes:
        owners: int64 [t].
        senders: int64 [t].
        groups: int64 [t].
        places: the index of each among those of the same two parties; int64 route numbers between others.
    """

    owners: Ids
    senders: Ids
    groups: Ids
    places: NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.owners)

    def select(self, mask: Flags) -> Notices:
        """Return those under a mask."""
        return Notices(self.owners[mask], self.senders[mask], self.groups[mask], self.places[mask])

    def names(self, scale: int) -> Ids:
        """Return a number for each notice between neighbours."""
        return slot_names(self.owners, self.senders) * scale + self.places.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PassRows:
    """The rows that circuits carry in one pass.

    Attributes:
        rows: [m], of each circuit the row among those of hosted owners; DUMMY for zero.
        count: rows of hosted owners.
        groups: int64 [h], places in `CircuitPlan.owned` of the sums of hosted owners, in the order of the pass.
        message_counts: int64 [h], messages in each sum; sums of too few are refused.
        expected: int64 [h], circuits of each group.
    """

    rows: Numbers
    count: int
    groups: Ids
    message_counts: Ids
    expected: Ids


@dataclass(frozen=True, eq=False)
class CircuitPlan:
    """Circuits of hosted senders, ascending by sender and slot, and the groups of hosted owners.

    Attributes:
        grouping: whose numbers groups go by.
        senders: [m], ascending party identifiers.
        groups: [m], the group that each is to.
        custodians: int64 [m], the silos of the senders.
        owned: int64 [h], the hosted groups.
        near, far: notices of hosted owners to their senders: to neighbours, and along routes.
        next_hops: int64, the first device on the route of each of the latter.
        received_near, received_far: notices to hosted senders.
        near_circuits, far_circuits: the circuit of each of these.
        own_circuits: int64, circuits to groups of their own senders.
    """

    grouping: Grouping
    senders: Numbers
    groups: Numbers
    custodians: Ids
    owned: Ids
    near: Notices
    far: Notices
    next_hops: Ids
    received_near: Notices
    received_far: Notices
    near_circuits: Ids
    far_circuits: Ids
    own_circuits: Ids

    def __len__(self) -> int:
        return len(self.senders)

    @property
    def parties(self) -> Ids:
        """int64 [s], the senders, ascending."""
        return np.unique(self.senders).astype(np.int64)

    @property
    def owners(self) -> Ids:
        """int64 [h], of the hosted groups."""
        return self.grouping.group_owner[self.owned]

    @cached_property
    def slots(self) -> NDArray[np.uint32]:
        """uint32 [m], from 0 for each sender."""
        return (np.arange(len(self)) - np.searchsorted(self.senders, self.senders)).astype(np.uint32)

    @classmethod
    def of(
        cls,
        grouping: Grouping,
        parties: Ids,
        shuffle: Callable[[int], Ids | None],
        padding: int | None = None,
        paths: Circuits | None = None,
    ) -> CircuitPlan:
        """Plan the circuits of some parties.

        Args:
            grouping: who sends what to whom.
            parties: int64, those hosted.
            shuffle: gives numbers for the order of slots of so many circuits; None takes the order of groups.
            padding: how many circuits every owner of a group and a row opens; None for one a message.
            paths: between owners that don't know each other.

        Raises:
            InputError: a party has more messages than that, or sends more or fewer than it gets.
        """
        hosted = np.isin(grouping.row_owner, parties)
        origin = np.flatnonzero(hosted[grouping.source])
        groups, senders = grouping.target[origin], grouping.row_owner[grouping.source[origin]]
        custodians = grouping.row_custodian[grouping.source[origin]]
        if padding is not None:
            dummies = _plan_dummies(grouping, parties, padding)
            groups = np.concatenate([groups, dummies])
            senders = np.concatenate([senders, grouping.group_owner[dummies]])
            custodians = np.concatenate([custodians, grouping.group_custodian[dummies]])
        slot_order = shuffle(len(groups))
        order = np.lexsort((groups if slot_order is None else slot_order, senders))
        groups, senders = groups[order], senders[order]
        owned = np.flatnonzero(np.isin(grouping.group_owner, parties))
        notices = _plan_notices(grouping, parties, groups, senders, paths)
        own = np.flatnonzero(grouping.group_owner[groups] == senders)
        numbers = narrow(senders), groups.astype(kind_of(max(len(grouping.group_owner), 1)))
        sent, first, received, circuits = notices[:2], notices[2], notices[3:5], notices[5:]
        return cls(grouping, *numbers, custodians[order], owned, *sent, first, *received, *circuits, own)

    def assign_rows(self, answered: Grouping, parties: Ids, padding: int | None) -> PassRows:
        """Assign rows to circuits for the messages of a pass that go into sums.

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
        circuit_ends = self.senders.astype(np.int64), self.grouping.group_owner[self.groups]
        if padding is None:  # of one pass, whose groups have numbers of their own
            ends, circuit_ends = (ends[0], answered.target[sent]), (circuit_ends[0], self.groups.astype(np.int64))
        positions = _match_pairs(ends, circuit_ends)
        rows = np.full(len(self), DUMMY, dtype=kind_of(len(answered.row_owner)))
        rows[positions] = (np.cumsum(hosted) - 1)[answered.source[sent]]
        groups = np.flatnonzero(np.isin(answered.group_owner, parties))
        places = np.arange(len(groups)) if padding is None else _match_pairs(
            (answered.group_owner[groups], groups * 0), (self.owners, self.owned * 0)
        )  # fmt: skip
        message_counts = np.bincount(answered.target, minlength=len(answered.group_owner))[groups]
        expected = message_counts if padding is None else np.full(len(groups), padding)
        return PassRows(rows, int(hosted.sum()), places, message_counts, expected)


def _match_pairs(wanted: tuple[Ids, Ids], known: tuple[Ids, Ids]) -> Ids:
    """Return the position of each wanted pair among known ones; equal pairs match in order."""
    seconds = np.unique(np.concatenate([wanted[1], known[1]]))
    names = [slot_names(one, np.searchsorted(seconds, other)) for one, other in (wanted, known)]
    orders = [np.argsort(row_names, kind="stable") for row_names in names]
    wanted_names, known_names = names[0][orders[0]], names[1][orders[1]]
    positions = np.searchsorted(known_names, wanted_names) + ranks(wanted_names)
    size = len(known_names)
    if len(wanted_names) and (int(positions.max()) >= size or (known_names[positions] != wanted_names).any()):
        raise InputError("messages of both passes must be between the same parties; at least one is not")
    out = np.empty(len(wanted_names), dtype=np.int64)
    out[orders[0]] = orders[1][positions]
    return out


def passes(grouping: Grouping, scheme: Parameters) -> dict[Direction, tuple[Grouping, Grouping]]:
    """Return for either direction all messages, and those that go into sums."""
    counted = scheme.k_min, scheme.contributors
    answered = grouping.answered_grouping(*counted)
    return {
        Direction.FORWARD: (grouping, answered),
        Direction.BACKWARD: (grouping.reverse(), answered.reverse().answered_grouping(*counted)),
    }


def _plan_notices(
    grouping: Grouping, parties: Ids, groups: Ids, senders: Ids, paths: Circuits | None
) -> tuple[Notices, Notices, Ids, Notices, Notices, Ids, Ids]:
    """Return the notices to neighbours and along routes; see `CircuitPlan`."""
    of_group, of_row = grouping.group_owner[grouping.target], grouping.row_owner[grouping.source]
    external = np.flatnonzero(of_group != of_row)
    places = np.empty(len(external), dtype=np.int64)
    notice = Notices(of_group[external], of_row[external], grouping.target[external], places)
    notice.places[:] = ranks(slot_names(notice.owners, notice.senders))
    distant, first = np.zeros(len(notice), dtype=np.bool_), np.empty(len(notice), dtype=np.int64)
    if paths is not None and len(paths.table):
        devices, others, tickets, following = paths.ends
        route_names = slot_names(devices, others)
        order = np.argsort(route_names)
        by_owner, by_sender = (
            find_positions(slot_names(*ends), route_names[order])
            for ends in ((notice.owners, notice.senders), (notice.senders, notice.owners))
        )
        distant = np.maximum(by_owner, by_sender) >= 0
        notice.places[distant] = tickets[order[np.maximum(by_owner, by_sender)[distant]]]
        has_route = by_owner >= 0
        first[has_route] = following[order[by_owner[has_route]]]
    is_sent, is_received = np.isin(notice.owners, parties), np.isin(notice.senders, parties)
    sent = notice.select(is_sent & ~distant), notice.select(is_sent & distant)
    received = notice.select(is_received & ~distant), notice.select(is_received & distant)
    circuits = [_match_pairs((notices.senders, notices.groups), (senders, groups)) for notices in received]
    return *sent, first[is_sent & distant], *received, circuits[0], circuits[1]


def _plan_dummies(grouping: Grouping, parties: Ids, padding: int) -> Ids:
    """Return the groups of dummies: circuits of devices to themselves, up to the common number."""
    owners, groups = np.unique(grouping.group_owner, return_index=True)
    hosted = np.isin(owners, parties)
    owners, groups, senders = owners[hosted], groups[hosted], grouping.row_owner[grouping.source]
    senders = senders[np.isin(senders, parties)]
    sent = np.bincount(senders, minlength=int(owners.max(initial=-1)) + 1)[owners]
    received = np.bincount(grouping.target, minlength=len(grouping.group_owner))[groups]
    if not np.array_equal(np.union1d(owners, senders), owners) or not np.array_equal(sent, received):
        raise InputError(
            "profile graph-hidden needs a grouping in which each device sends as many messages as it gets (an "
            "undirected graph); found one in which that differs; take relay-coded[graph-shown]"
        )
    if int(sent.max(initial=0)) > padding:
        raise InputError(
            f"max_degree must be at least the most messages of one sender, {int(sent.max())}; found {padding}, which "
            f"{int((sent > padding).sum())} senders exceed"
        )
    return np.repeat(groups, padding - sent)
