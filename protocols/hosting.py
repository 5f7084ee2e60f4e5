"""The part of a route that concerns the parties of one process, and which of its messages have arrived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.algebra import Segments
from fgl_secure.protocols.topology import Grouping, Route
from fgl_secure.runtime import Direction, Messages
from fgl_secure.typing import Ids


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """Messages that are due, one row a message. Where two parties exchange several, their order tells them apart.

    Attributes:
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
    """

    senders: Ids
    receivers: Ids

    def find(self, messages: Messages) -> tuple[Ids | None, Ids]:
        """Which messages of a batch were due, and the place of each.

        What comes twice counts once. Where two parties exchange several and some are lost, none of them counts: no
        party could tell which are there.

        Returns:
            rows: int64 [k] of the batch, or None for all of it.
            places: int64 [k], ascending.
        """
        m = len(self.senders)
        if _alike(messages.senders, self.senders) and _alike(messages.receivers, self.receivers):
            return None, np.arange(m, dtype=np.int64)
        high = 1 + max((int(ids.max()) for ids in (self.senders, self.receivers) if len(ids)), default=-1)
        inside = [(ids >= 0) & (ids < high) for ids in (messages.senders, messages.receivers)]
        known = np.flatnonzero(inside[0] & inside[1])  # a pair with another number could pass for one that is due
        due = self.senders * high + self.receivers
        came = messages.senders[known] * high + messages.receivers[known]
        order, arrival = np.argsort(due, kind="stable"), np.argsort(came, kind="stable")
        pairs, first, counts = np.unique(came[arrival], return_index=True, return_counts=True)
        start = np.searchsorted(due[order], pairs)
        wanted = np.searchsorted(due[order], pairs, side="right") - start
        wanted = (counts >= wanted) * wanted
        rank = np.arange(len(came)) - np.repeat(first, counts)
        mask = rank < np.repeat(wanted, counts)
        rows, places = known[arrival[mask]], order[(np.repeat(start, counts) + rank)[mask]]
        by_place = np.argsort(places)
        complete = len(rows) == len(messages) and bool((rows[by_place] == np.arange(len(messages))).all())
        return None if complete else rows[by_place], places[by_place]


def _alike(result: Ids, due: Ids) -> bool:
    return result is due or np.array_equal(result, due)


@dataclass(frozen=True, slots=True, eq=False)
class HostedRoute:
    """The part of a route that some parties send or read.

    Attributes:
        rows: how many rows their owners hosted have.
        source: int64 [k], the row of each message that they send, counted among the rows hosted.
        leaving: ends of these messages.
        addresses: int64 [k], the owner of the group that each is for.
        custodians: int64 [k], who administers that owner.
        groups: int64 [h], groups that they read.
        target: int64 [l], the group of each message that they read, counted among these.
        asking: int64 [a], ascending: those of them that there is a message for, counted in the same way.
        segments: these messages by group.
        due: ends of these messages.
    """

    rows: int
    source: Ids
    leaving: Due
    addresses: Ids
    custodians: Ids
    groups: Ids
    target: Ids
    asking: Ids
    segments: Segments
    due: Due

    @classmethod
    def of(cls, route: Route, parties: Ids, *, by_custodian: bool = False) -> HostedRoute:
        """Works it out.

        Args:
            route: the pass.
            parties: int64 [p], identifiers of those hosted.
            by_custodian: whether custodians read what is for the groups of those that they administer.
        """
        way = route.way
        readers = route.custodians if by_custodian else route.receivers
        entitled = way.group_custodian if by_custodian else way.group_owner
        rows, out = _owned_places(way.row_owner, parties), _owned_places(route.senders, parties)
        groups, into = _owned_places(entitled, parties), _owned_places(readers, parties)
        sends_all, reads_all = len(rows) == len(way.row_owner), len(groups) == len(entitled)
        target = way.target if reads_all else np.searchsorted(groups, way.target[into])
        return cls(
            len(rows),
            way.source if sends_all else np.searchsorted(rows, way.source[out]),
            Due(_take_ids(route.senders, out), _take_ids(readers, out)),
            _take_ids(route.receivers, out),
            _take_ids(route.custodians, out),
            groups,
            target,
            np.unique(target),
            route.segments if reads_all else Segments.by_group(target, len(groups)),
            Due(_take_ids(route.senders, into), _take_ids(readers, into)),
        )

    @classmethod
    def both_ways(
        cls, grouping: Grouping, parties: Ids, minimum: int = 1, *, by_custodian: bool = False
    ) -> dict[Direction, HostedRoute]:
        """The same for both passes; see `Route.both_ways`."""
        routes = Route.both_ways(grouping, minimum)
        return {way: cls.of(route, parties, by_custodian=by_custodian) for way, route in routes.items()}

    def received_segments(self, places: Ids) -> Segments:
        """Those messages by group that are there: places int64 [k], ascending."""
        if len(places) == len(self.target):
            return self.segments
        return Segments.by_group(self.target[places], len(self.groups))


def _owned_places(owners: Ids, parties: Ids) -> Ids:
    return np.flatnonzero(np.isin(owners, parties))


def _take_ids(ids: Ids, positions: Ids) -> Ids:
    """Some of them; the same array where that is all, so that ends are quickly found alike."""
    return ids if len(positions) == len(ids) else ids[positions]
