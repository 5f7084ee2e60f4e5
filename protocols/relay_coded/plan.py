"""The messages of one pass that concern the parties of one process, in the order in which relays may see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError
from fgl_secure.protocols.partnering import Contributors
from fgl_secure.protocols.relay_coded.wire import found_among, names_of, ranks
from fgl_secure.protocols.topology import MEMBERS, Circuits, Grouping, PairIndex
from fgl_secure.runtime.transcript import Numbers, kind_of, narrow
from fgl_secure.typing import Flags, Ids


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
        contributors: which messages k_min counts.
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
    contributors: Contributors = Contributors.ALL

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


NO_CIRCUITS = Circuits()

COVER = -1
"""Row of a message that carries zero, for padding."""


@dataclass(frozen=True, slots=True, eq=False)
class _Outgoing:
    """The messages of hosted senders, sorted by sender and slot, in numbers as narrow as `kind_of` has them.

    Slots number a sender's messages in an order drawn once a session: one that followed the targets' numbers would
    tell relays which unnamed target has the lower number.

    Attributes:
        rows: [m], the row of each message; COVER for one that carries zero.
        groups: [m], the group of each.
        sender_of: [m], ascending party identifiers.
        firsts: int64 [s], the first message of each sender.
        custodians: int64 [s], who administers each sender.
    """

    rows: Numbers
    groups: Numbers
    sender_of: Numbers
    firsts: Ids
    custodians: Ids

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def parties(self) -> Ids:
        """int64 [s], the senders, ascending."""
        return self.sender_of[self.firsts].astype(np.int64)

    @property
    def senders(self) -> Ids:
        """int64 [m], ascending party identifiers; laid out anew."""
        return self.sender_of.astype(np.int64)

    @property
    def proxies(self) -> Ids:
        """int64 [m], who administers each sender; laid out anew."""
        return np.repeat(self.custodians, self.counts)

    @property
    def counts(self) -> Ids:
        """int64 [s], messages of each sender."""
        return np.diff(self.firsts, append=len(self))

    @property
    def slots(self) -> NDArray[np.uint32]:
        """uint32 [m], from 0 for each sender; laid out anew."""
        found = np.arange(len(self), dtype=np.uint32)
        found -= np.repeat(self.firsts.astype(np.uint32), self.counts)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tagging:
    """The messages whose tags pass between the owners of sums and those who send for them, in the grouping's order.

    Attributes:
        way: the grouping.
        which: [t], places of the messages in it, narrow; None for all.
        places: uint32 [t], the number of each among those of the same two parties; int64, where the two don't know
            each other, that of the way between them.
    """

    way: Grouping
    which: Numbers | None
    places: NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.places)

    @property
    def tickets(self) -> Ids:
        """int64 [t], the places of those that don't know each other."""
        return self.places.astype(np.int64, copy=False)

    @property
    def owners(self) -> Ids:
        """int64 [t], the owners of the sums, who tell the tags; laid out anew."""
        return self.way.group_owner[self.groups]

    @property
    def senders(self) -> Ids:
        """int64 [t], who are told; laid out anew."""
        source = self.way.source
        return self.way.row_owner[source if self.which is None else source[self.which]]

    @property
    def groups(self) -> Ids:
        """int64 [t], of each message."""
        return self.way.target if self.which is None else self.way.target[self.which]


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
        of_heard: the place in `out` of the message of each, narrow.
        handed_on: tags that hosted owners of sums hand out by way of others.
        next_to: int64, who is first on the way of each of those.
        heard_of: tags that come to hosted senders by way of others.
        of_heard_of: the place in `out` of the message of each, narrow.
        own: int64 [o], the places in `out` of messages that go into sums of their own senders.
        wanted: int64 [h], messages in the sum of each hosted group; groups below k_min are refused.
        expected: int64 [h], messages under its tag, with those that carry zero.
    """

    way: Grouping
    groups: Ids
    rows: Ids
    out: _Outgoing
    handed: Tagging
    heard: Tagging
    of_heard: Numbers
    handed_on: Tagging
    next_to: Ids
    heard_of: Tagging
    of_heard_of: Numbers
    own: Ids
    wanted: Ids
    expected: Ids
    _heard_of: PairIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_heard_of", PairIndex(self.heard_of.senders, self.heard_of.tickets))

    @property
    def owners(self) -> Ids:
        """int64 [h], the owners of hosted groups."""
        return self.way.group_owner[self.groups]

    @property
    def custodians(self) -> Ids:
        """int64 [h], who administer those."""
        return self.way.group_custodian[self.groups]

    def heard_at(self, senders: Ids, receivers: Ids, places: Ids) -> Numbers:
        """[k]: the place in `out` of the message of each tag that arrived, -1 for those that nobody waits for."""
        heard = self.heard
        ends = ((senders, heard.owners), (receivers, heard.senders), (places, heard.places))
        if all(np.array_equal(told, known) for told, known in ends):
            return self.of_heard
        scale = int(heard.places.max(initial=0)) + 1
        known = names_of(heard.owners, heard.senders) * scale + heard.places.astype(np.int64)
        order = np.argsort(known)
        place = found_among(names_of(senders, receivers) * scale + places.astype(np.int64), known[order])
        place[places >= scale] = -1  # it would make another one's name
        return np.where(place < 0, -1, self.of_heard[order[place]]) if len(order) else place

    def heard_of_at(self, receivers: Ids, tickets: Ids) -> Ids:
        """[k]: the place in `out` of the message of each tag that came by way of others, -1 for nobody's."""
        place = self._heard_of.find(receivers, tickets)
        return np.where(place < 0, -1, self.of_heard_of[place]) if len(self.of_heard_of) else place

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
        out, origin = _outgoing(sent, answered, parties, padding, shuffle)
        tags = _taggings(sent, parties, origin, circuits)
        covers = np.bincount(out.groups[origin < 0], minlength=len(way.group_owner))
        wanted = np.bincount(answered.target, minlength=len(way.group_owner))
        expected = np.bincount(sent.target, minlength=len(way.group_owner)) + covers
        own = np.flatnonzero(narrow(way.group_owner)[out.groups] == out.sender_of)
        return cls(sent, groups, rows, out, *tags, own, wanted[groups], expected[groups])


def _outgoing(
    sent: Grouping, answered: Grouping, parties: Ids, padding: int | None, shuffle: Callable[[int], Ids | None]
) -> tuple[_Outgoing, Numbers]:
    """What hosted senders send, and for each message its place in the grouping, -1 for covers; narrow."""
    kind, everything = kind_of(len(sent.source)), len(sent.row_owner) + len(sent.group_owner)
    hosted = np.isin(sent.row_owner, parties)
    origin = np.flatnonzero(hosted[sent.source]).astype(kind)
    source = narrow(sent.source, everything)[origin]
    rows = np.where(_within(sent, answered)[origin], source, source.dtype.type(COVER))
    groups = narrow(sent.target, everything)[origin]
    senders = narrow(sent.row_owner)[source]
    del source
    if padding is not None:
        covering = _cover(sent, parties, padding)
        nothing = np.full(len(covering), COVER)
        rows, origin = (np.concatenate([each, nothing.astype(each.dtype)]) for each in (rows, origin))
        groups = np.concatenate([groups, covering.astype(groups.dtype)])
        senders = np.concatenate([senders, sent.group_owner[covering]])
        senders = narrow(senders)
    by = shuffle(len(rows))
    order = np.lexsort((groups if by is None else by, senders))
    origin, senders = origin[order], senders[order]
    firsts = np.flatnonzero(np.append(True, senders[1:] != senders[:-1])[: len(senders)])
    at = origin[firsts]
    custodians = np.empty(len(firsts), dtype=np.int64)
    custodians[at >= 0] = sent.row_custodian[sent.source[at[at >= 0]]]
    custodians[at < 0] = sent.group_custodian[groups[order[firsts[at < 0]]]]
    return _Outgoing(rows[order], groups[order], senders, firsts, custodians), origin


def _taggings(
    sent: Grouping, parties: Ids, origin: Numbers, circuits: Circuits
) -> tuple[Tagging, Tagging, Numbers, Tagging, Ids, Tagging, Numbers]:
    """Tags that pass, see `Plan`: to and from those that are known first, then by way of others."""
    owners, senders = narrow(sent.group_owner)[sent.target], narrow(sent.row_owner)[sent.source]
    abroad = owners != senders
    handed = abroad & np.isin(sent.group_owner, parties)[sent.target]
    heard = abroad & np.isin(sent.row_owner, parties)[sent.source]
    del abroad
    far, places, first = np.zeros(len(owners), dtype=np.bool_), _numbered(owners, senders), _NOBODY
    if len(circuits.table):
        devices, others, tickets, following = circuits.ends
        known = names_of(devices, others)
        order = np.argsort(known)
        ways = ((owners, senders), (senders, owners))
        of_owner, of_sender = (
            found_among(names_of(*(each.astype(np.int64) for each in ends)), known[order]) for ends in ways
        )
        far = np.maximum(of_owner, of_sender) >= 0
        places = places.astype(np.int64)
        places[far] = tickets[order[np.maximum(of_owner, of_sender)[far]]]
        first = following[order[of_owner[handed & far]]]
    del owners, senders
    at = np.full(len(far), -1, dtype=kind_of(len(origin)))
    if (origin >= 0).all():
        at[origin] = np.arange(len(origin), dtype=at.dtype)
    else:
        real = np.flatnonzero(origin >= 0)
        at[origin[real]] = real
    near = ~far
    there = _some_tags(sent, places, handed & near, numbered=True)
    here = there if np.array_equal(handed, heard) else _some_tags(sent, places, heard & near, numbered=True)
    beyond = _some_tags(sent, places, handed & far), first, _some_tags(sent, places, heard & far), at[heard & far]
    return there, here, at[heard & near], *beyond


_NOBODY: Ids = np.empty(0, dtype=np.int64)


def _some_tags(way: Grouping, places: NDArray[np.integer[Any]], which: Flags, *, numbered: bool = False) -> Tagging:
    """Tags of some messages of a grouping: under numbers, or else by way of others."""
    kind = np.uint32 if numbered else np.int64
    if which.all():  # as where nobody sends to itself and everybody is hosted here
        return Tagging(way, None, places.astype(kind, copy=False))
    some = np.flatnonzero(which)
    return Tagging(way, narrow(some, len(which)), places[some].astype(kind, copy=False))


def _numbered(owners: Numbers, senders: Numbers) -> NDArray[np.uint32]:
    """uint32 [m], the number of each message among those between the same two parties; one zero serves for all."""
    names = names_of(owners.astype(np.int64), senders)
    in_order = np.sort(names)
    if (in_order[1:] != in_order[:-1]).all():
        return np.broadcast_to(np.uint32(0), names.shape)
    del in_order
    return ranks(names).astype(np.uint32)


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
