"""Those who own rows and sums: they tell each other tags, share their rows among relays, and interpolate their sums.

A step goes in turns. Before the first one senders and relays agree on keys. Owners of sums tell their senders fresh
tags; senders send headers and shares under these tags to the relays, and owners ask for their sums by opening the tags;
relays agree on what they hold, and answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.agreement import SendersKeys
from fgl_secure.protocols.relay_coded.answers import Answers, decoded
from fgl_secure.protocols.relay_coded.code import is_laid_out, source_shares
from fgl_secure.protocols.relay_coded.cryptography import SEEDS, Cryptography
from fgl_secure.protocols.relay_coded.labels import Labels
from fgl_secure.protocols.relay_coded.plan import COVER, Parameters, Plan
from fgl_secure.protocols.relay_coded.silos import Forwarding, within
from fgl_secure.protocols.relay_coded.wire import Wire, names_of
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Direction, Draws, LazyArray, MessageKind, Messages, Phase, Step
from fgl_secure.runtime.messages import take_rows
from fgl_secure.typing import Array, Ids

Slots = NDArray[np.integer[Any]]

_DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD)


class _Due(IntEnum):
    """What a machine does in its next turn."""

    NOTHING = 0
    START = 1
    AWAIT_KEYS = 2
    KEYS = 3
    SHARES = 4
    ANSWERS = 5
    PASSING = 6


class Devices(CheckpointedMachine):
    """The owners of rows and of sums that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums; the helpers of their topology are the relays.
        scheme: its parameters.
        cryptography: what is cryptographic about it.
        draws: their coins.
        forwarding: how those of them that administer others forward for these.
        alone: whether one process hosts everybody, so that a pass without messages needs none.

    Raises:
        InputError: padding does not fit the grouping.
    """

    def __init__(
        self,
        parties: Ids,
        terms: SumTerms,
        scheme: Parameters,
        cryptography: Cryptography,
        draws: Draws,
        forwarding: Forwarding,
        *,
        alone: bool = True,
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._scheme, self._topology, self._crypto, self._draws = scheme, terms.topology, cryptography, draws
        self._alone, self._relays = alone, terms.topology.helpers
        self._wire = Wire(draws.batch_shape, cryptography.agreement.seal_bytes)
        self._shuffles: dict[Direction, Ids | None] = {}
        self._labels: dict[Direction, Labels] = {}
        self._plans = self._planned()
        self._forwarding = forwarding
        senders = np.unique(np.concatenate([plan.out.parties for plan in self._plans.values()]))
        expanding = self._relays[: cryptography.expanded]
        self._agreement = SendersKeys(senders, expanding, cryptography, self._wire, draws)
        self._due = _Due.NOTHING
        self._q: Elements = np.empty((0, 0), dtype=scheme.field.dtype)
        self._clear()

    def _clear(self) -> None:
        self._openings: Ids = np.empty((0, 2), dtype=np.int64)
        self._tags: Ids = np.empty((0, 2), dtype=np.int64)
        self._told: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._drawn: dict[str, Array] = {}
        self._numbers: Ids = np.empty(0, dtype=np.int64)
        self._order: Ids = np.empty(0, dtype=np.int64)
        self._asked: list[Ids] = []
        self._answers: list[Answers] = []
        self._sums: Array | None = None
        self._silent = self._passes = 0

    def _planned(self, shuffles: Mapping[Direction, Ids | None] | None = None) -> dict[Direction, Plan]:
        scheme, grouping = self._scheme, self._topology.grouping
        counted = scheme.k_min, scheme.contributors
        answered = grouping.answered_grouping(*counted)
        ways = {
            Direction.FORWARD: (grouping, answered),
            Direction.BACKWARD: (grouping.reverse(), answered.reverse().answered_grouping(*counted)),
        }
        found: dict[Direction, Plan] = {}
        for direction, (way, kept) in ways.items():

            def shuffle(count: int, direction: Direction = direction) -> Ids | None:
                known = self._crypto.shuffle(self._draws, count) if shuffles is None else shuffles[direction]
                self._shuffles[direction] = known
                return known

            padding, circuits = self._padding(way), self._topology.circuits
            found[direction] = Plan.of(way, kept, self.parties, shuffle, padding, circuits)
        return found

    def _padding(self, way: Grouping) -> int | None:
        return self._scheme.padding_of(way, self._topology.name)

    @property
    def _askers(self) -> Ids:
        """Whose sums are asked for, in that order: int64 [h]."""
        return self._plan.owners[self._order]

    @property
    def _plan(self) -> Plan:
        return self._plans[self.now.direction]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        plan, field = self._plans[step.direction], self._scheme.field
        self._check_new(step)
        self._labels_of(step.direction)
        if len(plan.rows) and (rows is None or rows.ndim != 2 or len(rows) != len(plan.rows)):
            raise InputError(f"rows must be [{len(plan.rows)}, d]; found {None if rows is None else list(rows.shape)}")
        most = int(plan.out.counts.max(initial=0))
        if most > self._scheme.most_slots:
            raise InputError(f"a sender must have at most {self._scheme.most_slots} messages in one step; found {most}")
        q = np.zeros((0, 1), dtype=field.dtype) if rows is None else _field_rows(rows, field.modulus, field.dtype)
        self._clear()
        self._forwarding.clear()
        self._q, self._step, self._due = q, step, _Due.START
        if self._alone and not len(plan.way.source):
            self._due = _Due.NOTHING
            shape = (*self._draws.batch_shape, len(plan.groups), 0 if rows is None else rows.shape[1])
            self._sums = np.zeros(shape, dtype=np.int64)
            return
        self._used_up()

    @property
    def sums(self) -> Array | None:
        """See `SumMachine.sums`."""
        return self._sums

    def reset(self) -> None:
        """See `SumMachine.rest`."""
        self._clear()
        self._forwarding.clear()
        self._step, self._due, self._q = None, _Due.NOTHING, self._q[:0, :0].copy()

    def step(self) -> Iterable[Messages]:
        """See the module's description."""
        forwarded = self._forwarding.leave(self._step)
        self._silent = max(self._silent - 1, 0)
        acts = {_Due.START: self._start, _Due.KEYS: self._hand_out, _Due.SHARES: self._send}
        if self._due is _Due.AWAIT_KEYS:
            self._due = _Due.KEYS
        elif self._due is _Due.PASSING:
            self._passes -= 1
            self._due = _Due.PASSING if self._passes else _Due.SHARES
        elif self._due in acts:
            return chain(forwarded, acts[self._due]())
        elif self._due is _Due.ANSWERS and self._answers and all(each.complete for each in self._answers):
            self._decode()
        return forwarded

    def on_idle(self) -> bool:
        """Makes do with the answers that there are; where no tags had to be told, sends what is due then.

        Relays that ask somebody again who is off are silent for one turn: answers are given up in the second.
        """
        if self._due is _Due.ANSWERS:
            self._silent += 2
            if self._silent > 2:
                self._decode()
        return self._due is not _Due.NOTHING

    def _start(self) -> Iterable[Messages]:
        if not self._agreement.due:
            return self._hand_out()
        self._due = _Due.AWAIT_KEYS
        return self._agreement.publish()

    def _hand_out(self) -> Iterable[Messages]:
        """Every owner of a sum tells those who send for it a fresh tag."""
        if self._agreement.due:
            self._agreement.agree()
            for sender in self._agreement.left_out.tolist():
                self.remark(self.now, sender, "it did not agree on keys with every relay: what it sends is left out")
        plan, step = self._plan, self.now
        if self._labels_of(step.direction) is not None:
            senders = plan.out.sender_of[plan.own].astype(np.int64)
            self._openings = self._crypto.openings(self._draws, step, senders)
            self._order = np.argsort(self._crypto.numbers(self._draws, step, plan.owners))
            self._told, self._asked = np.ones(len(plan.out), dtype=np.bool_), self._names_asked()
            self._note_labels()
            return self._send()
        self._openings = self._crypto.openings(self._draws, step, plan.owners)
        own = self._crypto.tags.of(self._openings, len(self._relays))
        self._order = np.argsort(own[:, 0])  # which tells nothing
        self._asked = self._names_asked()
        tags = self._by_group(own)
        self._tags, self._told = np.zeros((len(plan.out), 2), dtype=np.int64), np.zeros(len(plan.out), dtype=np.bool_)
        self._tags[plan.own], self._told[plan.own] = tags[plan.out.groups[plan.own]], True
        self._passes = self._topology.circuits.hops
        self._due = _Due.PASSING if self._passes else _Due.SHARES
        return self._told_tags(tags)

    def _told_tags(self, tags: Ids) -> Iterator[Messages]:
        """Tags for those who are known, and for those behind somebody else, who hands them on."""
        handed, on = self._plan.handed, self._plan.handed_on
        if len(handed):
            fields: dict[str, Array] = {wire.TAG: tags[handed.groups], wire.PLACE: handed.places}
            yield self._wire.say(Phase.TAGS, self.now, (handed.owners, handed.senders), wire.TAG_BYTES, fields)
        if len(on):
            yield self._on_a_way((on.owners, self._plan.next_to), tags[on.groups], on.tickets)

    def _on_a_way(self, ends: tuple[Ids, Ids], tags: Ids, tickets: Ids) -> Messages:
        fields: dict[str, Array] = {wire.TAG: tags, wire.TICKET: tickets}
        return self._wire.say(Phase.TAGS, self.now, ends, wire.TAG_BYTES + wire.TICKET_BYTES, fields)

    def _labels_of(self, direction: Direction) -> Labels | None:
        """What messages are called in a pass; None where tags are told.

        Raises:
            InputError: partners have no keys.
        """
        topology, plan = self._topology, self._plans[direction]
        if not self._scheme.labelled(topology.name):
            return None
        if direction not in self._labels:
            if topology.keys is None:
                raise InputError(
                    "tags=sealed needs devices that have agreed on partners; found sums over all neighbours"
                )
            each = self._padding(plan.way)
            self._labels[direction] = Labels(plan, topology.keys, 0 if each is None else each)
        return self._labels[direction]

    def _names_asked(self) -> list[Ids]:
        """What sums are called at each relay, in the order in which they are asked for: int64 [h, 2].

        That is the tag of each, or the first of its labels there.
        """
        labels, relays = self._labels_of(self.now.direction), len(self._relays)
        if labels is None:
            return [self._crypto.tags.of(self._openings, relays)[self._order]] * relays
        return [labels.awaited(self.now, place, self._openings)[self._order, 0] for place in range(relays)]

    def _note_labels(self) -> None:
        """Notes what the owners of sums know: whose each is that a relay is asked for."""
        asked = np.stack(self._asked, axis=1)
        everywhere = np.broadcast_to(asked, (*self._draws.batch_shape, *asked.shape))
        self._draws.note_learnt("labels of sums", self._askers, everywhere, self.now)

    def _shown(self, which: Ids) -> Iterator[Ids]:
        """What opens some sums at each relay, in the order in which they are asked for: int64 [k, ..., 2]."""
        labels, relays = self._labels_of(self.now.direction), len(self._relays)
        if labels is None:
            yield from self._crypto.tags.proofs(self._openings[which], relays)
            return
        for place in range(relays):
            yield labels.awaited(self.now, place, self._openings)[which]

    def _called(self, place: int) -> Ids:
        """What the messages are called at one relay: int64 [m, 2], tags or labels."""
        labels = self._labels_of(self.now.direction)
        return self._tags if labels is None else labels.sent(self.now, place, self._openings)

    def _by_group(self, of_hosted: Ids) -> Ids:
        """What hosted owners know of their groups, by the group's number."""
        plan = self._plan
        if len(plan.groups) == len(plan.way.group_owner):
            return of_hosted
        out = np.zeros((len(plan.way.group_owner), *of_hosted.shape[1:]), dtype=of_hosted.dtype)
        out[plan.groups] = of_hosted
        return out

    def _send(self) -> Iterable[Messages]:
        """Shares of all messages whose tags are known, and fetches."""
        self._due, plan = _Due.ANSWERS, self._plan
        self._leave_out()
        self._answers = [Answers(int(relay), len(plan.groups)) for relay in self._relays]
        self._forwarding.queue_behind(self._fetches(proxied=False))
        return chain(self._shares(), self._fetches(proxied=True))

    def _leave_out(self) -> None:
        """Messages of senders without keys, and those whose tags did not arrive: that is for the tags' owners."""
        out, keyless = self._plan.out, self._agreement.left_out
        keyed = ~np.isin(out.sender_of, keyless) if len(keyless) else np.ones(len(out), dtype=np.bool_)
        untold = keyed & ~self._told
        self._told = self._told & keyed
        owners, counts = np.unique(self._plan.way.group_owner[out.groups[untold]], return_counts=True)
        for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
            self.remark(self.now, owner, f"{count} messages to it are not sent: its tag did not reach their senders")

    def _shares(self) -> Iterator[Messages]:
        plan = self._plan
        if not len(plan.out):
            return
        self._drawn = self._crypto.drawn(self._draws, self.now, plan.out.senders, self._q.shape[1])
        if self._scheme.anonymous:
            self._numbers = self._crypto.numbers(self._draws, self.now, plan.out.senders)
        yield from self._packets(range(len(self._relays)), self._bundles())

    def _bundles(self) -> tuple[Ids, Slots]:
        """The messages that leave, and their slots."""
        sent, slots = np.flatnonzero(self._told), self._plan.out.slots
        return sent, slots if len(sent) == len(slots) else slots[sent]

    def masks(self, places: Ids | None = None) -> list[Elements]:
        """The values of the messages' polynomials at 1 .. T: elements [*batch, m, d], by sender and slot.

        Args:
            places: int64 [k], of which messages; of all unless given.
        """
        senders, keys = self._plan.out.sender_of, self._agreement.keys
        return self._crypto.masks(self.now, senders, self._q.shape[1], self._drawn, keys, places)

    def shares(self, masks: list[Elements], places: Ids | None = None) -> list[Elements]:
        """The values at T + 1 .. R of the same messages: elements [*batch, m, d]."""
        scheme = self._scheme
        others = range(scheme.T + 1, scheme.R + 1)
        rows = self._plan.out.rows if places is None else self._plan.out.rows[places]
        if len(self._plan.rows) < len(self._plan.way.row_owner):  # rows of hosted owners alone are here
            rows = np.where(rows == COVER, COVER, np.searchsorted(self._plan.rows, rows))
        return list(source_shares(scheme.field, scheme.T, others, self._q, rows, masks))

    def _packets(
        self, which: Iterable[int], bundles: tuple[Ids, Slots], only: Mapping[int, Ids] | None = None
    ) -> Iterator[Messages]:
        """Headers and shares for some relays.

        Args:
            which: relays, from 0.
            bundles: places of the messages that left, and their slots.
            only: for each of these relays those of the bundles that leave now, by position; None for all.
        """
        shares = self._by_relay()
        for j in which:
            sent, slots = bundles if only is None else (bundles[0][only[j]], bundles[1][only[j]])
            share = shares[j] if _all_of(sent, len(self._plan.out)) else take_rows(shares[j], sent, self._wire.axes)
            if only is None and j < self._crypto.expanded and not isinstance(share, LazyArray):
                self._remember(j, sent, slots, share)
            yield from self._packet(j, sent, slots, share)

    def _by_relay(self) -> Sequence[Elements | LazyArray]:
        """The shares of all messages for each relay, laid out unless they are many and nobody is in another process."""
        shape = len(self._plan.out), self._q.shape[1]
        if not self._alone or is_laid_out(shape, self._draws.batch_shape):
            masks = self.masks()
            return [*masks, *self.shares(masks)]
        makes = (partial(self._some_shares, self.now, j) for j in range(self._scheme.R))
        return [LazyArray(make, shape, self._scheme.field.dtype) for make in makes]

    def _some_shares(self, step: Step, j: int, places: Ids) -> Elements:
        """One relay's shares of some messages of the step at hand: elements [k, d].

        Raises:
            StaleMessageError: another step is at hand.
        """
        if step != self._step:
            raise StaleMessageError(f"shares must be read in their step; found {step} read later")
        masks = self.masks(places)
        return masks[j] if j < len(masks) else self.shares(masks, places)[j - len(masks)]

    def _remember(self, j: int, sent: Ids, slots: Slots, masks: Elements) -> None:
        relay, keys = int(self._relays[j]), self._agreement.keys
        if keys is not None:
            names = names_of(self._plan.out.sender_of[sent].astype(np.int64), slots)
            self._crypto.remember(self.now, relay, names, keys.secrets[j], masks)

    def _packet(self, j: int, sent: Ids, slots: Slots, share: Elements | LazyArray) -> Iterator[Messages]:
        """What one relay is sent."""
        plan, step, scheme = self._plan, self.now, self._scheme
        which: Any = slice(None) if _all_of(sent, len(plan.out)) else sent  # all of them are not copied
        senders = plan.out.sender_of[which].astype(np.int64)
        header: dict[str, Array] = {wire.TAG: self._called(j)[which], wire.ATTEMPT: np.zeros(len(sent), dtype=np.uint8)}
        body: dict[str, Any] = {wire.SHARE: share}
        if j < self._crypto.expanded:
            header |= {wire.WIDTH: np.broadcast_to(np.uint32(share.shape[-1]), (len(sent),))}
            body = {}
        if not scheme.anonymous:
            ends = senders, np.broadcast_to(self._relays[j], senders.shape)  # one number serves all messages
            slot = {wire.SLOT: slots.astype(np.uint16)}
            yield self._wire.say(Phase.SHARE_HEADERS, step, ends, wire.HEADER_BYTES, header | slot)
            if body:
                size = share.shape[-1] * share.itemsize
                yield self._wire.say(Phase.SHARES, step, ends, size, body | slot)
            return
        header |= {wire.NUMBER: self._numbers[which], wire.PLACE: slots.astype(np.uint32)}
        header |= {wire.SEED: self._drawn[SEEDS][j][which]} if SEEDS in self._drawn and not body else {}
        header |= {wire.RELAY: np.broadcast_to(np.uint32(self._relays[j]), (len(sent),))}
        size = self._wire.sealed_header_bytes + (wire.SEED_BYTES if wire.SEED in header else 0)
        size += share.shape[-1] * share.itemsize if body else 0
        ends = senders, plan.out.proxies[which]
        yield self._wire.say(Phase.SEALED, step, ends, size, header | body, sealed=True)

    def _fetches(self, *, proxied: bool) -> Iterator[Messages]:
        """Every sum is asked for from every relay, by way of the owner's silo where it has one.

        Owners that are their own silos ask later, when proxies do.
        """
        plan = self._plan
        owners, custodians = self._askers, plan.custodians[self._order]
        which = np.flatnonzero((owners != custodians) == proxied)
        if not len(which):
            return
        owners, custodians = owners[which], custodians[which]
        for relay, shown in zip(self._relays.tolist(), self._shown(self._order[which]), strict=True):
            to, size = np.full(len(which), relay), self._wire.fetch_bytes(shown.shape[-2])
            fields: dict[str, Array] = {wire.OPENING: shown}
            if proxied:
                fields |= {wire.RELAY: to.astype(np.uint32)}
                yield self._wire.say(Phase.SEALED, self.now, (owners, custodians), size, fields, sealed=True)
            else:
                yield self._wire.say(Phase.FETCH, self.now, (owners, to), size, fields)

    def receive(self, messages: Messages) -> None:
        """See `Machine.take`."""
        self._check_ends(messages)
        if messages.phase is Phase.KEYS:
            self._agreement.take(messages)
            return
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        if self._forwarding.is_for(messages):
            self._forwarding.take(messages)
            return
        takes = {
            Phase.TAGS: self._take_tags,
            Phase.COUNTS: self._take_answers,
            Phase.SHARE_SUMS: self._take_answers,
            Phase.RESENDS: self._take_request,
        }
        if messages.phase not in takes:
            raise MalformedMessageError(f"messages must be for owners of rows and sums; found {messages.phase.label}")
        takes[messages.phase](messages)

    def _take_tags(self, messages: Messages) -> None:
        tags = self._wire.read(messages, wire.TAG, "<i8", 2)
        if self._due not in (_Due.PASSING, _Due.SHARES):
            raise StaleMessageError("tags must come before shares are sent; at least one did not")
        if wire.TICKET in messages.fields:
            self._take_on_a_way(messages, tags)
            return
        places = self._wire.read(messages, wire.PLACE, "<u4")
        plan = self._plan
        at = plan.heard_at(messages.senders, messages.receivers, places)
        if (at < 0).any():
            raise MalformedMessageError("tags must be for messages that their senders send; at least one is not")
        self._tags[at], self._told[at] = tags, True

    def _take_on_a_way(self, messages: Messages, tags: Ids) -> None:
        """Tags that come by way of others: for hosted senders, or to be handed on."""
        tickets, plan = self._wire.read(messages, wire.TICKET, "<i8"), self._plan
        onward = self._topology.circuits.onward(tickets, messages.senders, messages.receivers)
        here, on = np.flatnonzero(onward < 0), np.flatnonzero(onward >= 0)
        at = plan.heard_of_at(messages.receivers[here], tickets[here])
        if (at < 0).any() or (len(on) and self._due is not _Due.PASSING):
            raise MalformedMessageError("tags must be for messages that their senders send; at least one is not")
        self._tags[at], self._told[at] = tags[here], True
        if len(on):
            ends = messages.receivers[on], onward[on]
            self._forwarding.queue([self._on_a_way(ends, tags[on], tickets[on])])

    def _take_answers(self, messages: Messages) -> None:
        if self._due is not _Due.ANSWERS:
            raise StaleMessageError("answers must be for sums that are waited for; at least one is not")
        tags = self._wire.read(messages, wire.TAG, "<i8", 2)
        if not np.isin(messages.senders, self._relays).all():
            raise MalformedMessageError("answers must be from relays; at least one is not")
        given = []
        for asked, answers in zip(self._asked, self._answers, strict=True):
            rows = np.flatnonzero(messages.senders == answers.relay)
            if len(rows):
                given.append((answers, rows, self._places(tags[rows], messages.receivers[rows], asked)))
        found = self._said(messages)
        for answers, rows, place in given:
            whole = len(rows) == len(messages)
            part = found if whole else np.take(found, rows, axis=0 if messages.phase is Phase.COUNTS else -2)
            self._put(answers, messages.phase, part, place)

    def _places(self, tags: Ids, receivers: Ids, asked: Ids) -> Ids | None:
        """Where answers of one relay stand in the order in which sums were asked for; None for all, in that order."""
        owners = self._askers
        if np.array_equal(tags, asked):
            if not np.array_equal(owners, receivers):
                raise MalformedMessageError("answers must be for the owners of their tags; at least one is not")
            return None
        order = np.argsort(asked[:, 0])
        at = wire.found_among(tags[:, 0], asked[order, 0])
        place = order[at]
        if not ((at >= 0) & (asked[place] == tags).all(axis=1) & (owners[place] == receivers)).all():
            raise MalformedMessageError("answers must be under tags of sums that are asked for; one is not")
        return place

    def _said(self, messages: Messages) -> Array:
        """Counts int64 [m] or sums [*batch, m, d] of answers."""
        if messages.phase is Phase.COUNTS:
            return self._wire.read(messages, wire.COUNT, "<u4").astype(np.int64)
        field, width = self._scheme.field, self._q.shape[1]
        sums = self._wire.elements(messages, wire.SUM, field.dtype, field.modulus)
        if sums.shape[-1] == 1 < width and not sums.any():  # of a relay that holds nothing, and so knows no width
            return np.zeros((*sums.shape[:-1], width), dtype=sums.dtype)
        if len(self._plan.rows) and sums.shape[-1] != width:
            raise MalformedMessageError(f"sums must have {width} coordinates; found {sums.shape[-1]}")
        return sums

    def _put(self, answers: Answers, phase: MessageKind, found: Array, place: Ids | None) -> None:
        if phase is Phase.COUNTS:
            answers.take_counts(found, place)
        else:
            answers.take_sums(found, place)

    def _take_request(self, messages: Messages) -> None:
        slots = self._wire.read(messages, wire.SLOT, "<u2").astype(np.int64)
        sent, known = self._bundles()
        at = wire.found_among(names_of(messages.receivers, slots), names_of(self._plan.out.senders[sent], known))
        if self._due is not _Due.ANSWERS or (at < 0).any():
            raise MalformedMessageError("messages must be asked for again that were sent; at least one was not")
        wanted = {j: at[messages.senders == relay] for j, relay in enumerate(self._relays.tolist())}
        some = [j for j, rows in wanted.items() if len(rows)]
        self._forwarding.queue(self._packets(some, (sent, known), wanted))

    def _decode(self) -> None:
        """The sums of hosted groups, from the answers that have arrived."""
        plan, self._due = self._plan, _Due.NOTHING
        found = decoded(
            self._scheme, self._draws, self.remark, self.now, self._askers, self._answers,
            plan.wanted[self._order] >= self._scheme.k_min, plan.expected[self._order],
            len(self._q[0]) if len(self._q) else None,
        )  # fmt: skip
        drawn, order = self._drawn, self._order
        self._clear()
        sums = np.empty_like(found)
        sums[..., order, :] = found
        self._drawn, self._sums = drawn, sums  # who holds shares that were not laid out may still ask for them

    def _arrays(self) -> dict[str, Array]:
        """Keys, the order of messages, what was summed, and the sum at hand."""
        arrays: dict[str, Array] = {
            "due": np.asarray(self._due, dtype=np.int64),
            "q": self._q,
            "openings": self._openings,
            "tags": self._tags,
            "told": self._told,
            "numbers": self._numbers,
            "order": self._order,
            "silent": np.array([self._silent, self._passes], dtype=np.int64),
        }
        arrays |= {f"agreement/{name}": value for name, value in self._agreement.state().items()}
        arrays |= {f"drawn/{name}": value for name, value in self._drawn.items()}
        arrays |= {f"shuffle{n}": s for n, d in enumerate(_DIRECTIONS) if (s := self._shuffles[d]) is not None}
        for j, each in enumerate(self._answers):
            arrays |= {f"answers{j}/{name}": value for name, value in each.state().items()}
        arrays |= {} if self._sums is None else {"sums": self._sums}
        return arrays | {f"forwarding/{name}": value for name, value in self._forwarding.state().items()}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._due = _Due(int(arrays["due"]))
        self._agreement.restore(within("agreement", arrays))
        self._q, self._openings = arrays["q"], arrays["openings"]
        self._tags, self._told = arrays["tags"], arrays["told"]
        self._numbers, self._sums = arrays["numbers"], arrays.get("sums")
        self._silent, self._passes = arrays["silent"].tolist()
        self._drawn = within("drawn", arrays)
        self._plans = self._planned({d: arrays.get(f"shuffle{n}") for n, d in enumerate(_DIRECTIONS)})
        self._labels, self._order = {}, arrays["order"]
        waiting = self._due is _Due.ANSWERS
        if waiting or self._due in (_Due.PASSING, _Due.SHARES):
            self._asked = self._names_asked()
        self._answers = [Answers(int(relay), len(self._plan.groups)) for relay in self._relays] if waiting else []
        for j, each in enumerate(self._answers):
            each.restore(within(f"answers{j}", arrays))
        self._forwarding.restore(within("forwarding", arrays))


def _all_of(places: Ids, count: int) -> bool:
    """Whether different places are all those of so many, in their order."""
    return len(places) == count and bool((places[1:] > places[:-1]).all())


def _field_rows(rows: Array, modulus: int, kind: np.dtype[Any]) -> Elements:
    """Rows as elements of the field.

    Raises:
        InputError: they are none.
    """
    if rows.dtype.kind not in "iu" or (rows.size and not (int(rows.min()) >= 0 and int(rows.max()) < modulus)):
        raise InputError(f"rows must hold integers in 0..{modulus - 1}; found {rows.dtype}")
    return np.ascontiguousarray(rows, dtype=kind)
