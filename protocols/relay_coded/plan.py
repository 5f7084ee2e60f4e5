"""The messages of one pass that concern the parties of one process, in the order in which relays may see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.relay_coded.wire import found_among, names_of, ranks
from fgl_secure.protocols.topology import MEMBERS, Circuits, Grouping, PairIndex


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that all parties know.

    Attributes:
        field: of the shares.
        T: degree of the polynomials.
        R: relays.
        k_min: least messages of a sum that is computed.
        anonymous: whether senders are unnamed.
        padding: messages that everybody sends where they are; None takes the most that anybody has to send.
        resends: how often a relay asks a sender again for what another relay holds.
        most_slots: messages of one sender in one step that headers can name.
        untold: whether nobody tells tags to those who send to devices.
    """

    field: PrimeField
    T: int
    R: int
    k_min: int
    anonymous: bool
    padding: int | None
    resends: int
    most_slots: int
    untold: bool = False

    def padding_of(self, way: Grouping, name: str) -> int | None:
        """How many messages everybody sends and has under its tag; None where counts are shown.

        Args:
            way: who sends what to whom.
            name: of the topology; whose devices are a silo's is no secret, so nobody pads what is for silos.
        """
        if not self.anonymous or name == MEMBERS:
            return None
        return int(np.bincount(way.target, minlength=1).max()) if self.padding is None else self.padding

    def labelled(self, name: str) -> bool:
        """Whether messages of a topology are under labels that both ends work out, and not under a tag that is told."""
        return self.untold and name != MEMBERS

    def least(self, way: Grouping, name: str) -> int:
        """Least messages under a tag for which a relay answers, so that k_min of those that count are among them.

        A relay cannot tell messages that count from padding. Where there is padding, it answers when all have arrived:
        a sum over k_min then holds that many, whatever is padding, and a sum that lacks one is nobody's.
        """
        return self.k_min if (padding := self.padding_of(way, name)) is None else max(padding, 1)


Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_CIRCUITS = Circuits()

COVER = -1
"""Row of a message that carries zero, for padding."""


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """The messages of hosted senders, sorted by sender and slot.

    Slots number a sender's messages in an order drawn once a session: one that followed the targets' numbers would
    tell relays which unnamed target has the lower number.

    Attributes:
        rows: int64 [m], the row of each message; COVER for one that carries zero.
        groups: int64 [m], the group of each.
        senders: int64 [m], ascending party identifiers.
        proxies: int64 [m], who administers each sender.
        slots: uint32 [m], from 0 for each sender.
    """

    rows: Ids
    groups: Ids
    senders: Ids
    proxies: Ids
    slots: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.rows)

    def in_order(self, order: Ids) -> Outgoing:
        """The messages in another order, by sender; slots count on for each."""
        senders = self.senders[order]
        slots = np.arange(len(order)) - np.searchsorted(senders, senders)
        ends = senders, self.proxies[order]
        return Outgoing(self.rows[order], self.groups[order], *ends, slots.astype(np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class Tagging:
    """The messages whose tags pass between the owners of sums and those who send for them, in the grouping's order.

    Attributes:
        owners: int64 [t], the owners of the sums, who tell the tags.
        senders: int64 [t], who are told.
        groups: int64 [t], of each message.
        places: int64 [t], the number of each among those of the same two parties; where the two don't know each
            other, that of the way between them.
    """

    owners: Ids
    senders: Ids
    groups: Ids
    places: Ids

    def __len__(self) -> int:
        return len(self.owners)

    def some(self, which: Flags) -> Tagging:
        """Some of them, in their order."""
        if which.all():  # as where nobody sends to itself and everybody is hosted here
            return self
        return Tagging(self.owners[which], self.senders[which], self.groups[which], self.places[which])


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One pass.

    Attributes:
        way: who sends what to whom, with the messages that are sent.
        groups: int64 [h], those whose owners are hosted.
        rows: int64 [r], those whose owners are hosted.
        out: what hosted senders send.
        handed: tags that hosted owners of sums hand out to those they know.
        heard: tags that hosted senders wait for, of those they know.
        of_heard: int64, the place in `out` of the message of each.
        handed_on: tags that hosted owners of sums hand out by way of others.
        next_to: int64, who is first on the way of each of those.
        heard_of: tags that come to hosted senders by way of others.
        of_heard_of: int64, the place in `out` of the message of each.
        own: int64 [o], the places in `out` of messages that go into sums of their own senders.
        wanted: int64 [h], messages in the sum of each hosted group; groups below k_min are refused.
        expected: int64 [h], messages under its tag, with those that carry zero.
    """

    way: Grouping
    groups: Ids
    rows: Ids
    out: Outgoing
    handed: Tagging
    heard: Tagging
    of_heard: Ids
    handed_on: Tagging
    next_to: Ids
    heard_of: Tagging
    of_heard_of: Ids
    own: Ids
    wanted: Ids
    expected: Ids
    _heard_of: PairIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_heard_of", PairIndex(self.heard_of.senders, self.heard_of.places))

    @property
    def owners(self) -> Ids:
        """int64 [h], the owners of hosted groups."""
        return self.way.group_owner[self.groups]

    @property
    def custodians(self) -> Ids:
        """int64 [h], who administer those."""
        return self.way.group_custodian[self.groups]

    def heard_at(self, senders: Ids, receivers: Ids, places: Ids) -> Ids:
        """int64 [k]: the position in `heard` of tags that arrived, -1 for those that nobody waits for."""
        heard = self.heard
        if senders is self.handed.owners and len(self.handed) == len(heard):
            return np.arange(len(heard))
        scale = int(max(heard.places.max(initial=0), places.max(initial=0))) + 1
        known = names_of(heard.owners, heard.senders) * scale + heard.places
        order = np.argsort(known)
        place = found_among(names_of(senders, receivers) * scale + places, known[order])
        return np.where(place < 0, -1, order[place])

    def heard_of_at(self, receivers: Ids, tickets: Ids) -> Ids:
        """int64 [k]: the position in `heard_of` of tags that came by way of others, -1 for those nobody waits for."""
        return self._heard_of.find(receivers, tickets)

    @classmethod
    def of(
        cls,
        way: Grouping,
        answered: Grouping,
        parties: Ids,
        shuffle: Callable[[int], Ids | None],
        padding: int | None = None,
        circuits: Circuits = NO_CIRCUITS,
    ) -> Plan:
        """Orders the messages of a pass.

        Args:
            way: who sends what to whom.
            answered: the part of it that goes into sums; other messages carry zero, or are not sent.
            parties: int64, those hosted.
            shuffle: gives numbers for the order of slots of so many messages; None takes the order of groups.
            padding: how many messages every owner of a group and a row sends, those that go into no sum among them;
                None sends none of these.
            circuits: ways between owners that don't know each other.

        Raises:
            InputError: somebody has more messages than that, or sends more or fewer than it gets.
        """
        sent = answered if padding is None else way
        groups = np.flatnonzero(np.isin(way.group_owner, parties))
        rows = np.flatnonzero(np.isin(way.row_owner, parties))
        unordered, origin = _outgoing(sent, answered, parties, padding)
        by = shuffle(len(unordered))
        order = np.lexsort((unordered.groups if by is None else by, unordered.senders))
        out, origin = unordered.in_order(order), origin[order]
        tags = _taggings(sent, parties, origin, circuits)
        covers = np.bincount(out.groups[origin < 0], minlength=len(way.group_owner))
        wanted = np.bincount(answered.target, minlength=len(way.group_owner))
        expected = np.bincount(sent.target, minlength=len(way.group_owner)) + covers
        own = np.flatnonzero(way.group_owner[out.groups] == out.senders)
        return cls(sent, groups, rows, out, *tags, own, wanted[groups], expected[groups])


def _outgoing(sent: Grouping, answered: Grouping, parties: Ids, padding: int | None) -> tuple[Outgoing, Ids]:
    """What hosted senders send, in the grouping's order, and for each its number there, -1 for covers."""
    hosted = np.flatnonzero(np.isin(sent.row_owner, parties)[sent.source])
    rows, groups = np.where(_within(sent, answered), sent.source, COVER)[hosted], sent.target[hosted]
    senders, proxies = sent.row_owner[sent.source[hosted]], sent.row_custodian[sent.source[hosted]]
    origin = hosted
    if padding is not None:
        covering = _cover(sent, parties, padding)
        nothing = np.full(len(covering), COVER)
        rows, groups, origin = (
            np.concatenate(each) for each in ((rows, nothing), (groups, covering), (origin, nothing))
        )
        senders = np.concatenate([senders, sent.group_owner[covering]])
        proxies = np.concatenate([proxies, sent.group_custodian[covering]])
    return Outgoing(rows, groups, senders, proxies, np.zeros(len(rows), dtype=np.uint32)), origin


def _taggings(
    sent: Grouping, parties: Ids, origin: Ids, circuits: Circuits
) -> tuple[Tagging, Tagging, Ids, Tagging, Ids, Tagging, Ids]:
    """Tags that pass, see `Plan`: to and from those that are known first, then by way of others."""
    owners, senders = sent.group_owner[sent.target], sent.row_owner[sent.source]
    devices, others, tickets, following = circuits.ends
    known = names_of(devices, others)
    order = np.argsort(known)
    of_owner, of_sender = (
        found_among(names_of(*ends), known[order]) for ends in ((owners, senders), (senders, owners))
    )
    far = np.maximum(of_owner, of_sender) >= 0
    places = ranks(names_of(owners, senders))
    places[far] = tickets[order[np.maximum(of_owner, of_sender)[far]]]
    abroad = owners != senders
    handed, heard = abroad & np.isin(owners, parties), abroad & np.isin(senders, parties)
    at = np.full(len(owners), -1, dtype=np.int64)
    real = np.flatnonzero(origin >= 0)
    at[origin[real]] = real
    all_of_them, near = Tagging(owners, senders, sent.target, places), ~far
    there = all_of_them.some(handed & near)
    here = there if np.array_equal(handed, heard) else all_of_them.some(heard & near)
    first = following[order[of_owner[handed & far]]]
    beyond = all_of_them.some(handed & far), first, all_of_them.some(heard & far), at[heard & far]
    return there, here, at[heard & near], *beyond


def _within(way: Grouping, answered: Grouping) -> Flags:
    """Bool [m]: which messages of a grouping are in a part of it."""
    if len(way.source) == len(answered.source):
        return np.ones(len(way.source), dtype=np.bool_)
    groups = len(way.group_owner)
    return np.isin(way.source * groups + way.target, answered.source * groups + answered.target)


def _cover(way: Grouping, parties: Ids, padding: int) -> Ids:
    """The groups of the messages that everybody sends to itself, until it has sent as many as everybody else."""
    owners, groups = np.unique(way.group_owner, return_index=True)
    hosted = np.isin(owners, parties)
    owners, groups, senders = owners[hosted], groups[hosted], way.row_owner[way.source]
    senders = senders[np.isin(senders, parties)]
    sent = np.bincount(senders, minlength=int(owners.max(initial=-1)) + 1)[owners]
    heard = np.bincount(way.target, minlength=len(way.group_owner))[groups]
    if not np.array_equal(np.union1d(owners, senders), owners) or not np.array_equal(sent, heard):
        raise InputError(
            "profile graph-hidden needs a grouping in which everybody sends as many messages as it gets (an undirected "
            "graph); found one in which that differs; take relay-coded[graph-shown]"
        )
    if int(sent.max(initial=0)) > padding:
        raise InputError(
            f"max_degree must be at least the most messages of one sender, {int(sent.max())}; found {padding}, which "
            f"{int((sent > padding).sum())} senders exceed"
        )
    return np.repeat(groups, padding - sent)
