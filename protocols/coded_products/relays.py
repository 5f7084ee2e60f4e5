"""Relays: they multiply the shares that they hold, add shares of zero that they draw in common, and answer silos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from hashlib import sha256

import numpy as np

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import BYTE, Remainders, Residues, Words, residues
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.coded_products import plan as names
from fgl_secure.protocols.coded_products.code import relay_products, with_zero, zero_sets, zero_weights
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.coded_products.plan import COUNT_BYTES, DIGEST_WORDS, LARGEST_BATCH, ProductPlan
from fgl_secure.protocols.relay_coded.agreement import RelaysKeys
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, SHARE, SUM, Wire, by_value
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms, done_array, step_bytes, step_of
from fgl_secure.runtime import Draws, Messages, Phase, Step
from fgl_secure.runtime.machine import SETUP
from fgl_secure.runtime.packing import within
from fgl_secure.typing import Array, Flags, Ids, Integers


class _At(IntEnum):
    """Where a relay is in a step."""

    GATHERING = 0
    COMPARING = 1
    ANSWERED = 2


class _ShareTable:
    """Shares that one relay holds, by device, in their place as soon as they arrive: they may fill half the memory.

    Attributes:
        step: in which they are shared.
        there: bool [n], of which devices they are here.
        values: by field, remainders [*tapes, n, d]; none where they are expanded whenever they are multiplied.
        at: int64 [n], where in the values each device's are; None where they are in the order of devices.
        whole: whether relays compare what they hold of them, and no more is taken.
    """

    __slots__ = ("at", "step", "there", "values", "whole")

    def __init__(
        self, step: Step, there: Flags, values: Residues, index: Ids | None = None, *, whole: bool = False
    ) -> None:
        self.step, self.there, self.values, self.at, self.whole = step, there, values, index, whole

    def places(self, rows: Ids) -> Ids:
        """Where the shares of some devices are in the values."""
        return rows if self.at is None else self.at[rows]

    def of(self, rows: Ids) -> Residues:
        """The shares of k >= 1 devices, remainders [*tapes, k, d] by field; not copied where they follow each other."""
        places = self.places(rows)
        if (places[1:] - places[:-1] == 1).all():
            return tuple(value[..., places[0] : places[0] + len(places), :] for value in self.values)
        return tuple(np.take(value, places, axis=-2) for value in self.values)

    def put(self, rows: Ids, values: Sequence[Remainders]) -> None:
        """Takes shares [*tapes, k, d] of devices, each named once; what is here already stays as it is."""
        new = np.flatnonzero(~self.there[rows])
        if not len(new):  # what is whole may be the senders' own arrays
            return
        for stored, item in zip(self.values, values, strict=True):
            stored[..., self.places(rows[new]), :] = item if len(new) == len(rows) else item[..., new, :]
        self.there[rows] = True


class RelayState:
    """What one relay knows.

    Attributes:
        party: identifier.
        place: among all relays, from 0.
        at: where it is in the current step.
        once: what is shared once; None before any of it arrives.
        fresh: what is shared in this step, likewise.
        heard: by relay, which devices it holds the shares of: bool [n].
    """

    def __init__(self, party: int, place: int) -> None:
        self.party, self.place = party, place
        self.once: _ShareTable | None = None
        self.clear()

    def forget(self) -> None:
        """Forgets the shares of the step, of which nothing is told twice."""
        self.fresh: _ShareTable | None = None
        self.heard: dict[int, Flags] = {}

    def clear(self) -> None:
        """Forgets the step."""
        self.at = _At.GATHERING
        self.forget()
        if self.once is not None and not self.once.whole:
            self.once = None


MOST_KEPT = 2**28
"""Most bytes that a relay keeps of shares that it can expand anew whenever it multiplies them."""


class ProductRelays(CheckpointedMachine):
    """The relays that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        plan: what all parties know.
        cryptography: what is cryptographic about it.
        draws: their coins.
    """

    def __init__(
        self, parties: Ids, terms: SumTerms, plan: ProductPlan, cryptography: ProductCryptography, draws: Draws
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._plan, self._crypto, self._draws = plan, cryptography, draws
        self._wire = Wire(draws.batch_shape)
        self._keys = RelaysKeys(parties, cryptography.keys, self._wire, draws)
        self._sets = zero_sets(plan.T, plan.R)
        self._set_keys: Array = np.zeros((len(self._sets), KEY_BYTES), dtype=np.uint8)
        self._has_key: Flags = np.zeros((len(self._sets), plan.R), dtype=np.bool_)
        self._dealt = False
        self._silo_by_silo = plan.silo_by_silo
        places = np.searchsorted(plan.relays, parties).tolist()
        self._relays = [RelayState(*item) for item in zip(parties.tolist(), places, strict=True)]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; relays have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("rows must be those of hosted devices, of which there are none; found some")
        self._step = step
        for relay in self._relays:
            relay.clear()

    @property
    def sums(self) -> Array | None:
        """None: relays are entitled to nothing."""
        return None

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._check_ends(messages)
        takes = {
            Phase.KEYS: self._keys.receive,
            Phase.ZERO_KEYS: self._take_set_keys,
            Phase.FACTOR_SHARES: self._take_shares,
            Phase.ROSTERS: self._take_rosters,
        }
        if messages.phase not in takes:
            raise MalformedMessageError(f"messages must be for relays; found {messages.phase.label}")
        takes[messages.phase](messages)

    def _take_set_keys(self, messages: Messages) -> None:
        if messages.step != SETUP:
            raise StaleMessageError(f"keys must be sent in {SETUP}; they are not")
        keys = self._wire.read(messages, names.KEY, "|u1", KEY_BYTES)
        set_numbers = self._wire.read(messages, names.SET, "<u4").astype(np.int64)
        inside = (set_numbers < len(self._sets)).all()
        dealers = [int(self._plan.relays[self._sets[item][0]]) for item in set_numbers.tolist()] if inside else []
        if not inside or dealers != messages.senders.tolist():
            raise MalformedMessageError("keys of sets must come from the first relay of each; at least one does not")
        known = self._has_key[set_numbers].any(axis=1)
        if known.any() and (self._set_keys[set_numbers[known]] != keys[known]).any():
            raise StaleMessageError("the first relay of a set must send it one key; one has sent another before")
        self._set_keys[set_numbers] = keys
        self._has_key[set_numbers, np.searchsorted(self._plan.relays, messages.receivers)] = True

    def _take_shares(self, messages: Messages) -> None:
        self._check_step(messages)
        relays = {relay.party: relay for relay in self._relays}
        if not np.isin(messages.senders, self._plan.grouping.row_owner).all():
            raise MalformedMessageError("shares must be from devices whose products are summed; one is not")
        for party, rows in by_value(messages.receivers):
            part = messages if rows is None else messages.rows(rows)
            relay = relays[party]
            if relay.at is not _At.GATHERING:
                raise StaleMessageError("shares must arrive before relays compare what they hold; at least one did not")
            if self._expands(relay):
                widths = np.unique(self._wire.read(part, names.WIDTH, "<u4"))
                if widths.tolist() != [self._numbers_due(relay)]:
                    raise MalformedMessageError("shares must be as long as all devices' are; at least one is not")
            else:
                due = self._numbers_due(relay)
                self._plan.read(self._wire, part, SHARE, due, due - self._plan.layout.fresh)
        for party, rows in by_value(messages.receivers):
            self._keep(relays[party], messages if rows is None else messages.rows(rows))
        self._used_up()

    def _keep(self, relay: RelayState, messages: Messages) -> None:
        """Puts checked shares in their place; of one that comes twice the first counts."""
        senders, first = np.unique(messages.senders, return_index=True)
        rows, static = np.searchsorted(self._plan.grouping.row_owner, senders), self._numbers_due(relay)
        static -= self._plan.layout.fresh
        result: list[Remainders] = []
        if not self._expands(relay):
            shares = [messages[f"{SHARE} {place}"] for place in range(len(self._plan.fields))]
            in_order = len(first) == len(messages) and bool((first[1:] > first[:-1]).all())
            result = shares if in_order else [np.take(item, first, axis=-2) for item in shares]
        if static:
            once = relay.once = relay.once or self._nothing(relay, static, self._silo_by_silo, once=True)
            once.put(rows, [item[..., :static] for item in result[: len(once.values)]])
            result = [item[..., static:] if place < len(once.values) else item for place, item in enumerate(result)]
        elif relay.fresh is None and len(rows) == len(self._plan.grouping.row_owner):  # nothing else can come
            relay.fresh = _ShareTable(self.now, np.ones(len(rows), dtype=np.bool_), tuple(result))
            return
        relay.fresh = relay.fresh or self._nothing(relay, self._plan.layout.fresh)
        relay.fresh.put(rows, result)

    def _nothing(self, relay: RelayState, width: int, index: Ids | None = None, *, once: bool = False) -> _ShareTable:
        """Room for so many numbers of each device; none where the relay expands them."""
        room = () if self._expands(relay) else self._room(width, once=once)
        return _ShareTable(self.now, np.zeros(len(self._plan.grouping.row_owner), dtype=np.bool_), room, index)

    def _take_rosters(self, messages: Messages) -> None:
        self._check_step(messages)
        n = len(self._plan.grouping.row_owner)
        held = self._wire.read(messages, names.HELD, "|u1", -(-n // 8))
        if not np.isin(messages.senders, self._plan.relays).all():
            raise MalformedMessageError("rosters must be from other relays; at least one is not")
        for relay in self._relays:
            for row in np.flatnonzero(messages.receivers == relay.party).tolist():
                flags = np.unpackbits(held[row], count=n).astype(np.bool_)
                relay.heard.setdefault(int(messages.senders[row]), flags)

    def _check_step(self, messages: Messages) -> None:
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")

    def _expands(self, relay: RelayState) -> bool:
        return relay.place < self._crypto.keys.expanded

    def step(self) -> Iterable[Messages]:
        """What each relay says now."""
        out = self._keys.answer()
        if not self._dealt:
            self._dealt = True
            out += self._deal()
        for relay in self._relays:
            out += self._next(relay)
        return out

    def _deal(self) -> list[Messages]:
        """The first relay of every set draws its key and tells the others of it."""
        own_sets = [n for n, item in enumerate(self._sets) if int(self._plan.relays[item[0]]) in self.parties]
        dealers = np.array([self._plan.relays[self._sets[n][0]] for n in own_sets], dtype=np.int64)
        if not own_sets or not self._crypto.keys.keyed:
            return []
        keys = self._crypto.draw_keys(self._draws, dealers)
        self._set_keys[own_sets] = keys
        self._has_key[own_sets, [self._sets[n][0] for n in own_sets]] = True
        to = [(place, n, j) for place, n in enumerate(own_sets) for j in self._sets[n][1:]]
        rows, set_numbers, others = (np.array(item, dtype=np.int64) for item in zip(*to, strict=True))
        fields: dict[str, Array] = {names.KEY: keys[rows], names.SET: set_numbers.astype(np.uint32)}
        size = KEY_BYTES + 4 + AUTHENTICATION_BYTES
        return [self._wire.make(Phase.ZERO_KEYS, SETUP, (dealers[rows], self._plan.relays[others]), size, fields)]

    def _next(self, relay: RelayState) -> Iterator[Messages]:
        if relay.at is _At.GATHERING and relay.fresh is not None:
            self._gather(relay)
            relay.at = _At.COMPARING
            yield self._roster(relay)
        elif relay.at is _At.COMPARING:
            relay.at = _At.ANSWERED
            yield from self._answer(relay)
            relay.forget()

    def _gather(self, relay: RelayState) -> None:
        """What is to be expanded is expanded, and what is shared once is complete now."""
        layout, fresh, once = self._plan.layout, relay.fresh, relay.once
        assert fresh is not None, "something has arrived"
        due = None if once is None or once.whole else once
        if self._expands(relay):
            known = np.isin(self._plan.grouping.row_owner, self._keys.senders_of(relay.party))
            self._expand(relay, fresh, known, layout.fresh, once=False)
            if due is not None:
                self._expand(relay, due, known, layout.static, once=True)
        if due is not None:
            due.whole = True

    def _expand(self, relay: RelayState, placed: _ShareTable, known: Flags, width: int, *, once: bool) -> None:
        """Expands shares of known devices, where they are not so many that it is done whenever they are multiplied."""
        placed.there &= known
        n, rows = len(known), np.flatnonzero(placed.there)
        if n * width * len(self._fields(once=once)) > MOST_KEPT:
            return
        result = self._expand_shares(relay, placed.step, self._plan.grouping.row_owner[rows], width, once=once)
        placed.values = result
        if len(rows) < n or placed.at is not None:
            placed.there, placed.values = np.zeros(n, dtype=np.bool_), self._room(width, once=once)
            placed.put(rows, result)

    def _fields(self, *, once: bool) -> tuple[PrimeField, ...]:
        """Those of what is shared once, or of what is fresh."""
        return self._plan.fields[: self._plan.static_fields] if once else self._plan.fields

    def _room(self, width: int, *, once: bool) -> Residues:
        """Zeros by field: remainders [*tapes, n, width], column by column where they stay, as products want them."""
        shape = (*self._draws.batch_shape, len(self._plan.grouping.row_owner), width)
        if not once:
            return tuple(np.zeros(shape, dtype=BYTE) for _ in self._fields(once=once))
        turned = (*shape[:-2], shape[-1], shape[-2])
        return tuple(np.zeros(turned, dtype=BYTE).swapaxes(-1, -2) for _ in self._fields(once=once))

    def _numbers_due(self, relay: RelayState) -> int:
        """How many numbers of a device are due: those that are shared once come first, and never again."""
        layout = self._plan.layout
        return layout.fresh + (layout.static if relay.once is None or not relay.once.whole else 0)

    def _expand_shares(self, relay: RelayState, step: Step, senders: Ids, width: int, *, once: bool) -> Residues:
        words = self._crypto.expand(step, senders, width, self._keys.keys_of(relay.party), once=once)
        return residues(self._fields(once=once), words)

    def _complete_devices(self, relay: RelayState) -> Flags:
        """Of which devices it holds everything that is to be multiplied: bool [n]."""
        assert relay.fresh is not None, "something has arrived"
        return relay.fresh.there if relay.once is None else relay.fresh.there & relay.once.there

    def _roster(self, relay: RelayState) -> Messages:
        """Tells all other relays whose shares it holds, one bit a device."""
        others = self._plan.relays[self._plan.relays != relay.party]
        packed = np.packbits(self._complete_devices(relay))
        fields = {names.HELD: np.broadcast_to(packed, (len(others), len(packed)))}
        ends = np.full(len(others), relay.party), others
        return self._wire.make(Phase.ROSTERS, self.now, ends, len(packed) + AUTHENTICATION_BYTES, fields)

    def _answer(self, relay: RelayState) -> Iterator[Messages]:
        """Answers every silo for the devices that all relays hold the shares of."""
        plan = self._plan
        if self._crypto.keys.keyed and not self._has_key[self._sets_of(relay), relay.place].all():
            text = "the relay was not told the key of every set that it is in, and gives no answers"
            self.remark(self.now, relay.party, text)
            return
        if len(relay.heard) + 1 < plan.required_relays:
            self.remark(self.now, relay.party, "the relay hears of too few others, and gives no answers in this step")
            return
        silent = set(plan.relays.tolist()) - {relay.party, *relay.heard}
        for other in sorted(silent):
            self.remark(self.now, other, "the relay is not heard of and is left out of this step")
        held = np.logical_and.reduce([self._complete_devices(relay), *relay.heard.values()])
        counted = [rows[held[rows]] for rows in map(plan.members, range(len(plan.grouping.group_owner)))]
        counts = np.array([len(rows) for rows in counted], dtype=np.int64)
        counts[counts < plan.k_min] = 0
        digests = np.array([self._digest(rows) for rows in counted], dtype=np.int64).reshape(-1, DIGEST_WORDS)
        answered, refused = np.flatnonzero(counts), np.flatnonzero(counts == 0)
        if len(answered):
            result = [self._product(relay, group, counted[group], digests[group]) for group in answered.tolist()]
            shares = tuple(np.stack(item, axis=-2) for item in zip(*result, strict=True))
            size = (
                plan.size(plan.layout.entries, plan.layout.static_entries)
                + COUNT_BYTES
                - AUTHENTICATION_BYTES
                + 8 * DIGEST_WORDS
            )
            yield self._product_messages(relay, answered, counts, digests, size, plan.put(SUM, shares))
        if len(refused):
            yield self._product_messages(relay, refused, counts, digests, COUNT_BYTES + 8 * DIGEST_WORDS, {})

    def _product_messages(
        self, relay: RelayState, groups: Ids, counts: Ids, digests: Ids, size: int, shares: dict[str, Array]
    ) -> Messages:
        ends = np.full(len(groups), relay.party), self._plan.grouping.group_owner[groups]
        fields: dict[str, Array] = {names.COUNT: counts[groups].astype(np.uint32), names.AGREED: digests[groups]}
        return self._wire.make(Phase.PRODUCT_SHARES, self.now, ends, size, fields | shares)

    def _digest(self, rows: Ids) -> Ids:
        """Of whose products are added up in this step, 126 bits."""
        digest = sha256(step_bytes(self.now) + rows.astype("<i8").tobytes()).digest()
        return np.frombuffer(digest[: 8 * DIGEST_WORDS], dtype="<i8").astype(np.int64) & (2**63 - 1)

    def _product(self, relay: RelayState, group: int, rows: Ids, digest: Ids) -> Residues:
        """One relay's answer to a silo: by field, remainders [*tapes, entries], or without static entries."""
        plan, layout = self._plan, self._plan.layout
        assert relay.fresh is not None, "something has arrived"
        result = []
        for part in self._parts(relay, rows):
            fresh = self._read(relay, relay.fresh, part, layout.fresh, once=False)
            once = () if relay.once is None else self._read(relay, relay.once, part, layout.static, once=True)
            result.append(relay_products(layout, once, fresh))
        totals = [blocks[0] if len(blocks) == 1 else np.asarray(np.sum(blocks, axis=0, dtype=np.int64))
                 for blocks in zip(*result, strict=True)]  # fmt: skip
        return with_zero(plan.fields, totals, self.zeros(relay, group, digest))

    def _parts(self, relay: RelayState, rows: Ids) -> list[Ids]:
        """Rows that are multiplied together: all, or so many that what is expanded of them stays small."""
        layout = self._plan.layout
        sides = ((relay.once, layout.static), (relay.fresh, layout.fresh))
        numbers = len(rows) * sum(width for placed, width in sides if placed is not None and not placed.values)
        return np.array_split(rows, min(-(-numbers // LARGEST_BATCH), len(rows))) if numbers else [rows]

    def _read(self, relay: RelayState, placed: _ShareTable, rows: Ids, width: int, *, once: bool) -> Residues:
        """The shares of some devices by field."""
        if placed.values:
            return placed.of(rows)
        return self._expand_shares(relay, placed.step, self._plan.grouping.row_owner[rows], width, once=once)

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> list[tuple[Integers, Words]]:
        """The common streams that a relay adds to its products for a silo, each with its weights by field."""
        plan, sets = self._plan, self._sets_of(relay)
        parties = [plan.relays[list(self._sets[n])] for n in sets]
        result = self._crypto.streams(
            self._draws, self._set_keys[sets], parties, self.now, group, digest, plan.layout.entries
        )
        out: list[tuple[Integers, Words]] = []
        for n, streams in zip(sets, result, strict=True):
            weights = [zero_weights(field, plan.T, plan.R, self._sets[n])[relay.place] for field in plan.fields]
            out += zip(np.array(weights).T, streams, strict=True)
        return out

    def _sets_of(self, relay: RelayState) -> list[int]:
        """The sets that a relay is in."""
        return [n for n, members in enumerate(self._sets) if relay.place in members]

    def _arrays(self) -> dict[str, Array]:
        """Keys, what is shared once, and what each relay knows of the current step."""
        arrays: dict[str, Array] = {
            "dealt": np.array([self._dealt]),
            "set keys": self._set_keys,
            "has key": self._has_key,
        }
        arrays |= {f"keys/{name}": value for name, value in self._keys.state().items()}
        for relay in self._relays:
            lead = f"relay/{relay.party}"
            arrays[f"{lead}/at"] = np.asarray(relay.at, dtype=np.int64)
            arrays |= {f"{lead}/heard/{party}": flags for party, flags in relay.heard.items()}
            if relay.fresh is not None:
                arrays |= _pack_residues(f"{lead}/fresh", relay.fresh.there, relay.fresh.values)
            if relay.once is not None:
                arrays |= _pack_residues(f"{lead}/once", relay.once.there, relay.once.values)
                arrays[f"{lead}/once step"] = done_array([relay.once.step])
                arrays[f"{lead}/once whole"] = np.asarray(relay.once.whole)
        return arrays

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._dealt = bool(arrays["dealt"][0])
        self._set_keys, self._has_key = arrays["set keys"], arrays["has key"]
        self._keys.restore(within("keys", arrays))
        for relay in self._relays:
            stored = within(f"relay/{relay.party}", arrays)
            relay.at = _At(int(stored["at"]))
            relay.heard = {int(party): flags.astype(np.bool_) for party, flags in within("heard", stored).items()}
            relay.fresh = relay.once = None
            if "fresh/there" in stored:
                relay.fresh = _ShareTable(self.now, *_unpack_residues("fresh", stored))
            if "once/there" in stored:
                there, values = _unpack_residues("once", stored)
                step, whole = step_of(stored["once step"][0]), bool(stored["once whole"])
                relay.once = _ShareTable(step, there, values, self._silo_by_silo, whole=whole)


def _pack_residues(lead: str, present: Array, values: Residues) -> dict[str, Array]:
    """Which are there and what they are, as arrays of a state."""
    return {f"{lead}/there": present, **{f"{lead}/{place}": value for place, value in enumerate(values)}}


def _unpack_residues(name: str, state: Mapping[str, Array]) -> tuple[Array, Residues]:
    stored = within(name, state)
    return stored["there"], tuple(stored[str(place)] for place in range(len(stored) - 1))
