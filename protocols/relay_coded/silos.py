"""Silos that mix: what goes over a circuit passes two silos, its owner's and one that is drawn when it is opened.

The first knows the owner of a circuit, the second forwards its rows to relays. Each silo draws an order for circuits
that it opens together: in every step rows follow this fixed permutation. Answers come back as circuits went.

Where relays must not see the graph silos hold a step back until it is complete. A relay that saw which circuits fall
silent together would know that they are one device's:

1. A silo that has all rows of its devices, and all circuits that they open, forwards them, and notifies all silos.
2. A silo that has all that was forwarded to it notifies all silos.
3. If all silos have all, relays get the step. If not, silos give it up: they ask the responsive devices to open
   circuits anew, without those that are silent, and the step runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.agreement import check_setup
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.plan import Parameters
from fgl_secure.protocols.relay_coded.wire import PartyIndex, Wire, as_array, ranks, read_batches, slot_names
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import PAYLOAD, Direction, Draws, LazyArray, Messages, Phase, Step
from fgl_secure.runtime.machine import SETUP
from fgl_secure.runtime.packing import under, within
from fgl_secure.typing import Array, Flags, Ids

MOST_ATTEMPTS = 8
"""How often a step is run before its sums are given up."""
_FIRST_ALIAS = 2**30
_LOW = 2**32 - 1
FORWARDED, COMPLETE = "handed", "whole"


class _Stage(IntEnum):
    """How far silos are with a step."""

    GATHERING = 0
    FORWARDED = 1
    CONFIRMING = 2
    SENT = 3
    OUT = 4


class Route:
    """The circuits of one kind that hosted silos carry, in the order in which they were opened.

    Attributes:
        first: int64 [4, m], of circuits of own devices: name, own silo, next silo, and name there.
        second: int64 [3, k], of circuits that silos forwarded: name, own silo, and name at relays.
    """

    def __init__(self, first: Ids | None = None, second: Ids | None = None) -> None:
        self.first = np.empty((4, 0), dtype=np.int64) if first is None else first
        self.second = np.empty((3, 0), dtype=np.int64) if second is None else second
        self._sorted: dict[int, tuple[Ids, Ids]] = {}

    def add(self, hop: int, names: Ids, silos: Ids, coins: Ids, next_silos: Ids | None = None) -> None:
        """Open circuits, in an order that is drawn.

        Args:
            hop: 0 for those of own devices, 1 for those that silos forward.
            names: int64 [m], of owner and place; none is known.
            silos: int64 [m], hosted ones.
            coins: int64 [m], their order.
            next_silos: int64 [m], via which silos they go on; None to relays.
        """
        table = self.second if hop else self.first
        carried = np.bincount(table[1], minlength=int(silos.max(initial=0)) + 1)
        order, places = np.lexsort((coins, silos)), np.empty(len(silos), dtype=np.int64)
        places[order] = ranks(silos[order])
        next_names = slot_names(silos, places + carried[silos])
        rows = [names, silos, next_names] if next_silos is None else [names, silos, next_silos, next_names]
        joined = np.concatenate([table, np.stack(rows)], axis=1)
        self.first, self.second = (self.first, joined) if hop else (joined, self.second)
        self._sorted.clear()

    def find(self, hop: int, names: Ids) -> Ids | None:
        """Return the places of circuits by name, -1 for unknown ones; None for all, in order."""
        return _find((self.second if hop else self.first)[0], names)

    def find_back(self, hop: int, names: Ids) -> Ids | None:
        """The same by the name at the next hop."""
        return _find((self.second if hop else self.first)[-1], names)

    def in_leaving_order(self, hop: int) -> tuple[Ids, Ids]:
        """Return the order in which all circuits leave, int64 [m], and the table in that order."""
        if hop not in self._sorted:
            table = self.second if hop else self.first
            order = np.argsort(table[-1])
            self._sorted[hop] = order, table[:, order]
        return self._sorted[hop]


def _find(stored_names: Ids, names: Ids) -> Ids | None:
    if np.array_equal(stored_names, names):
        return None
    order = np.argsort(stored_names)
    positions = wire.find_positions(names, stored_names[order])
    return np.where(positions < 0, -1, order[positions]) if len(order) else positions


class Silos(CheckpointedMachine):
    """The silos that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums.
        scheme: its parameters.
        cryptography: draws routes.
        draws: coins of the silos.
        alone: whether one process hosts all parties, so that a pass without messages needs none.
    """

    def __init__(
        self,
        parties: Ids,
        terms: SumTerms,
        scheme: Parameters,
        cryptography: Cryptography,
        draws: Draws,
        *,
        alone: bool = True,
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._is_idle = alone and not len(terms.topology.grouping.source)
        self._scheme, self._crypto, self._draws = scheme, cryptography, draws
        topology, grouping = terms.topology, terms.topology.grouping
        self._silos, self._relays = topology.custodians, topology.helpers
        self._mixes, self._wire = scheme.mixes(topology.name), Wire(draws.batch_shape)
        all_custodians = np.concatenate([grouping.row_custodian, grouping.group_custodian])
        owners, first = np.unique(np.concatenate([grouping.row_owner, grouping.group_owner]), return_index=True)
        custodians = all_custodians[first]
        is_hosted = np.isin(custodians, parties) & (owners < _FIRST_ALIAS) & (owners != custodians)
        self._devices, self._silo_of = owners[is_hosted], custodians[is_hosted]
        self._device_row, self._own_row, self._silo_column = map(PartyIndex, (self._devices, parties, self._silos))
        self._degree = scheme.padding_of(grouping, topology.name) or 0
        self._publics: dict[int, Array] = {}
        self._keys_requested = self._keys_forwarded = False
        self._routes: dict[str, Route] = {}
        self._number, self._age, self._opening = 0, 0, True
        self._active = np.ones(len(self._devices), dtype=np.bool_)
        self._forwarded_counts = np.zeros((len(parties), len(self._silos), 2), dtype=np.int64)
        self._live = np.ones((len(parties), len(self._silos)), dtype=np.bool_)
        self._clear()

    def _clear(self) -> None:
        self._queue: list[Messages] = []
        self._attempts = 0
        self._start_attempt()

    def _start_attempt(self) -> None:
        """Forgets what has arrived: an attempt begins."""
        shape = self._live.shape
        self._stage, self._forced = _Stage.GATHERING, False
        self._arrived: dict[str, list[Messages]] = {}
        self._responsive, self._incomplete = (np.zeros(len(self._devices), dtype=np.bool_) for _ in range(2))
        self._complete, self._confirmed = (np.full(shape, -1, dtype=np.int8) for _ in range(2))
        self._expected = np.zeros((*shape, 2), dtype=np.int64)
        self._numbers = np.zeros(shape, dtype=np.int64)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; silos have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("silos take no input rows; found some")
        responsive = self._responsive
        self._step = step
        self._clear()
        self._age += 1
        if self._mixes and not self._opening and 0 < self._scheme.reopen_every < self._age:
            self._reopen(self._active | responsive, self._number + 1)

    def reset(self) -> None:
        """See `SumMachine.reset`."""
        responsive = self._responsive
        self._step = None
        self._clear()
        self._responsive = responsive

    @property
    def sums(self) -> Array | None:
        """None."""
        return None

    def _key(self, kind: str) -> str:
        """The name of a route: passes have circuits of their own where relays see who sends."""
        return f"{kind}{int(not self._mixes and self.now.direction is Direction.BACKWARD)}"

    def _route(self, kind: str) -> Route:
        return self._routes.setdefault(self._key(kind), Route())

    # What arrives

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._check_ends(messages)
        if messages.phase is Phase.KEYS:
            self._receive_keys(messages)
            return
        if messages.phase not in (Phase.CIRCUITS, Phase.SEALED, Phase.MIXED, Phase.ROSTERS):
            raise StaleMessageError(f"messages must be sealed for another party; found {messages.phase.label}")
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        if messages.phase is Phase.ROSTERS:
            self._receive_roster(messages)
        elif wire.SUM in messages.fields:
            self._receive_answers(messages)
        else:
            self._receive_forwarded(messages)
        self._used_up()

    def _receive_keys(self, messages: Messages) -> None:
        check_setup(messages)
        size = self._crypto.public_bytes
        keys = self._wire.read(messages, PAYLOAD, "|u1", size)
        if not np.isin(messages.senders, self._relays).all():
            raise MalformedMessageError("public keys must be from relays; at least one is not")
        for relay, key in zip(messages.senders.tolist(), keys, strict=True):
            if not np.array_equal(self._publics.setdefault(relay, key.copy()), key):
                raise StaleMessageError("a relay must publish one key; one has published another before")

    def _receive_forwarded(self, messages: Messages) -> None:
        """Circuits and rows, from devices and from silos."""
        kind = wire.PLACE if wire.PLACE in messages.fields else wire.SLOT
        self._wire.read(messages, kind, "<u4")
        numbers = self._wire.read(messages, wire.OPENING, "<u4")
        hop = int(np.isin(messages.senders, self._silos).all())
        content = wire.SHARE if wire.SHARE in messages.fields else PAYLOAD
        allowed = {content, kind, wire.OPENING} | ({wire.WIDTH} if content == wire.SHARE else set())
        if messages.fields.keys() != allowed or messages[content].ndim != self._wire.axes + 2:
            raise MalformedMessageError(f"{messages.phase.label} must hold rows; they do not")
        if hop == 0:
            rows = self._device_row(messages.senders)
            if (rows < 0).any() or (self._silo_of[rows] != messages.receivers).any():
                raise MalformedMessageError("messages must be from own devices or silos; at least one is not")
            self._responsive[rows] = True
        current = numbers == self._number if self._mixes else np.ones(len(messages), dtype=np.bool_)
        if self._stage >= _Stage.SENT or (self._stage > _Stage.GATHERING and not hop):
            raise StaleMessageError("rows must arrive before relays see the step; at least one did not")
        if current.any():
            part = messages if current.all() else messages.rows(np.flatnonzero(current))
            others = self._arrived.setdefault(f"{content} {kind} {hop}", [])
            if others and _shape(others[0]) != _shape(part):
                raise MalformedMessageError(f"{messages.phase.label} of a step must all have one shape; they have not")
            others.append(part)

    def _names(self, messages: Messages, kind: str) -> Ids:
        return slot_names(messages.senders, self._wire.read(messages, kind, "<u4"))

    def _join_arrived(self, content: str, kind: str, hop: int) -> Messages | None:
        """All that arrived of a kind as one batch, each circuit once; None for nothing."""
        batches = self._arrived.get(f"{content} {kind} {hop}", [])
        if len(batches) <= 1:
            return batches[0] if batches else None
        batch = joined(batches)
        names = self._names(batch, kind)
        _, first = np.unique(names, return_index=True)
        return batch if len(first) == len(names) else batch.rows(np.sort(first))

    # Turns

    def step(self) -> Iterable[Messages]:
        """See the module's description."""
        messages, self._queue = [*self._forward_keys(), *self._queue], []
        forced, self._forced = self._forced, False
        if not self._mixes:
            return [*messages, *self._forward_fetches()]
        if self._stage is _Stage.GATHERING and self._step is not None:
            messages += self._forward_rows(forced=forced)
        elif self._stage is _Stage.FORWARDED and (forced or (self._complete >= 0)[self._live].all()):
            messages += self._confirm()
        elif self._stage is _Stage.CONFIRMING and (forced or (self._confirmed >= 0)[self._live].all()):
            messages += self._release()
        return messages

    def on_idle(self) -> bool:
        """Goes on without those that are silent, if any device has answered."""
        waits = self._stage in (_Stage.FORWARDED, _Stage.CONFIRMING)
        waits |= self._stage is _Stage.GATHERING and bool(self._responsive.any())
        lacking = self._keys_requested and not self._keys_forwarded and len(self._publics) > self._scheme.T
        self._forced = bool((self._mixes and waits and self._step is not None) or lacking)
        return self._forced

    def _forward_keys(self) -> list[Messages]:
        """Ask relays for the keys that circuits are sealed for, and forward them to own devices."""
        if self._is_idle or not len(self._devices) or self._keys_forwarded:
            return []
        K, R = len(self.parties), len(self._relays)
        if not self._keys_requested:
            self._keys_requested = True
            ends = np.repeat(self.parties, R), np.tile(self._relays, K)
            return [self._wire.make(Phase.KEYS, SETUP, ends, 0, {PAYLOAD: np.empty((K * R, 0), dtype=np.uint8)})]
        if len(self._publics) < R and not self._forced:
            return []
        self._keys_forwarded = True
        absent = np.zeros(self._crypto.public_bytes, dtype=np.uint8)
        keys = np.concatenate([self._publics.get(relay, absent) for relay in self._relays.tolist()])
        copies = np.broadcast_to(keys, (len(self._devices), len(keys)))
        ends = self._silo_of, self._devices
        return [self._wire.make(Phase.KEYS, SETUP, ends, len(keys), {wire.PUBLIC: copies})]

    def _is_complete(self) -> Flags:
        """Bool [k]: whose devices' rows, and circuits where they are opened, are all there."""
        self._incomplete = np.zeros(len(self._devices), dtype=np.bool_)
        required = [(wire.SHARE, wire.SLOT, self._degree)]
        required += [(PAYLOAD, wire.SLOT, self._degree), (PAYLOAD, wire.PLACE, 1)] if self._opening else []
        for content, kind, expected in required:
            messages = self._join_arrived(content, kind, 0)
            counts = np.zeros(len(self._devices), dtype=np.int64)
            if messages is not None:
                slots = self._wire.read(messages, kind, "<u4")
                rows = self._device_row(messages.senders)[slots < expected]
                counts = np.bincount(rows, minlength=len(self._devices))
            self._incomplete |= self._active & (counts < expected)
        return ~np.isin(self.parties, self._silo_of[self._incomplete])

    def _forward_rows(self, *, forced: bool) -> list[Messages]:
        """Forward what own devices sent, silo by silo once it is complete, and notify all silos."""
        complete = self._is_complete()
        if not (forced or complete.all()):
            return []
        self._stage = _Stage.FORWARDED
        out: list[Messages] = []
        for n, kind in enumerate((wire.SLOT, wire.PLACE) if self._opening else ()):
            out += self._open(kind, complete)
            route = self._route(kind).first
            self._forwarded_counts[..., n] = self._count_pairs(route[1], route[2])
        out += self._forward(wire.SHARE, wire.SLOT, 0, self._silos_of(complete))
        columns, places = self._silo_column(self.parties), np.arange(len(self.parties))
        self._complete[places, columns], self._numbers[places, columns] = complete, self._number
        self._expected[places, columns] = self._forwarded_counts[places, columns]
        return [*out, *self._send_rosters({COMPLETE: complete.astype(np.uint8)}, self._forwarded_counts)]

    def _count_pairs(self, silos: Ids, others: Ids) -> Ids:
        """How many there are of each pair of a hosted silo and another one: int64 [k, s]."""
        shape = len(self.parties), len(self._silos)
        pairs = self._own_row(silos) * shape[1] + self._silo_column(others)
        return np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)

    def _silos_of(self, mask: Flags) -> Ids:
        return self.parties[mask]

    def _send_rosters(self, fields: Mapping[str, Array], forwarded_counts: Array | None = None) -> list[Messages]:
        """Return a roster of each hosted silo for all silos."""
        a, b = np.nonzero(self.parties[:, None] != self._silos[None])
        all_fields: dict[str, Array] = {name: column[a] for name, column in fields.items()}
        all_fields[wire.OPENING] = np.full(len(a), self._number, dtype=np.uint32)
        all_fields |= {} if forwarded_counts is None else {FORWARDED: forwarded_counts[a, b].astype(np.uint32)}
        size = sum(value.itemsize * value[:1].size for value in all_fields.values()) + wire.AUTHENTICATION_BYTES
        return [self._wire.make(Phase.ROSTERS, self.now, (self.parties[a], self._silos[b]), size, all_fields)]

    def _receive_roster(self, messages: Messages) -> None:
        complete, numbers = self._wire.read(messages, COMPLETE, "|u1"), self._wire.read(messages, wire.OPENING, "<u4")
        if not np.isin(messages.senders, self._silos).all():
            raise MalformedMessageError("rosters must be from silos; at least one is not")
        cells = self._own_row(messages.receivers), self._silo_column(messages.senders)
        if FORWARDED in messages.fields:
            self._expected[cells] = self._wire.read(messages, FORWARDED, "<u4", 2)
            self._complete[cells], self._numbers[cells] = complete == 1, numbers
        else:
            self._confirmed[cells] = complete == 1
            self._numbers[cells] = numbers

    def _open(self, kind: str, complete: Flags) -> list[Messages]:
        """Draw routes of own devices' circuits, and forward these."""
        messages = self._join_arrived(PAYLOAD, kind, 0)
        if messages is None:
            return []
        is_selected = np.isin(messages.receivers, self._silos_of(complete))
        rows = self._device_row(messages.senders)
        selected = messages.rows(np.flatnonzero(is_selected & self._active[rows]))
        silos = selected.receivers
        coins = self._crypto.routes(self._draws, self.now, silos)
        next_silos = np.empty(len(silos), dtype=np.int64)
        for place, silo in enumerate(self.parties.tolist()):
            live, is_own = self._silos[self._live[place]], silos == silo
            next_silos[is_own] = live[coins[is_own, 0] % len(live)]
        self._route(kind).add(0, self._names(selected, kind), silos, coins[:, 1], next_silos)
        self._arrived[f"{PAYLOAD} {kind} 0"] = [selected]
        return self._forward(PAYLOAD, kind, 0, self.parties)

    def _forward(self, content: str, kind: str, hop: int, silos: Ids) -> list[Messages]:
        """Forward what arrived, by fixed permutations: to silos, or as relays get it."""
        messages, route = self._join_arrived(content, kind, hop), self._route(kind)
        if messages is None:
            return []
        positions = route.find(hop, self._names(messages, kind))
        table = route.second if hop else route.first
        if positions is None and len(silos) == len(self.parties):
            order, leaving = route.in_leaving_order(hop)
        else:
            positions = np.arange(len(messages)) if positions is None else positions
            selected = np.flatnonzero((positions >= 0) & np.isin(messages.receivers, silos))
            order = selected[np.argsort(table[-1][positions[selected]])]
            leaving = table[:, positions[order]]
        places = (leaving[-1] & _LOW).astype(np.uint32)
        number = np.broadcast_to(np.uint32(self._number), places.shape)
        moved = messages.rows(order)
        fields = {content: moved.fields[content], kind: places, wire.OPENING: number}
        fields |= {wire.WIDTH: moved.fields[wire.WIDTH]} if wire.WIDTH in messages.fields else {}
        if hop:
            return self._to_relays(content, leaving[1], fields)
        phase = Phase.CIRCUITS if content == PAYLOAD else Phase.MIXED
        ends = leaving[1], leaving[2]
        return [self._wire.make(phase, self.now, ends, messages.item_bytes, fields, sealed=True)]

    def _to_relays(self, content: str, silos: Ids, fields: Mapping[str, Any]) -> list[Messages]:
        """A batch for each relay of what goes to it, which is side by side for all of them."""
        first = 0 if content == PAYLOAD else self._crypto.expanded
        values, out = fields[content], []
        width = values.shape[-1] // max(len(self._relays) - first, 1)
        for j, relay in enumerate(self._relays[first:].tolist()):
            part = _columns(values, j * width, (j + 1) * width)
            relay_fields = {name: value for name, value in fields.items() if name != wire.WIDTH} | {content: part}
            phase = Phase.CIRCUITS if content == PAYLOAD else Phase.SHARES
            ends = silos, np.full(len(silos), relay)
            out.append(self._wire.make(phase, self.now, ends, width * part.dtype.itemsize, relay_fields))
        return out

    def _confirm(self) -> list[Messages]:
        """Notify all silos whether all that was forwarded has arrived."""
        self._stage = _Stage.CONFIRMING
        arrived = self._complete == 1
        arrived &= self._numbers == self._number
        required = [(wire.SHARE, wire.SLOT, 0)]
        required += [(PAYLOAD, wire.SLOT, 0), (PAYLOAD, wire.PLACE, 1)] if self._opening else []
        for content, kind, n in required:
            messages = self._join_arrived(content, kind, 1)
            counts = 0 if messages is None else self._count_pairs(messages.receivers, messages.senders)
            arrived &= counts == self._expected[..., n]
        complete = (arrived | ~self._live).all(axis=1)
        places = np.arange(len(self.parties))
        self._confirmed[places, self._silo_column(self.parties)] = complete
        return self._send_rosters({COMPLETE: complete.astype(np.uint8)})

    def _release(self) -> list[Messages]:
        """Give the step to relays if all silos have all of it; else give it up."""
        all_complete = ((self._confirmed == 1) | ~self._live).all(axis=1)
        if not all_complete.all():
            return self._give_up()
        self._stage, out = _Stage.SENT, list[Messages]()
        if self._opening:
            for kind in (wire.SLOT, wire.PLACE):
                messages = self._join_arrived(PAYLOAD, kind, 1)
                if messages is not None:
                    coins = self._crypto.routes(self._draws, self.now, messages.receivers)[:, 1]
                    self._route(kind).add(1, self._names(messages, kind), messages.receivers, coins)
                out += self._forward(PAYLOAD, kind, 1, self.parties)
            self._opening, self._age = False, 1
        rows = self._join_arrived(wire.SHARE, wire.SLOT, 0) or self._join_arrived(wire.SHARE, wire.SLOT, 1)
        width = np.zeros(1, dtype=np.uint32) if rows is None else self._wire.read(rows, wire.WIDTH, "<u4")[:1]
        for relay in self._relays[: self._crypto.expanded].tolist():
            ends = self.parties, np.full(len(self.parties), relay)
            fields = {wire.WIDTH: np.repeat(width, len(self.parties))}
            fields[wire.OPENING] = np.full(len(self.parties), self._number, dtype=np.uint32)
            out.append(self._wire.make(Phase.SHARE_HEADERS, self.now, ends, 8 + wire.AUTHENTICATION_BYTES, fields))
        out += self._forward(wire.SHARE, wire.SLOT, 1, self.parties)
        self._arrived.clear()
        return out

    def _give_up(self) -> list[Messages]:
        """Let responsive devices reopen circuits, via responsive silos."""
        self._attempts += 1
        responsive = self._responsive & ~self._incomplete
        for device in self._devices[self._active & ~responsive].tolist():
            self.remark(self.now, device, "it is silent: circuits are reopened without it")
        live = self._complete >= 0
        by_others = (live & (self.parties[:, None] != self._silos[None])).any(axis=0)
        for silo in self._silos[self._live.any(axis=0) & ~by_others].tolist() if len(self._silos) > 1 else ():
            self.remark(self.now, silo, "it is silent: circuits are reopened around it")
        self._live = live
        number = int(max(self._number, self._numbers.max(initial=0))) + 1
        if self._attempts >= MOST_ATTEMPTS:
            self._stage = _Stage.OUT
            return []
        attempts = self._attempts
        self._start_attempt()
        self._attempts = attempts
        self._reopen(responsive, number)
        queue, self._queue = self._queue, []
        return queue

    def _reopen(self, devices: Flags, number: int) -> None:
        self._active, self._number, self._opening = devices, number, True
        self._routes.clear()
        ends, value = (self._silo_of[devices], self._devices[devices]), np.uint32(number)
        fields = {wire.OPENING: np.broadcast_to(value, (int(devices.sum()),))}
        self._queue.append(
            self._wire.make(Phase.REOPENING, self.now, ends, value.itemsize + wire.AUTHENTICATION_BYTES, fields)
        )

    def _forward_fetches(self) -> list[Messages]:
        """Circuits for answers alone, where relays see who sends: they go on as they come."""
        out: list[Messages] = []
        for hop in range(2):
            messages = self._join_arrived(PAYLOAD, wire.PLACE, hop)
            if messages is None:
                continue
            route, names = self._route(wire.PLACE), self._names(messages, wire.PLACE)
            positions = route.find(hop, names)
            new = np.arange(0) if positions is None else np.flatnonzero(positions < 0)
            silos = messages.receivers[new]
            coins = self._crypto.routes(self._draws, self.now, silos)
            next_silos = None if hop else self._silos[coins[:, 0] % len(self._silos)]
            route.add(hop, names[new], silos, coins[:, 1], next_silos)
            out += self._forward(PAYLOAD, wire.PLACE, hop, self.parties)
            del self._arrived[f"{PAYLOAD} {wire.PLACE} {hop}"]
        return out

    # Answers

    def _receive_answers(self, messages: Messages) -> None:
        """Answers of relays, back to the silos that forwarded circuits, and from these to their owners."""
        places, route = self._wire.read(messages, wire.PLACE, "<u4"), self._route(wire.PLACE)
        hop = int(np.isin(messages.senders, self._relays).all())
        positions = route.find_back(hop, slot_names(messages.receivers, places))
        table = route.second if hop else route.first
        if positions is not None and (positions < 0).any():
            raise MalformedMessageError("answers must be over circuits that a silo carries; at least one is not")
        hops = table if positions is None else table[:, positions]
        if not hop and (hops[2] != messages.senders).any():
            raise MalformedMessageError("answers must come back as circuits went; at least one does not")
        ends, places_back = hops[1], (hops[0] & _LOW).astype(np.uint32)
        relays = messages.senders if hop else self._wire.read(messages, wire.RELAY, "<u4").astype(np.int64)
        fields = {wire.SUM: messages.fields[wire.SUM], wire.PLACE: places_back}
        if hop:
            fields |= {wire.RELAY: relays.astype(np.uint32)}
            out = self._wire.make(
                Phase.MIXED, messages.step, (ends, hops[0] >> 32), messages.item_bytes, fields, sealed=True
            )
        else:
            out = self._wire.make(Phase.SHARE_SUMS, messages.step, (relays, hops[0] >> 32), messages.item_bytes, fields)
        self._queue.append(out)

    def _arrays(self) -> dict[str, Array]:
        """Routes, and what waits to be forwarded; not behind a tape axis."""
        flags = [self._stage, self._attempts, self._number, self._age]
        flags += [self._opening, self._keys_requested, self._keys_forwarded, self._forced]
        arrays: dict[str, Array] = {"flags": np.array(flags, dtype=np.int64)}
        arrays |= {name: getattr(self, f"_{name}") for name in _ATTEMPT_STATE}
        arrays |= {f"public/{relay}": key for relay, key in self._publics.items()}
        for name, route in self._routes.items():
            arrays |= {f"first/{name}": route.first, f"second/{name}": route.second}
        arrays |= {f"queue{n}": as_array(messages) for n, messages in enumerate(self._queue)}
        for name, batches in self._arrived.items():
            arrays |= under(f"arrived/{name}", {f"batch{n}": as_array(messages) for n, messages in enumerate(batches)})
        return arrays

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        stage, self._attempts, self._number, self._age, *flags = arrays["flags"].tolist()
        self._stage = _Stage(stage)
        self._opening, self._keys_requested, self._keys_forwarded, self._forced = map(bool, flags)
        for name in _ATTEMPT_STATE:
            setattr(self, f"_{name}", arrays[name].copy())
        self._publics = {int(name): key for name, key in within("public", arrays).items()}
        first, second = within("first", arrays), within("second", arrays)
        self._routes = {name: Route(first[name], second[name]) for name in first}
        self._queue = read_batches("queue", arrays)
        waiting = within("arrived", arrays)
        names = {name.split("/")[0] for name in waiting}
        self._arrived = {name: read_batches("batch", within(name, waiting)) for name in names}


_ATTEMPT_STATE = (
    "active", "live", "responsive", "incomplete", "complete", "confirmed", "forwarded_counts", "expected", "numbers",
)  # fmt: skip


def _columns(value: Any, start: int, stop: int) -> Any:
    """Some columns of rows, laid out or not."""
    if (start, stop) == (0, value.shape[-1]):
        return value
    return value.columns(start, stop) if isinstance(value, LazyArray) else value[..., start:stop]


def _shape(messages: Messages) -> tuple[Any, ...]:
    """Return what batches must have in common to be joined."""
    return tuple(sorted((n, str(v.dtype), v.shape[messages.tape_axes + 1 :]) for n, v in messages.fields.items()))


def joined(batches: Sequence[Messages]) -> Messages:
    """Return one batch of several with the same fields."""
    first = batches[0]
    axis = first.tape_axes
    fields = {name: np.concatenate([batch.fields[name] for batch in batches], axis=axis) for name in first.fields}
    senders, receivers = np.concatenate([[batch.senders, batch.receivers] for batch in batches], axis=1)
    return replace(first, senders=senders, receivers=receivers, fields=fields)
