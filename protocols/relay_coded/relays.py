"""Relays: they see shares over circuits of unnamed groups, agree on the messages of a step, and answer with sums."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from fgl_secure.algebra import Elements, Segments
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.agreement import RelaysKeys, check_setup
from fgl_secure.protocols.relay_coded.code import is_laid_out, relay_sums, sum_in_chunks, sum_sorted
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, attempt_of
from fgl_secure.protocols.relay_coded.plan import Parameters
from fgl_secure.protocols.relay_coded.wire import Wire, as_array, by_value, find_positions, read_batches, slot_names
from fgl_secure.protocols.stepwise import CheckpointedMachine, SumTerms
from fgl_secure.runtime import PAYLOAD, Direction, Draws, LazyArray, Messages, Phase, Step
from fgl_secure.runtime.machine import SETUP
from fgl_secure.runtime.messages import take_rows
from fgl_secure.runtime.packing import under, within
from fgl_secure.typing import Array, Bytes, Flags, Ids

DIGEST_WORDS = 4
LISTED, CONFIRMED = "held", "agreed"
_NAME = 2 * wire.PSEUDONYM_BYTES
"""Bytes of the pseudonyms of a circuit and of its group."""


class _RelayPhase(IntEnum):
    """How far a relay is with a step."""

    GATHERING = 0
    DIGESTS = 1
    LISTS = 2
    CONFIRMING = 3
    CONFIRMED = 4
    OUT = 5


class Table:
    """The circuits that one relay knows, ascending by name.

    Attributes:
        names: int64 [m], of the silo or sender that delivers rows, and the place.
        groups: int64 [m, 4], the pseudonyms of the circuit, 0 where senders are named, and of its group.
        keys: uint8 [m, k].
        fetches: by how answers go, whether over silos: int64 [f, 3], who they go to, place, and the group they are for.
        fetch_keys: uint8 [f, k], of those that go over silos.
        number: of the opening.
    """

    def __init__(self, number: int = 0) -> None:
        none: Ids = np.empty(0, dtype=np.int64)
        self.names, self.groups, self.keys = none, none.reshape(0, 4), np.empty((0, 0), dtype=np.uint8)
        self.fetches: dict[bool, Array] = {False: none.reshape(0, 4), True: none.reshape(0, 4)}
        self.fetch_keys = np.empty((0, 0), dtype=np.uint8)
        self.number = number
        self._sorted: tuple[Array, Segments, Ids] | None = None
        self._digest = b""

    def add(self, names: Ids, groups: Ids, keys: Bytes) -> None:
        """Take circuits; the first of a name stands."""
        names, groups = np.concatenate([self.names, names]), np.concatenate([self.groups, groups])
        keys = keys if not len(self.keys) else np.concatenate([self.keys, keys])
        first = np.unique(names, return_index=True)[1]
        self.names, self.groups, self.keys = names[first], groups[first], keys[first]
        self._sorted, self._digest = None, b""

    @property
    def by_group(self) -> tuple[Array, Segments, Ids]:
        """The pseudonyms of groups, ascending, as one word each, their circuits, and the group of each circuit."""
        if self._sorted is None:
            groups, group_of = np.unique(_words(self.groups[:, 2:]), return_inverse=True)
            group_of = group_of.ravel().astype(np.int64)
            self._sorted = groups, Segments.by_group(group_of, len(groups)), group_of
        return self._sorted

    def digest(self, present: Flags) -> Ids:
        """SHA-256 over the table, and over which of its circuits have a row: int64 [8]."""
        if not self._digest:
            hashed = hashlib.sha256()
            for part in (self.names, self.groups):
                hashed.update(np.ascontiguousarray(part).data)
            self._digest = hashed.digest()
        bitmap = b"" if present.all() else np.packbits(present).tobytes()
        return np.frombuffer(self._digest + hashlib.sha256(bitmap).digest(), dtype=np.int64)

    def state(self) -> dict[str, Array]:
        """Return all of it as arrays."""
        fetches = {f"fetches{int(kind)}": value for kind, value in self.fetches.items()}
        named = {name: getattr(self, name) for name in ("names", "groups", "keys", "fetch_keys")}
        return {**named, **fetches, "number": np.asarray(self.number, dtype=np.int64)}

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> Table:
        """Read such arrays."""
        table = cls(int(state["number"]))
        for name in ("names", "groups", "keys", "fetch_keys"):
            setattr(table, name, state[name])
        table.fetches = {kind: state[f"fetches{int(kind)}"] for kind in (False, True)}
        return table


def _words(pseudonyms: Ids) -> Array:
    """Pairs of words as one each, in the order of their bytes."""
    return np.ascontiguousarray(pseudonyms, dtype=">i8").view("S16").ravel()


class RelayState:
    """What one relay knows of one step."""

    def __init__(self, party: int) -> None:
        self.party = party
        self.clear()

    def clear(self) -> None:
        """Forget the step."""
        self.phase = _RelayPhase.GATHERING
        self.rows: list[Messages] = []
        self.rosters: list[Messages] = []
        self.has_roster, self.width = False, 0
        self.live: Ids = np.array([self.party], dtype=np.int64)
        self.present: Flags = np.empty(0, dtype=np.bool_)
        self.sums: Elements | None = None
        self.done: dict[bool, Flags] = {}

    def state(self) -> dict[str, Array]:
        """Return all of it as arrays."""
        numbers = np.array([self.phase, self.has_roster, self.width], dtype=np.int64)
        arrays: dict[str, Array] = {"numbers": numbers, "live": self.live, "present": self.present}
        for name, batches in (("row", self.rows), ("roster", self.rosters)):
            arrays |= {f"{name}{n}": as_array(m) for n, m in enumerate(batches)}
        arrays |= {f"done{int(kind)}": flags for kind, flags in self.done.items()}
        return arrays if self.sums is None else {**arrays, "sums": self.sums}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on where a state was taken."""
        phase, has_roster, self.width = state["numbers"].tolist()
        self.phase, self.has_roster = _RelayPhase(phase), bool(has_roster)
        self.live, self.present, self.sums = state["live"], state["present"], state.get("sums")
        self.rows, self.rosters = read_batches("row", state), read_batches("roster", state)
        self.done = {kind: state[f"done{int(kind)}"].copy() for kind in (False, True) if f"done{int(kind)}" in state}


class Relays(CheckpointedMachine):
    """The relays that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        terms: of the sums; the helpers of their topology are all relays.
        scheme: its parameters.
        cryptography: what is cryptographic about it.
        draws: their coins.
    """

    def __init__(
        self, parties: Ids, terms: SumTerms, scheme: Parameters, cryptography: Cryptography, draws: Draws
    ) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._scheme, self._crypto, self._draws = scheme, cryptography, draws
        topology = terms.topology
        self._all_relays, self._mixes = topology.helpers, scheme.mixes(topology.name)
        self._degree = scheme.padding_of(topology.grouping, topology.name)
        self._wire = Wire(draws.batch_shape)
        self._keys = RelaysKeys(parties, cryptography, self._wire, draws)
        self._private: Bytes = np.empty((0, 0), dtype=np.uint8)
        self._key_requests: list[tuple[Ids, Ids]] = []
        self._relays = [RelayState(party) for party in parties.tolist()]
        self._tables: dict[tuple[int, int], Table] = {}
        self._reported: set[int] = set()

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`; relays have no rows."""
        self._check_new(step)
        if rows is not None:
            raise InputError("relays take no input rows; found some")
        self._step = step
        self._clear()

    def _clear(self) -> None:
        self._reported = set()
        for relay in self._relays:
            relay.clear()

    def reset(self) -> None:
        """See `SumMachine.reset`."""
        self._step = None
        self._clear()

    @property
    def sums(self) -> Array | None:
        """None: relays are entitled to nothing."""
        return None

    def _table(self, relay: RelayState) -> Table:
        """Passes have circuits of their own where relays see who sends."""
        kind = int(not self._mixes and self.now.direction is Direction.BACKWARD)
        return self._tables.setdefault((relay.party, kind), Table())

    def _expands(self, relay: RelayState) -> bool:
        return relay.party in self._all_relays[: self._crypto.expanded]

    # What arrives

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._check_ends(messages)
        if messages.phase is Phase.KEYS:
            check_setup(messages)
            if messages[PAYLOAD].ndim == self._wire.axes + 2 and not messages[PAYLOAD].shape[-1]:
                self._key_requests.append((messages.senders, messages.receivers))
            else:
                self._keys.receive(messages)
            return
        takes: dict[Any, tuple[Callable[[Messages], None], Callable[[RelayState, Messages], None]]] = {
            Phase.CIRCUITS: (self._check_circuits, self._receive_circuits),
            Phase.SHARES: (self._check_rows, self._receive_rows),
            Phase.SHARE_HEADERS: (self._check_rows, self._receive_rows),
            Phase.ROSTERS: (self._check_roster, self._receive_roster),
        }
        if messages.phase not in takes:
            raise MalformedMessageError(f"messages must be for relays; found {messages.phase.label}")
        if messages.step != self._step:
            raise StaleMessageError(f"messages must be of step {self._step}; found {messages.step}")
        check, take = takes[messages.phase]
        check(messages)
        by_party = {relay.party: relay for relay in self._relays}
        by_relay = [(by_party[party], rows) for party, rows in by_value(messages.receivers)]
        fetches = messages.phase is Phase.CIRCUITS and not self._mixes and wire.SLOT not in messages.fields
        early = messages.phase is not Phase.ROSTERS and not fetches
        if early and any(relay.phase is not _RelayPhase.GATHERING for relay, _ in by_relay):
            raise StaleMessageError("messages must arrive before relays have agreed on them; at least one did not")
        for relay, rows in by_relay:
            take(relay, messages if rows is None else messages.rows(rows))
        self._used_up()

    def _check_circuits(self, messages: Messages) -> None:
        kind = wire.SLOT if wire.SLOT in messages.fields else wire.PLACE
        self._wire.read(messages, kind, "<u4")
        if wire.PSEUDONYM in messages.fields:
            self._wire.read(messages, wire.PSEUDONYM, "<i8", 2)
        elif messages[PAYLOAD].dtype == np.uint8:
            if messages[PAYLOAD].ndim != self._wire.axes + 2:
                raise MalformedMessageError("sealed circuits must be rows of bytes; they are not")
            self._wire.read(messages, wire.OPENING, "<u4")
        else:
            self._wire.read(messages, PAYLOAD, "<i8", len(self._all_relays), 2)

    def _check_rows(self, messages: Messages) -> None:
        if messages.phase is Phase.SHARE_HEADERS:
            widths = self._wire.read(messages, wire.WIDTH, "<u4")
            if len(widths) and int(widths.max()) > wire.MOST_COORDINATES:
                raise MalformedMessageError(f"rows must have up to {wire.MOST_COORDINATES:,} coordinates")
            return
        self._wire.read(messages, wire.SLOT, "<u4")
        field = self._scheme.field
        if not self._mixes or not self._crypto.expanded:
            self._wire.read_elements(messages, wire.SHARE, field.dtype, field.modulus)
        else:
            self._wire.read_masked(messages, wire.SHARE, field.dtype, 0)

    def _check_roster(self, messages: Messages) -> None:
        if not np.isin(messages.senders, self._all_relays).all() or (messages.senders == messages.receivers).any():
            raise MalformedMessageError("rosters must be from other relays; at least one is not")
        if messages.fields.keys() not in ({PAYLOAD}, {CONFIRMED}, {LISTED}):
            raise MalformedMessageError(f"rosters must be digests or lists; found {', '.join(messages.fields)}")
        if LISTED not in messages.fields:
            words = 2 * DIGEST_WORDS if PAYLOAD in messages.fields else DIGEST_WORDS
            self._wire.read(messages, next(iter(messages.fields)), "<i8", words)
            return
        lists = messages[LISTED][(0,) * self._wire.axes]
        if lists.dtype.str != "<i8" or lists.ndim != 3 or lists.shape[2] != 5:
            raise MalformedMessageError("rosters must hold names and pseudonyms; at least one does not")
        if not (lists[:, 1:, 0] > lists[:, :-1, 0]).all():
            raise MalformedMessageError("rosters must be in the order of names, each once; at least one is not")

    def _receive_rows(self, relay: RelayState, messages: Messages) -> None:
        relay.rows.append(messages)

    def _receive_roster(self, relay: RelayState, messages: Messages) -> None:
        relay.rosters.append(messages)
        relay.has_roster = True

    def _receive_circuits(self, relay: RelayState, messages: Messages) -> None:
        kind = wire.SLOT if wire.SLOT in messages.fields else wire.PLACE
        places = self._wire.read(messages, kind, "<u4")
        sealed = wire.PSEUDONYM not in messages.fields and messages[PAYLOAD].dtype == np.uint8
        if sealed:
            number = int(self._wire.read(messages, wire.OPENING, "<u4").max(initial=0))
            if self._mixes and number != self._table(relay).number:
                self._tables[relay.party, 0] = Table(number)
        table, names = self._table(relay), slot_names(messages.senders, places)
        if kind == wire.PLACE:
            self._receive_fetches(relay, table, messages, places, sealed=sealed)
            return
        if not sealed:
            groups = self._wire.read(messages, wire.PSEUDONYM, "<i8", 2)
            table.add(names, np.concatenate([0 * groups, groups], axis=1), np.empty((len(names), 0), dtype=np.uint8))
            return
        content, valid = self._unseal(relay, messages)
        if content.shape[1] < _NAME:
            raise MalformedMessageError("circuits must hold pseudonyms and a key; they do not")
        words = np.ascontiguousarray(content[valid, :_NAME]).view("<i8").astype(np.int64)
        self._draws.note_secrets("circuits", np.full(len(words), relay.party), self._on_all_tapes(
            np.column_stack([messages.senders[valid], places[valid].astype(np.int64), words[:, 2:]])
        ), self.now)  # fmt: skip
        table.add(names[valid], words, content[valid, _NAME:])

    def _on_all_tapes(self, values: Array) -> Array:
        return np.broadcast_to(values, (*self._draws.batch_shape, *values.shape))

    def _unseal(self, relay: RelayState, messages: Messages) -> tuple[Bytes, Flags]:
        private = self._sealing_keys()[int(np.searchsorted(self.parties, relay.party))]
        sealed = np.asarray(messages[PAYLOAD])[(0,) * self._wire.axes]
        content, valid = self._crypto.unseal(self._draws, private, sealed)
        for sender in np.unique(messages.senders[~valid]).tolist():
            self._remark(sender, "a circuit that it forwarded was not sealed for the relay: dropped")
        return content, valid

    def _sealing_keys(self) -> Bytes:
        if not len(self._private):
            self._private = self._crypto.sealing_keys(self._draws, self.parties)
        return self._private

    def _receive_fetches(
        self, relay: RelayState, table: Table, messages: Messages, places: Array, *, sealed: bool
    ) -> None:
        R = len(self._all_relays)
        if sealed:
            content, valid = self._unseal(relay, messages)
            size = wire.PSEUDONYM_BYTES * (1 + R)
            if content.shape[1] < size:
                raise MalformedMessageError("circuits of answers must hold openings and a key; they do not")
            openings = content[valid, wire.PSEUDONYM_BYTES : size]
            proofs = np.ascontiguousarray(openings).view("<i8").astype(np.int64).reshape(-1, R, 2)
            keys = content[valid, size:]
        else:
            proofs, valid = self._wire.read(messages, PAYLOAD, "<i8", R, 2), np.ones(len(messages), dtype=np.bool_)
            keys = table.fetch_keys[:0]
        groups = self._crypto.pseudonyms.opened(proofs, int(np.searchsorted(self._all_relays, relay.party)))
        rows = np.column_stack([messages.senders[valid], places[valid].astype(np.int64), groups])
        stored = _words(np.concatenate([rows_of_kind[:, 2:] for rows_of_kind in table.fetches.values()]))
        words = _words(rows[:, 2:])
        new = np.sort(np.unique(words, return_index=True)[1])
        new = new[~np.isin(words[new], stored)]
        if len(new) < len(words):
            self._remark(relay.party, f"{len(words) - len(new)} groups were opened again: the first circuit stands")
        table.fetches[sealed] = np.concatenate([table.fetches[sealed], rows[new]])
        if sealed:
            earlier = table.fetch_keys if len(table.fetch_keys) else keys[:0]
            table.fetch_keys = np.concatenate([earlier, keys[new]])

    def _remark(self, party: int, reason: str) -> None:
        self.remark(self.now if self._step is not None else SETUP, party, reason)

    # Turns

    def step(self) -> Iterable[Messages]:
        """Return the messages of each relay in this step."""
        out = [*self._keys.answer(), *self._publish()]
        for relay in self._relays if self._step is not None else ():
            out += self._step_relay(relay)
            relay.rosters = []
        return out

    def _publish(self) -> Iterator[Messages]:
        """Tell silos the keys that circuits are sealed for."""
        requests, self._key_requests = self._key_requests, []
        for silos, relays in requests:
            keys = self._sealing_keys()
            publics = np.stack([self._crypto.public_key(key) for key in keys])
            selected = publics[np.searchsorted(self.parties, relays)]
            yield self._wire.make(Phase.KEYS, SETUP, (relays, silos), selected.shape[1], {PAYLOAD: selected})

    def _step_relay(self, relay: RelayState) -> Iterator[Messages]:
        """One relay's turn."""
        if relay.phase is _RelayPhase.GATHERING:
            if relay.rows:
                self._check_arrivals(relay)
                relay.phase = _RelayPhase.DIGESTS
                yield from self._send_roster(relay, PAYLOAD, self._digest(relay))
        elif relay.phase is _RelayPhase.DIGESTS:
            yield from self._compare_digests(relay)
        elif relay.phase is _RelayPhase.LISTS:
            yield from self._intersect(relay)
        elif relay.phase is _RelayPhase.CONFIRMING:
            self._confirm(relay)
        if relay.phase is _RelayPhase.CONFIRMED:
            yield from self._answer(relay)

    def _check_arrivals(self, relay: RelayState) -> None:
        """Which circuits have a row; of relays that expand shares, those of whom a header came."""
        table = self._table(relay)
        headers = [batch for batch in relay.rows if batch.phase is Phase.SHARE_HEADERS]
        if headers:
            widths = np.concatenate([self._wire.read(batch, wire.WIDTH, "<u4") for batch in headers])
            if len(np.unique(widths)) > 1:
                raise ProtocolError("senders must share rows of one width; they do not")
            relay.width = int(widths.max(initial=0))
        if self._expands(relay):
            senders = np.unique(np.concatenate([self._all_relays[:0], *(batch.senders for batch in headers)]))
            relay.present = np.isin(table.names >> 32, senders)
            if not self._mixes:
                relay.present &= np.isin(table.names >> 32, self._keys.senders_of(relay.party))
            return
        names, shares = self._rows_of(relay)
        relay.present = np.ones(len(names), dtype=np.bool_)
        if not np.array_equal(table.names, names):
            relay.present = np.isin(table.names, names)
            first = np.unique(names, return_index=True)[1]
            if len(first) < len(names):
                self._check_repeats(relay, names, shares, first)
        if shares is None:
            return
        if self._mixes:
            kind = self._scheme.field.dtype
            words = shares.shape[-1] - self._crypto.hidden_width(0, kind)
            relay.width = words // 2 if kind.itemsize > 4 and self._crypto.expanded else words
            relay.sums = self._sums(relay)
        else:
            relay.width = int(shares.shape[-1])

    def _rows_of(self, relay: RelayState) -> tuple[Ids, Any]:
        """Names and shares of what arrived."""
        rows = [batch for batch in relay.rows if batch.phase is Phase.SHARES]
        if not rows:
            return self._all_relays[:0], None
        names = [slot_names(batch.senders, self._wire.read(batch, wire.SLOT, "<u4")) for batch in rows]
        shares = [batch[wire.SHARE] for batch in rows]
        if len({batch.shape[-1] for batch in shares}) > 1:
            relay_name = self._draws.name_of(relay.party)
            raise ProtocolError(f"senders must share rows of one width with {relay_name}; they do not")
        if len(names) == 1:
            return names[0], shares[0]
        return np.concatenate(names), np.concatenate([np.asarray(batch) for batch in shares], axis=-2)

    def _check_repeats(self, relay: RelayState, names: Ids, shares: Any, first: Ids) -> None:
        unique_names = names[first]
        for copy in np.setdiff1d(np.arange(len(names)), first).tolist():
            original = first[np.searchsorted(unique_names, names[copy])]
            pair = np.asarray(take_rows(shares, np.array([original, copy]), -2))
            sender = int(names[copy]) >> 32
            if not np.array_equal(pair[..., 0, :], pair[..., 1, :]):
                raise ProtocolError(
                    f"{self._draws.name_of(sender)} must send one row a circuit; two different ones reached "
                    f"{self._draws.name_of(relay.party)}"
                )
            self._remark(sender, "a message arrived twice and counts once")

    def _digest(self, relay: RelayState) -> Ids:
        digest: Ids = self._table(relay).digest(relay.present)
        return digest

    def _others(self, relay: RelayState) -> Ids:
        others: Ids = self._all_relays[self._all_relays != relay.party]
        return others

    def _send_roster(self, relay: RelayState, name: str, value: Array, others: Ids | None = None) -> Iterator[Messages]:
        others = self._others(relay) if others is None else others
        if len(others):
            ends = np.full(len(others), relay.party), others
            fields = {name: np.broadcast_to(value, (len(others), *value.shape))}
            yield self._wire.make(Phase.ROSTERS, self.now, ends, value.size * value.itemsize, fields)

    def _read_rosters(self, relay: RelayState, name: str) -> dict[int, Array]:
        """Return the rosters of other relays, by party."""
        rosters: dict[int, Array] = {}
        for messages in relay.rosters:
            if name in messages.fields:
                values = messages[name][(0,) * self._wire.axes]
                rosters |= dict(zip(messages.senders.tolist(), values, strict=True))
        return rosters

    def _has_quorum(self, relay: RelayState, rosters: Mapping[int, Array]) -> bool:
        relay.live = np.array([relay.party, *sorted(rosters)], dtype=np.int64)
        if len(relay.live) > self._scheme.T:
            return True
        self._remark(relay.party, "the relay got rosters of too few others, and gives no answers in this step")
        relay.phase = _RelayPhase.OUT
        return False

    def _compare_digests(self, relay: RelayState) -> Iterator[Messages]:
        """After digests: agree if all that answered hold the same circuits, else send lists of them."""
        digests = self._read_rosters(relay, PAYLOAD)
        if not self._has_quorum(relay, digests):
            return
        for other in self._all_relays.tolist():
            if other not in self._reported and other != relay.party and other not in digests:
                self._reported.add(other)
                self._remark(other, "the relay did not answer and is left out of this step")
        digest, majority = self._digest(relay), self._find_majority(relay, digests)
        if relay.party not in majority:
            self._remark(relay.party, "the relay lacks circuits that others have, and gives no answers in this step")
            relay.phase = _RelayPhase.OUT
            return
        relay.live = np.array(sorted(majority), dtype=np.int64)
        if all(np.array_equal(digests[party], digest) for party in majority if party != relay.party):
            relay.phase = _RelayPhase.CONFIRMED
            return
        relay.phase = _RelayPhase.LISTS
        yield from self._send_roster(relay, LISTED, self._list_circuits(relay), relay.live[relay.live != relay.party])

    def _find_majority(self, relay: RelayState, digests: Mapping[int, Array]) -> set[int]:
        """The most relays that know the same circuits, if they are more than T; else all that answered."""
        tables: dict[bytes, set[int]] = {}
        for party, digest in {relay.party: self._digest(relay), **digests}.items():
            tables.setdefault(digest[:DIGEST_WORDS].tobytes(), set()).add(party)
        largest = max(tables.values(), key=lambda parties: (len(parties), -min(parties)))
        return largest if len(largest) > self._scheme.T else {relay.party, *digests}

    def _list_circuits(self, relay: RelayState) -> Ids:
        """Names and pseudonyms of the circuits that have a row: int64 [k, 5]."""
        table = self._table(relay)
        return np.column_stack([table.names[relay.present], table.groups[relay.present]])

    def _intersect(self, relay: RelayState) -> Iterator[Messages]:
        """After lists: what all hold counts."""
        lists = {party: rows for party, rows in self._read_rosters(relay, LISTED).items() if party in relay.live}
        if not self._has_quorum(relay, lists):
            return
        listed, table = self._list_circuits(relay), self._table(relay)
        counted, union = listed[:, 0], listed[:, 0]
        for other, rows in lists.items():
            positions = find_positions(rows[:, 0], listed[:, 0])
            both = np.flatnonzero(positions >= 0)
            if (rows[both, 1:] != listed[positions[both], 1:]).any():
                sender = int(rows[both][(rows[both, 1:] != listed[positions[both], 1:]).any(axis=1)][0, 0]) >> 32
                ends = sorted((relay.party, other))
                raise ProtocolError(
                    f"{self._draws.name_of(sender)} must open the same circuits at every relay; those that reached "
                    f"{self._draws.name_of(ends[0])} and {self._draws.name_of(ends[1])} differ"
                )
            counted, union = np.intersect1d(counted, rows[:, 0]), np.union1d(union, rows[:, 0])
        self._note_left_out(np.setdiff1d(union, counted))
        relay.present, relay.phase, relay.sums = np.isin(table.names, counted), _RelayPhase.CONFIRMING, None
        yield from self._send_roster(relay, CONFIRMED, self._digest_list(relay), relay.live[relay.live != relay.party])

    def _digest_list(self, relay: RelayState) -> Ids:
        return np.frombuffer(hashlib.sha256(self._list_circuits(relay).tobytes()).digest(), dtype=np.int64)

    def _note_left_out(self, missing: Ids) -> None:
        if -1 in self._reported or not len(missing):
            return
        self._reported.add(-1)
        senders, counts = np.unique(missing >> 32, return_counts=True)
        for sender, count in zip(senders.tolist(), counts.tolist(), strict=True):
            self._remark(sender, f"{count} messages did not reach every relay and are left out")

    def _confirm(self, relay: RelayState) -> None:
        """Relays that would count different messages give no answers."""
        digests, digest = self._read_rosters(relay, CONFIRMED), self._digest_list(relay)
        relay.phase = _RelayPhase.CONFIRMED
        others = relay.live[relay.live != relay.party].tolist()
        if not all(other in digests and np.array_equal(digests[other], digest) for other in others):
            self._remark(relay.party, "the relay does not agree with the others on what counts, and gives no answers")
            relay.phase = _RelayPhase.OUT

    # Sums

    def _count_rows(self, relay: RelayState) -> Ids:
        """int64 [g]: circuits of each group that have a row."""
        groups, _, group_of = self._table(relay).by_group
        if relay.present.all():
            return np.bincount(group_of, minlength=len(groups))
        return np.bincount(group_of[relay.present], minlength=len(groups))

    def _is_answered(self, relay: RelayState, counts: Ids) -> Flags:
        """Bool [g]: which groups have a sum: where counts must not be seen, those of which no circuit is silent."""
        if self._degree is None:
            return counts >= self._scheme.k_min
        sizes: Ids = self._table(relay).by_group[1].sizes
        accepted: Flags = (sizes == self._degree) & (counts == max(self._degree, 1))
        return accepted

    def _sums(self, relay: RelayState) -> Elements:
        """The sums of all groups, of the circuits that have a row: elements [*batch, g, d]."""
        field, width = self._scheme.field, max(relay.width, 1)
        names, groups, group_of = self._table(relay).by_group
        if not len(names) or not relay.present.any():
            return np.zeros((*self._draws.batch_shape, len(names), width), dtype=field.dtype)
        read = self._make_expander(relay) if self._expands(relay) else self._make_reader(relay)
        if self._mixes and not self._draws.batch_shape:
            order = groups.order if relay.present.all() else groups.order[relay.present[groups.order]]
            return sum_sorted(field, lambda chunk: read(order[chunk]), group_of[order], len(names), width)
        present = np.flatnonzero(relay.present)
        if is_laid_out((len(present), width), self._draws.batch_shape):
            by_group = groups if relay.present.all() else Segments.by_group(group_of[present], len(names))
            return relay_sums(field, read(present), by_group, self._wire.axes)
        return sum_in_chunks(field, lambda chunk: read(present[chunk]), group_of[present], len(names), width)

    def _make_expander(self, relay: RelayState) -> Callable[[Ids], Elements]:
        """Reads shares of circuits that the relay expands."""
        table, width = self._table(relay), max(relay.width, 1)
        if self._mixes:
            attempt = attempt_of(table.number)
            return lambda circuits: self._crypto.circuit_masks(self.now, attempt, table.keys[circuits], width)
        keys = self._keys.keys_of(relay.party)
        return lambda circuits: self._crypto.expand(self.now, table.names[circuits], keys, width)

    def _make_reader(self, relay: RelayState) -> Callable[[Ids], Elements]:
        """Reads shares that arrived, and leaves out rows that were changed."""
        table, field = self._table(relay), self._scheme.field
        names, shares = self._rows_of(relay)
        positions, in_order = np.arange(len(names)), np.array_equal(table.names, names)
        if not in_order:
            order = np.argsort(names, kind="stable")
            positions = order[np.minimum(np.searchsorted(names[order], table.names), len(names) - 1)]
        attempt = attempt_of(table.number)

        def read(circuits: Ids) -> Elements:
            if not self._mixes and in_order and len(circuits) == len(names):  # all of them, ascending
                return np.asarray(shares)
            places = positions[circuits]
            # `receive` would lay columns of wider rows out as a whole
            rows = (
                shares.rows(places) if isinstance(shares, LazyArray) else np.ascontiguousarray(shares[..., places, :])
            )
            if not self._mixes:
                return rows
            elements, valid = self._crypto.reveal(self.now, attempt, table.keys[circuits], rows, field.dtype)
            if not valid.all():
                relay.present[circuits[~valid]] = False
                for sender in np.unique(table.names[circuits[~valid]] >> 32).tolist():
                    self._remark(sender, "a row that it forwarded was changed: dropped")
                elements = np.where(valid[:, None], elements, 0)
            if self._crypto.expanded:
                self._draws.note_secrets("opened shares", np.full(len(elements), relay.party), elements, self.now)
            return elements

        return read

    def sums_of(self, relay: RelayState, groups: Ids) -> tuple[Ids, Elements]:
        """What a relay makes of groups [k, 2]: counts int64 [k], 0 where it refuses, and sums [*batch, k, d]."""
        stored, counts = self._table(relay).by_group[0], self._count_rows(relay)
        relay.sums = self._sums(relay) if relay.sums is None else relay.sums
        if not len(stored):
            shape = (*self._draws.batch_shape, len(groups), max(relay.width, 1))
            return np.zeros(len(groups), dtype=np.int64), np.zeros(shape, dtype=self._scheme.field.dtype)
        words = _words(groups)
        place = np.minimum(np.searchsorted(stored, words), len(stored) - 1)
        answered = (stored[place] == words) & self._is_answered(relay, counts)[place]
        out = np.take(relay.sums, place, axis=-2)
        if not answered.all():
            out[..., ~answered, :] = 0
        return np.where(answered, counts[place], 0), out

    def _answer(self, relay: RelayState) -> Iterator[Messages]:
        """Answer all whose circuits are there, each once in a step: via silos, or the owner itself."""
        table, field = self._table(relay), self._scheme.field
        for sealed, fetches in table.fetches.items():
            done = relay.done.get(sealed, np.zeros(0, dtype=np.bool_))
            rows = np.arange(len(done), len(fetches))
            relay.done[sealed] = np.ones(len(fetches), dtype=np.bool_)
            if not len(rows):
                continue
            counts, sums = self.sums_of(relay, fetches[rows, 2:])
            ends = np.full(len(rows), relay.party), fetches[rows, 0]
            places = fetches[rows, 1].astype(np.uint32)
            if not sealed:
                size = 4 + wire.AUTHENTICATION_BYTES + sums.shape[-1] * sums.itemsize
                fields = {wire.SUM: sums, wire.COUNT: counts.astype(np.uint32), wire.PLACE: places}
                yield self._wire.make(Phase.SHARE_SUMS, self.now, ends, size, fields)
                continue
            counted = np.broadcast_to(counts[:, None].astype(field.dtype), (*sums.shape[:-1], 1))
            attempt = attempt_of(table.number) if self._mixes else 0
            hidden = self._crypto.hide(
                self.now, attempt, table.fetch_keys[rows], np.concatenate([counted, sums], axis=-1)
            )  # fmt: skip
            size = hidden.shape[-1] * hidden.itemsize
            fields = {wire.SUM: hidden, wire.PLACE: places}
            yield self._wire.make(Phase.SEALED, self.now, ends, size, fields, sealed=True)
        if relay.sums is not None:
            relay.rows = []

    def _arrays(self) -> dict[str, Array]:
        """Keys, circuits, and what each relay knows of the current step; not behind a tape axis."""
        arrays: dict[str, Array] = {"noted": np.array(sorted(self._reported), dtype=np.int64), "private": self._private}
        arrays |= under("keys", self._keys.state())
        arrays |= {f"asked{n}": np.stack(ends) for n, ends in enumerate(self._key_requests)}
        for relay in self._relays:
            arrays |= under(f"relay/{relay.party}", relay.state())
        for (party, kind), table in self._tables.items():
            arrays |= under(f"table/{party}/{kind}", table.state())
        return arrays

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        self._reported, self._private = set(arrays["noted"].tolist()), arrays["private"]
        self._keys.restore(within("keys", arrays))
        requests = [value for name, value in sorted(arrays.items()) if name.startswith("asked")]
        self._key_requests = [(ends[0], ends[1]) for ends in requests]
        for relay in self._relays:
            relay.clear()
            relay.restore(within(f"relay/{relay.party}", arrays))
        places = [(party, kind) for party in self.parties.tolist() for kind in range(2)]
        stored = ((place, within("table/{}/{}".format(*place), arrays)) for place in places)
        self._tables = {place: Table.of_state(state) for place, state in stored if state}
