"""Owners of rows and sums: they open circuits, share their rows among relays over them, and interpolate their sums.

In the first step, and after a loss:

1. Every owner of a group draws a pseudonym for it, and sends it to the senders of the group.
2. Every sender opens its circuits: one for each group that it sends to, and where relays must not see the graph as many
   to its own group as are missing to D. Every owner opens one circuit over which its sums come back.

In every step senders share their rows among relays, one row a circuit, and owners interpolate what comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.agreement import SendersKeys, check_setup
from fgl_secure.protocols.relay_coded.answers import Answers, Decoder
from fgl_secure.protocols.relay_coded.code import AT_ONCE, is_laid_out, source_shares
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, attempt_of
from fgl_secure.protocols.relay_coded.plan import DUMMY, CircuitPlan, Parameters, PassRows, passes
from fgl_secure.protocols.relay_coded.wire import Wire, as_array, find_positions, ranks, read_batches, slot_names
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.protocols.topology import Contributors, is_computed
from fgl_secure.runtime import PAYLOAD, Direction, Draws, LazyArray, Messages, Phase, Step
from fgl_secure.runtime.packing import under, within
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Array, Flags, Ids

Places = Ids | slice
_DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD)
_FIRST_ALIAS = 2**30
"""From here on identifiers are of partners that a process does not know."""


class _Action(IntEnum):
    """What a machine does in its next turn."""

    NOTHING = 0
    START = 1
    AWAIT_KEYS = 2
    KEYS = 3
    PSEUDONYMS = 4
    OPENING = 5
    ANSWERS = 6
    REOPENING = 7


class Devices(CheckpointedMachine):
    """The owners of rows and of sums that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums; the helpers of their topology are the relays.
        scheme: its parameters.
        cryptography: what is cryptographic about it.
        draws: their coins.
        alone: whether one process hosts all parties, so that a pass without messages needs none.

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
        *,
        alone: bool = True,
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._scheme, self._topology, self._crypto, self._draws = scheme, terms.topology, cryptography, draws
        self._hosts_all, self._relays = alone, terms.topology.helpers
        self._mixes = scheme.mixes(terms.topology.name)
        self._wire = Wire(draws.batch_shape)
        self._shuffles: list[Ids | None] = []
        self._plan_circuits()
        senders = np.unique(np.concatenate([plan.parties for plan in self._plans.values()]))
        expanding = self._relays[: 0 if self._mixes else cryptography.expanded]
        self._agreement = SendersKeys(senders, expanding, cryptography, self._wire, draws)
        self._publics: Array = np.empty((0, 0), dtype=np.uint8)
        self._circuits: dict[int, dict[str, Array]] = {}
        self._age = 0
        self._action = _Action.NOTHING
        self._q: Elements = np.empty((0, 0), dtype=scheme.field.dtype)
        self._clear()

    def _clear(self) -> None:
        self._randomness: dict[str, Array] = {}
        self._answers: list[Answers] = []
        self._sums: Array | None = None
        self._queue: list[Messages] = []
        self._silent = self._delay = self._bit_rounds = 0
        self._reopenings = np.zeros(len(self.parties), dtype=np.int64)

    def _plan_circuits(self) -> None:
        topology, scheme, saved = self._topology, self._scheme, iter(self._shuffles)
        shuffles: list[Ids | None] = []

        def shuffle(count: int) -> Ids | None:
            shuffled = next(saved) if self._shuffles else self._crypto.shuffle(self._draws, count)
            shuffles.append(shuffled)
            return shuffled

        self._plans: dict[Direction, CircuitPlan] = {}
        self._pass_rows: dict[Direction, PassRows] = {}
        for direction, (grouping, answered) in passes(topology.grouping, scheme).items():
            padding = scheme.padding_of(topology.grouping, topology.name)
            plan = self._plans.get(Direction.FORWARD) if self._mixes else None
            if plan is None:
                sent, paths = (grouping, topology.circuits) if self._mixes else (answered, None)
                plan = CircuitPlan.of(sent, self.parties, shuffle, padding, paths)
            self._plans[direction] = plan
            self._pass_rows[direction] = plan.assign_rows(answered, self.parties, padding)
        self._shuffles = shuffles
        forward = self._plans[Direction.FORWARD]
        self._is_own = np.zeros(len(forward), dtype=np.bool_)
        self._is_own[forward.own_circuits] = True

    # The step

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        carried, field = self._pass_rows[step.direction], self._scheme.field
        self._check_new(step)
        if carried.count and (rows is None or rows.ndim != 2 or len(rows) != carried.count):
            raise InputError(f"rows must be [{carried.count}, d]; found {None if rows is None else list(rows.shape)}")
        q = np.zeros((0, 1), dtype=field.dtype) if rows is None else _field_rows(rows, field.modulus, field.dtype)
        self._clear()
        self._q, self._step, self._action = q, step, _Action.START
        if self._hosts_all and not len(self._plan.grouping.source):
            self._action = _Action.NOTHING
            shape = (*self._draws.batch_shape, len(carried.groups), 0 if rows is None else rows.shape[1])
            self._sums = np.zeros(shape, dtype=np.int64)
            return
        self._age += 1
        self._used_up()

    @property
    def _plan(self) -> CircuitPlan:
        return self._plans[self.now.direction]

    @property
    def _circuit_set(self) -> int:
        """Which circuits a pass takes: the same ones both ways where relays must not see the graph."""
        return 0 if self._mixes else _DIRECTIONS.index(self.now.direction)

    @property
    def _current(self) -> dict[str, Array]:
        return self._circuits[self._circuit_set]

    @property
    def sums(self) -> Array | None:
        """See `SumMachine.sums`."""
        return self._sums

    def reset(self) -> None:
        """See `SumMachine.reset`."""
        self._clear()
        self._step, self._action, self._q = None, _Action.NOTHING, self._q[:0, :0].copy()

    def step(self) -> Iterable[Messages]:
        """See the module's description."""
        queue, self._queue = self._queue, []
        self._silent = max(self._silent - 1, 0)
        return (*queue, *self._act())

    def _act(self) -> Iterable[Messages]:
        if self._reopenings.any():
            largest, numbers = int(self._reopenings.max()), self._reopenings
            self._reopenings = np.zeros_like(numbers)
            return self._send_pseudonyms(largest, self.parties[numbers == largest])
        if self._action is _Action.ANSWERS:
            return self._await_answers()
        if self._action is _Action.AWAIT_KEYS:
            self._action = _Action.KEYS
        elif self._action is _Action.PSEUDONYMS and self._delay:
            self._delay -= 1
        elif self._action is _Action.OPENING:
            return self._open() if len(self._publics) else ()
        else:
            acts = {_Action.START: self._start, _Action.KEYS: self._agree, _Action.PSEUDONYMS: self._finish_pseudonyms}
            return acts[self._action]() if self._action in acts else ()
        return ()

    def _await_answers(self) -> Iterable[Messages]:
        if "fetching" in self._current and len(self._publics):
            return self._open_fetches(sealed=True)
        if self._answers and all(answers.complete for answers in self._answers):
            self._decode()
        return ()

    def on_idle(self) -> bool:
        """Makes do with the answers that there are; they are given up in the second silent turn in a row."""
        if self._action in (_Action.ANSWERS, _Action.OPENING, _Action.REOPENING):
            self._silent += 2
            if self._silent > 2:
                self._decode()
        return self._action is not _Action.NOTHING

    def _start(self) -> Iterable[Messages]:
        if self._mixes and self._circuits and 0 < self._scheme.reopen_every < self._age:
            self._action = _Action.REOPENING
            return ()
        if not self._mixes and self._agreement.is_pending:
            self._action = _Action.AWAIT_KEYS
            return self._agreement.publish()
        if self._circuit_set in self._circuits:
            self._action = _Action.ANSWERS
            return self._send()
        return self._send_pseudonyms()

    def _agree(self) -> Iterable[Messages]:
        self._agreement.agree()
        for sender in self._agreement.left_out.tolist():
            self.remark(self.now, sender, "it did not agree on keys with every relay: what it sends is left out")
        return self._send_pseudonyms()

    # An opening: pseudonyms

    def _send_pseudonyms(self, opening: int = 0, devices: Ids | None = None) -> Iterable[Messages]:
        """Draw pseudonyms of groups, and send them to the senders of the groups.

        Args:
            opening: its number.
            devices: int64, those that take part; all that are hosted unless given.
        """
        plan, m = self._plan, len(self._plan)
        if self._circuit_set not in self._circuits:
            self._circuits[self._circuit_set] = {
                "openings": np.zeros((len(plan.owned), 2), dtype=np.int64),
                "pseudonyms": np.zeros((m, 2), dtype=np.int64),
                "told": np.zeros(m, dtype=np.bool_),
                "enough": np.ones((2, m), dtype=np.bool_),
                "numbers": np.full(len(self.parties), -1, dtype=np.int64),
            }
        opened = self._current
        joining = np.ones(len(self.parties), dtype=np.bool_) if devices is None else np.isin(self.parties, devices)
        opened["numbers"][joining] = opening
        joining_groups, senders = joining[self._index(plan.owners)], joining[self._index(plan.senders)]
        opened["openings"][joining_groups] = self._crypto.openings(self._draws, self.now, plan.owners[joining_groups])
        opened["told"][senders], opened["enough"][:, senders] = False, True
        opened["joining"] = joining
        self._bit_rounds = 0
        return self._send_to_senders(wire.PSEUDONYM, self._pseudonyms())

    def _index(self, parties: Numbers) -> Ids:
        return np.searchsorted(self.parties, parties)

    def _pseudonyms(self) -> Ids:
        """By group of the plan's grouping: int64 [g, 2], zero for those of others."""
        plan = self._plan
        out = np.zeros((len(plan.grouping.group_owner), 2), dtype=np.int64)
        out[plan.owned] = self._crypto.pseudonyms.of(self._current["openings"], len(self._relays))
        return out

    def _send_to_senders(self, name: str, by_group: Array, by_notice: Sequence[Array] = ()) -> Iterator[Messages]:
        """Send senders a value per group, or per notice: to neighbours, and along routes."""
        plan, opened = self._plan, self._current
        self._action, self._delay = (_Action.PSEUDONYMS, self._topology.circuits.hops if self._mixes else 0)
        for n, notices in enumerate((plan.near, plan.far)):
            rows = np.flatnonzero(opened["joining"][self._index(notices.owners)])
            if not len(rows):
                continue
            values = by_notice[n][rows] if by_notice else by_group[notices.groups[rows]]
            number = opened["numbers"][self._index(notices.owners[rows])]
            places, receivers = notices.places[rows], (plan.next_hops if n else notices.senders)[rows]
            ends = notices.owners[rows], receivers
            yield self._make_notice(name, ends, values, number.astype(np.uint32), places, far=bool(n))

    def _make_notice(
        self, name: str, ends: tuple[Ids, Ids], values: Array, number: Array, places: Array, *, far: bool
    ) -> Messages:
        position = {wire.TICKET: places.astype(np.int64)} if far else {wire.PLACE: places.astype(np.uint32)}
        size = values.itemsize * values[:1].size + (8 if far else 0)
        return self._wire.make(Phase.TAGS, self.now, ends, size, {name: values, wire.OPENING: number, **position})

    def _receive_pseudonyms(self, messages: Messages) -> None:
        name = wire.BIT if wire.BIT in messages.fields else wire.PSEUDONYM
        values = self._wire.read(messages, name, *(("|u1",) if name == wire.BIT else ("<i8", 2)))
        number = self._wire.read(messages, wire.OPENING, "<u4")
        if self._action is not _Action.PSEUDONYMS or (name == wire.BIT) != (self._bit_rounds > 0):
            raise StaleMessageError("pseudonyms must come before circuits are opened; at least one did not")
        far = wire.TICKET in messages.fields
        places = self._wire.read(messages, *((wire.TICKET, "<i8") if far else (wire.PLACE, "<u4")))
        local, plan = np.arange(len(messages)), self._plan
        if far:
            onward = self._topology.circuits.onward(places, messages.senders, messages.receivers)
            sent, local = np.flatnonzero(onward >= 0), np.flatnonzero(onward < 0)
            if len(sent):
                ends = messages.receivers[sent], onward[sent]
                self._queue.append(self._make_notice(name, ends, values[sent], number[sent], places[sent], far=True))
        circuits = self._circuits_of(messages, local, places, far=far)
        if (circuits < 0).any():
            raise MalformedMessageError("pseudonyms must be for senders of a group; at least one is not")
        current = self._current
        current_rows = number[local] == current["numbers"][self._index(plan.senders[circuits])]
        circuits, local = circuits[current_rows], local[current_rows]
        if name == wire.BIT:
            current["enough"][self._bit_rounds - 1, circuits] = values[local] == 1
        else:
            current["pseudonyms"][circuits], current["told"][circuits] = values[local], True

    def _circuits_of(self, messages: Messages, rows: Ids, places: Array, *, far: bool) -> Ids:
        """Return the circuit that each notice is for, -1 for none: int64 [k]."""
        plan = self._plan
        if far:
            tickets, inverse = np.unique(plan.received_far.places, return_inverse=True)
            names = slot_names(self._index(plan.received_far.senders), inverse)
            rank = np.minimum(np.searchsorted(tickets, places[rows]), max(len(tickets) - 1, 0))
            valid = tickets[rank] == places[rows] if len(tickets) else np.zeros(len(rows), dtype=np.bool_)
            wanted = np.where(valid, slot_names(self._index(messages.receivers[rows]), rank), -1)
            circuits = plan.far_circuits
        else:
            scale = int(plan.received_near.places.max(initial=0)) + 1
            names, circuits = plan.received_near.names(scale), plan.near_circuits
            wanted = slot_names(messages.senders, messages.receivers)[rows] * scale + places[rows].astype(np.int64)
            wanted[places[rows] >= scale] = -1
        order = np.argsort(names)
        matches = find_positions(wanted, names[order])
        return np.where(matches < 0, -1, circuits[order[matches]]) if len(order) else matches

    def _finish_pseudonyms(self) -> Iterable[Messages]:
        """End the exchange of pseudonyms; at a reopening partners report whether their sums are over enough."""
        opened = self._current
        if self._bit_rounds < 2 and self._mixes and (opened["numbers"][opened["joining"]] > 0).any():
            self._bit_rounds += 1
            return self._send_to_senders(wire.BIT, np.empty(0), self._check_enough(self._bit_rounds - 1))
        if self._mixes and not len(self._publics):
            self._action = _Action.OPENING
            return ()
        return self._open()

    def _check_enough(self, pass_index: int) -> list[Array]:
        """Return whether hosted sums of a pass are over enough partners: per notice, for near and far partners."""
        plan, opened = self._plan, self._current
        joined = [np.concatenate(parts) for parts in zip(*(
            (t.owners, t.senders, t.groups) for t in (plan.near, plan.far)
        ), strict=True)]  # fmt: skip
        owners, senders, groups = joined
        circuits = plan.senders.astype(np.int64), plan.grouping.group_owner[plan.groups]
        reverse = _find_pairs((owners, senders), circuits)
        answered = passes(self._topology.grouping, self._scheme)[_DIRECTIONS[pass_index]][1]
        ends = answered.row_owner[answered.source], answered.group_owner[answered.target]
        counted = opened["told"][reverse] & (_find_pairs((senders, owners), ends) >= 0)
        if pass_index:
            counted &= opened["enough"][0, reverse]
        foreign = None
        if self._scheme.contributors is Contributors.FOREIGN:
            silos = np.full(max(int(senders.max(initial=0)), int(owners.max(initial=0))) + 1, -1)
            silos[plan.grouping.row_owner] = plan.grouping.row_custodian
            foreign = (senders >= _FIRST_ALIAS) | (silos[senders] != silos[owners])
        enough = is_computed(groups, self._scheme.k_min, foreign, counted).astype(np.uint8)
        return [enough[: len(plan.near)], enough[len(plan.near) :]]

    # An opening: circuits

    def _open(self) -> Iterable[Messages]:
        """Open the circuits of those that take part, and share their rows."""
        self._action, opened, plan = _Action.ANSWERS, self._current, self._plan
        self._note_left_out()
        self._age = 1
        joining = opened["joining"]
        chosen = np.flatnonzero(joining[self._index(plan.senders)])
        opened["fetching"] = joining.copy()
        if not self._mixes:
            return (*self._open_by_name(), *self._open_fetches(sealed=False), *self._send())
        keys = opened.setdefault("keys", self._empty_keys(len(plan)))
        senders = plan.senders[chosen].astype(np.int64)
        fresh = self._crypto.circuit_keys(self._draws, self.now, senders, len(self._relays))
        if fresh.shape[-1] and not keys.shape[-1]:
            keys = opened["keys"] = np.zeros((*keys.shape[:2], fresh.shape[-1]), dtype=np.uint8)
        keys[:, chosen] = fresh
        groups = np.where(
            opened["told"][chosen, None], opened["pseudonyms"][chosen], self._own_pseudonyms_of(plan.senders[chosen])
        )
        content = [_as_bytes(groups)] * len(self._relays)
        ends = senders, plan.custodians[chosen]
        rows = self._seal(ends, content, keys[:, chosen], plan.slots[chosen], self._numbers_of(ends[0]), wire.SLOT)
        return (rows, *self._open_fetches(sealed=True), *self._send())

    def _empty_keys(self, count: int) -> Array:
        return np.zeros((len(self._relays), count, 0), dtype=np.uint8)

    def _numbers_of(self, parties: Ids) -> Array:
        numbers = self._current["numbers"].astype(np.uint32)
        if (numbers == numbers[:1]).all():  # no device was silent in an opening
            return np.broadcast_to(numbers[:1], parties.shape)
        return numbers[self._index(parties)]

    def _own_pseudonyms_of(self, senders: Numbers) -> Ids:
        """The pseudonyms of senders' own groups, to which circuits go that are missing to D, or to silent partners."""
        plan = self._plan
        order = np.argsort(plan.owners)
        pseudonyms = self._pseudonyms()[plan.owned[order]]
        return pseudonyms[np.searchsorted(plan.owners[order], senders)]

    def _seal(
        self, ends: tuple[Ids, Ids], contents: Sequence[Array], keys: Array, places: Array, numbers: Array, kind: str
    ) -> Messages:
        """Circuits sealed for all relays, as their owners' silos carry them."""
        names = _as_bytes(self._crypto.names(self._draws, self.now, ends[0]))
        rows = [np.concatenate([names, content, key], axis=1) for content, key in zip(contents, keys, strict=True)]
        publics = self._publics.reshape(len(self._relays), -1)
        sealed = self._crypto.seal(self._draws, ends[0], list(publics), rows)
        fields: dict[str, Array] = {PAYLOAD: sealed, kind: places.astype(np.uint32), wire.OPENING: numbers}
        return self._wire.make(Phase.CIRCUITS, self.now, ends, sealed.shape[1], fields, sealed=True)

    def _open_by_name(self) -> Iterator[Messages]:
        """Tell relays which groups a sender's messages are for, slot by slot."""
        plan, opened = self._plan, self._current
        opened["pseudonyms"][plan.own_circuits] = self._pseudonyms()[plan.groups[plan.own_circuits]]
        sent = self._find_sending()
        fields = {wire.PSEUDONYM: opened["pseudonyms"][sent], wire.SLOT: plan.slots[sent]}
        for relay in self._relays.tolist() if len(sent) else ():
            ends = plan.senders[sent].astype(np.int64), np.full(len(sent), relay)
            size = wire.PSEUDONYM_BYTES + wire.AUTHENTICATION_BYTES
            yield self._wire.make(Phase.CIRCUITS, self.now, ends, size, fields)

    def _open_fetches(self, *, sealed: bool) -> Iterable[Messages]:
        """Open a circuit for each group, over which its sums come back.

        Args:
            sealed: whether of those that have a silo, which carries them, or of the others.
        """
        plan, opened = self._plan, self._current
        custodians = plan.grouping.group_custodian[plan.owned]
        selected = opened["fetching"][self._index(plan.owners)] & ((custodians != plan.owners) == sealed)
        rows, R = np.flatnonzero(selected), len(self._relays)
        if sealed:
            del opened["fetching"]
        if not len(rows):
            return ()
        owners, custodians, places = plan.owners[rows], custodians[rows], ranks(plan.owners)[rows]
        proofs = list(self._crypto.pseudonyms.proofs(opened["openings"][rows], R))
        self._draws.note_secrets(
            "pseudonyms of groups", owners, self._on_all_tapes(self._pseudonyms()[plan.owned[rows]])
        )
        if not sealed:
            fields = {wire.PLACE: places.astype(np.uint32)}
            size = R * wire.PSEUDONYM_BYTES + wire.AUTHENTICATION_BYTES
            return [
                self._wire.make(
                    Phase.CIRCUITS, self.now, (owners, np.full(len(rows), relay)), size, fields | {PAYLOAD: proof}
                )
                for relay, proof in zip(self._relays.tolist(), proofs, strict=True)
            ]
        keys = self._crypto.circuit_keys(self._draws, self.now, owners, R)
        saved = opened.setdefault("fetch keys", self._empty_keys(len(plan.owned)))
        if keys.shape[-1] and not saved.shape[-1]:
            saved = opened["fetch keys"] = np.zeros((*saved.shape[:2], keys.shape[-1]), dtype=np.uint8)
        saved[:, rows] = keys
        contents = [_as_bytes(proof.reshape(len(rows), -1)) for proof in proofs]
        return (self._seal((owners, custodians), contents, keys, places, self._numbers_of(owners), wire.PLACE),)

    def _on_all_tapes(self, values: Array) -> Array:
        return np.broadcast_to(values, (*self._draws.batch_shape, *values.shape))

    def _note_left_out(self) -> None:
        """Note the groups whose pseudonyms did not arrive: their owners are named."""
        plan, opened = self._plan, self._current
        opened["told"][plan.own_circuits] = not self._mixes
        unknown = ~opened["told"]
        unknown[plan.own_circuits] = False
        owners, counts = np.unique(plan.grouping.group_owner[plan.groups[unknown]], return_counts=True)
        for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
            if owner < _FIRST_ALIAS:
                reason = f"{count} messages to it are not sent: its pseudonym did not reach their senders"
                self.remark(self.now, owner, reason)

    def _find_sending(self) -> Ids:
        """int64, the circuits over which named senders send: those of senders with keys, to groups that they know."""
        keyless = self._agreement.left_out
        keyed = ~np.isin(self._plan.senders, keyless) if len(keyless) else True
        return np.flatnonzero(self._current["told"] & keyed)

    # Rows

    def _send(self) -> Iterable[Messages]:
        plan, width = self._plan, self._q.shape[1]
        self._answers = [Answers(int(relay), len(self._pass_rows[self.now.direction].groups)) for relay in self._relays]
        if self._mixes and not len(plan):
            return
        self._randomness = self._crypto.drawn(self._draws, self.now, plan.senders.astype(np.int64), width)
        yield from self._masked_rows() if self._mixes else self._plain_rows()

    def _masked_rows(self) -> Iterator[Messages]:
        """One row a circuit for all relays that are sent one, side by side, by the senders' silos."""
        plan, field, width = self._plan, self._scheme.field, self._q.shape[1]
        sent = len(self._relays) - self._crypto.expanded
        shape = len(plan), sent * self._crypto.hidden_width(width, field.dtype)
        rows: Any
        if self._hosts_all and not is_laid_out(shape, self._draws.batch_shape):
            rows = LazyArray(partial(self._mask_rows, self.now), shape, np.dtype(np.uint32))
        else:
            chunk_size = len(plan) if self._draws.batch_shape else max(AT_ONCE // shape[1], 1)
            rows = self._allocate((*self._draws.batch_shape, *shape))
            for start in range(0, len(plan), chunk_size):
                self._mask_rows(self.now, slice(start, start + chunk_size), rows[..., start : start + chunk_size, :])
            if self._hosts_all and not self._draws.batch_shape:  # silos of this process copy none of them
                rows = LazyArray(rows, rows.shape, rows.dtype)
        senders = plan.senders.astype(np.int64)
        fields = {wire.SHARE: rows, wire.SLOT: plan.slots, wire.OPENING: self._numbers_of(senders)}
        fields[wire.WIDTH] = np.broadcast_to(np.uint32(width), (len(plan),))
        size = shape[1] * rows.dtype.itemsize
        yield self._wire.make(Phase.SEALED, self.now, (senders, plan.custodians), size, fields, sealed=True)

    def _allocate(self, shape: tuple[int, ...]) -> Array:
        return np.empty(shape, dtype=np.uint32 if self._crypto.expanded else self._scheme.field.dtype)

    def _mask_rows(self, step: Step, places: Places, out: Array | None = None) -> Array:
        """Rows of some circuits of the current step, masked for each relay that is sent one: [*batch, k, words].

        Raises:
            StaleMessageError: another step is current.
        """
        if step != self._step:
            raise StaleMessageError(f"shares must be read in their step; found {step} read later")
        keys, first, attempt = self._current["keys"], self._crypto.expanded, self._attempt()
        masks = self.masks(places)
        shares = [*masks[first:], *self.shares(masks, places)]
        width = len(shares) * self._crypto.hidden_width(self._q.shape[1], self._scheme.field.dtype)
        out = self._allocate((*masks[0].shape[:-1], width)) if out is None else out
        for j, part in enumerate(np.split(out, len(shares), axis=-1)):
            self._crypto.hide(step, attempt, keys[first + j][places], shares[j], part)
        return out

    def _attempt(self) -> int:
        """Return the attempt of the last opening; circuits of devices that did not join it are ignored."""
        return attempt_of(int(self._current["numbers"].max(initial=0)))

    def _plain_rows(self) -> Iterator[Messages]:
        """A header of each owner to every relay, and one row a message to each that is sent one."""
        plan, sent, expanded = self._plan, self._find_sending(), self._crypto.expanded
        owners = np.intersect1d(self._topology.grouping.owners, self.parties)
        width = np.broadcast_to(np.uint32(self._q.shape[1]), (len(owners),))
        for relay in self._relays.tolist():
            size, ends = width.itemsize + wire.AUTHENTICATION_BYTES, (owners, np.full(len(owners), relay))
            yield self._wire.make(Phase.SHARE_HEADERS, self.now, ends, size, {wire.WIDTH: width})
        if not len(sent):
            return
        senders = plan.senders[sent].astype(np.int64)
        for relay, share in zip(self._relays[expanded:].tolist(), self._shares_by_relay(sent), strict=True):
            size = share.shape[-1] * share.itemsize + wire.AUTHENTICATION_BYTES
            fields: dict[str, Any] = {wire.SHARE: share, wire.SLOT: plan.slots[sent]}
            yield self._wire.make(Phase.SHARES, self.now, (senders, np.full(len(sent), relay)), size, fields)

    def _shares_by_relay(self, sent: Ids) -> Sequence[Elements | LazyArray]:
        """The shares of messages for each relay that is sent one, laid out unless they are many in one process."""
        shape, first = (len(sent), self._q.shape[1]), self._crypto.expanded
        if not self._hosts_all or is_laid_out(shape, self._draws.batch_shape):
            masks = self.masks(sent if len(sent) < len(self._plan) else None)
            return [*masks[first:], *self.shares(masks, sent)]
        makes = (partial(self._shares_for_relay, self.now, sent, j) for j in range(self._scheme.R - first))
        return [LazyArray(make, shape, self._scheme.field.dtype) for make in makes]

    def _shares_for_relay(self, step: Step, sent: Ids, j: int, places: Ids) -> Elements:
        if step != self._step:
            raise StaleMessageError(f"shares must be read in their step; found {step} read later")
        masks = self.masks(sent[places])
        return [*masks[self._crypto.expanded :], *self.shares(masks, sent[places])][j]

    def masks(self, places: Places | None = None) -> list[Elements]:
        """The values of the messages' polynomials at 1 .. T: elements [*batch, k, d], by sender and slot.

        Args:
            places: of which k circuits; of all unless given.
        """
        keys = self._current["keys"] if self._mixes else self._agreement.keys
        attempt = self._attempt() if self._mixes else 0
        return self._crypto.masks(
            self.now, attempt, self._plan.senders, self._q.shape[1], self._randomness, keys, places
        )  # fmt: skip

    def shares(self, masks: list[Elements], places: Places) -> list[Elements]:
        """The values at T + 1 .. R of some circuits' polynomials: elements [*batch, k, d]."""
        scheme = self._scheme
        return list(
            source_shares(scheme.field, scheme.T, range(scheme.T + 1, scheme.R + 1), self._q, self.rows(places), masks)
        )

    def rows(self, places: Places) -> Numbers:
        """The row that each of some circuits carries; DUMMY for those that carry zero.

        Partners that are silent are sent nothing, nor those whose sum would be over too few.
        """
        opened, pass_index = self._current, _DIRECTIONS.index(self.now.direction)
        rows = self._pass_rows[self.now.direction].rows[places]
        if not self._mixes:
            return rows
        carries_row = opened["told"][places] & opened["enough"][pass_index, places]
        carries_row |= self._is_own[places]
        return np.where(carries_row, rows, rows.dtype.type(DUMMY))

    # Messages that arrive

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._check_ends(messages)
        if messages.phase is Phase.KEYS:
            if np.isin(messages.senders, self._relays).all():
                self._agreement.receive(messages)
            else:
                self._receive_public_keys(messages)
            return
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        takes = {
            Phase.TAGS: self._receive_pseudonyms,
            Phase.REOPENING: self._receive_reopening,
            Phase.SHARE_SUMS: self._receive_answers,
        }
        if messages.phase not in takes:
            raise MalformedMessageError(f"messages must be for owners of rows and sums; found {messages.phase.label}")
        takes[messages.phase](messages)

    def _receive_public_keys(self, messages: Messages) -> None:
        """Store relays' public keys, as silos forward them."""
        check_setup(messages)
        publics = self._wire.read(messages, wire.PUBLIC, "|u1", len(self._relays) * self._crypto.public_bytes)
        if len(publics) and (publics != publics[0]).any():
            raise ProtocolError("relays must publish one key for all; silos got two")
        if len(self._publics) and not np.array_equal(self._publics, publics[:1]):
            raise StaleMessageError("relays must publish one key for all; at least one has published another")
        self._publics = publics[:1].copy()

    def _receive_reopening(self, messages: Messages) -> None:
        """Note which devices must reopen circuits."""
        numbers = self._wire.read(messages, wire.OPENING, "<u4").astype(np.int64)
        if not self._mixes or self._action not in (_Action.ANSWERS, _Action.REOPENING, _Action.OPENING):
            raise StaleMessageError("circuits must be reopened in a step; now is none")
        positions = self._index(messages.receivers)
        is_new = numbers > self._current["numbers"][positions]
        self._reopenings[positions[is_new]] = numbers[is_new]

    def _receive_answers(self, messages: Messages) -> None:
        if self._action is not _Action.ANSWERS:
            raise StaleMessageError("answers must be for sums that are waited for; at least one is not")
        if not np.isin(messages.senders, self._relays).all():
            raise MalformedMessageError("answers must be from relays; at least one is not")
        plan, places = self._plan, self._wire.read(messages, wire.PLACE, "<u4")
        names = slot_names(plan.owners, ranks(plan.owners))
        order = np.argsort(names)
        positions = find_positions(slot_names(messages.receivers, places), names[order])
        if (positions < 0).any():
            raise MalformedMessageError("answers must be for groups of their receivers; at least one is not")
        positions, received = order[positions], []
        of_pass = np.full(len(plan.owned), -1)
        of_pass[self._pass_rows[self.now.direction].groups] = np.arange(len(self._pass_rows[self.now.direction].groups))
        for j, answers in enumerate(self._answers):
            rows = np.flatnonzero(messages.senders == answers.relay)
            if len(rows):
                counts, sums, valid = self._read_answers(messages, j, rows, positions[rows])
                place = of_pass[positions[rows]]
                valid &= place >= 0
                received.append((answers, place, counts[valid], np.compress(valid, sums, axis=-2), place[valid]))
        for answers, place, *parts in received:
            answers.answered[place[place >= 0]] = True
            answers.add(*parts)

    def _read_answers(self, messages: Messages, j: int, rows: Ids, groups: Ids) -> tuple[Ids, Elements, Flags]:
        """Counts int64 [k], sums [*batch, k, d] of one relay's answers, and which of them are authentic."""
        field, width = self._scheme.field, self._q.shape[1]
        if wire.COUNT in messages.fields:
            counts = self._wire.read(messages, wire.COUNT, "<u4")[rows].astype(np.int64)
            sums = np.take(self._wire.read_elements(messages, wire.SUM, field.dtype, field.modulus), rows, axis=-2)
            valid = np.ones(len(rows), dtype=np.bool_)
        else:
            masked = messages[wire.SUM]
            if self._crypto.expanded:
                masked = self._wire.read_masked(messages, wire.SUM, field.dtype, 1)
            hidden, keys = np.take(masked, rows, axis=self._wire.axes), self._current["fetch keys"][j, groups]
            attempt = self._attempt() if self._mixes else 0
            plain, valid = self._crypto.reveal(self.now, attempt, keys, hidden, field.dtype)
            counts = plain[(0,) * self._wire.axes][:, 0].astype(np.int64)
            sums = plain[..., 1:].astype(field.dtype)
            for owner in np.unique(messages.receivers[rows][~valid]).tolist():
                self.remark(
                    self.now, int(self._relays[j]), f"an answer for {self._draws.name_of(owner)} was changed: dropped"
                )
            relays = np.full((*sums.shape[:-1], 1), self._relays[j])
            opened = np.concatenate([relays, plain], axis=-1)
            self._draws.note_secrets("opened sums", messages.receivers[rows], opened, self.now)
            valid = valid & ((sums >= 0) & (sums < field.modulus)).all(axis=-1).reshape(-1, len(rows)).all(axis=0)
        if sums.shape[-1] == 1 < width and not sums.any():  # of a relay that holds nothing, and so knows no width
            sums = np.zeros((*sums.shape[:-1], width), dtype=sums.dtype)
        if self._pass_rows[self.now.direction].count and sums.shape[-1] != width:
            raise MalformedMessageError(f"sums must have {width} coordinates; found {sums.shape[-1]}")
        return counts, sums, valid

    def _decode(self) -> None:
        """The sums of hosted groups, from the answers that have arrived."""
        self._action = _Action.NOTHING
        carried, plan = self._pass_rows[self.now.direction], self._plan
        answers = self._answers or [Answers(int(relay), len(carried.groups)) for relay in self._relays]
        entitled = carried.message_counts >= self._scheme.k_min
        if self._mixes and self._circuits:
            numbers = self._current["numbers"][self._index(plan.owners)][carried.groups]
            entitled &= numbers == self._current["numbers"].max(initial=0)
        owners, width = plan.owners[carried.groups], len(self._q[0]) if len(self._q) else None
        decoder = Decoder(self._scheme, self._draws, self.remark, self.now, owners, answers)
        sums = decoder.sums(entitled, carried.expected, width)
        drawn = self._randomness
        self._clear()
        self._randomness, self._sums = drawn, sums  # shares that were not laid out may still be read

    def _arrays(self) -> dict[str, Array]:
        """Keys, circuits, what was summed, and the current sum."""
        numbers = [self._action, self._silent, self._delay, self._bit_rounds, self._age, len(self._answers)]
        arrays: dict[str, Array] = {
            "asked anew": self._reopenings,
            "numbers": np.array(numbers, dtype=np.int64),
            "q": self._q,
            "publics": self._publics,
        }
        arrays |= under("agreement", self._agreement.state()) | under("drawn", self._randomness)
        arrays |= {f"shuffle{n}": value for n, value in enumerate(self._shuffles) if value is not None}
        for n, opened in self._circuits.items():
            arrays |= under(f"circuits{n}", opened)
        for j, value in enumerate(self._answers):
            arrays |= under(f"answers{j}", value.state())
        arrays |= {} if self._sums is None else {"sums": self._sums}
        return arrays | {f"queue{n}": as_array(value) for n, value in enumerate(self._queue)}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        due, self._silent, self._delay, self._bit_rounds, self._age, answers = arrays["numbers"].tolist()
        self._action, self._q, self._publics = _Action(due), arrays["q"], arrays["publics"]
        self._reopenings = arrays["asked anew"].copy()
        self._agreement.restore(within("agreement", arrays))
        self._randomness, self._sums = within("drawn", arrays), arrays.get("sums")
        self._shuffles = [arrays.get(f"shuffle{n}") for n in range(len(self._shuffles))]
        self._plan_circuits()
        saved = ((n, within(f"circuits{n}", arrays)) for n in range(len(_DIRECTIONS)))
        self._circuits = {n: dict(opened) for n, opened in saved if opened}
        self._queue = read_batches("queue", arrays)
        self._answers = []
        for j, relay in enumerate(self._relays[:answers].tolist()):
            self._answers.append(Answers(relay, len(self._pass_rows[self.now.direction].groups)))
            self._answers[j].restore(within(f"answers{j}", arrays))


def _find_pairs(wanted: tuple[Ids, Ids], known: tuple[Ids, Ids]) -> Ids:
    """int64 [k]: where wanted pairs stand among known ones, -1 for those that do not."""
    names = slot_names(*known)
    order = np.argsort(names, kind="stable")
    positions = find_positions(slot_names(*wanted), names[order])
    return np.where(positions < 0, -1, order[positions]) if len(order) else positions


def _as_bytes(words: Ids) -> Array:
    """int64 [m, w] as uint8 [m, 8 w]."""
    return np.ascontiguousarray(words, dtype="<i8").view(np.uint8).reshape(len(words), -1)


def _field_rows(rows: Array, modulus: int, kind: np.dtype[Any]) -> Elements:
    """Rows as elements of the field.

    Raises:
        InputError: they are none.
    """
    if rows.dtype.kind not in "iu" or (rows.size and not (int(rows.min()) >= 0 and int(rows.max()) < modulus)):
        raise InputError(f"rows must hold integers in 0..{modulus - 1}; found {rows.dtype}")
    return np.ascontiguousarray(rows, dtype=kind)
