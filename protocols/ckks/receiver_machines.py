"""The roles of a sum under the receiver's key: it leads, senders encrypt, another party adds what it cannot read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, wire_bytes
from fgl_secure.crypto.ckks_adder import RunningSums
from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.crypto.ckks_public import FINGERPRINT_BYTES
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.ckks.wire import (
    check_ciphertexts,
    check_field,
    ciphertext_fields,
    ciphertexts_of,
    encrypted,
)
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.states import State, byte_fields, bytes_of, field_of, optional, step_rows, steps_of
from fgl_secure.protocols.vector_sum import check_rows
from fgl_secure.runtime import Messages, Phase, Step

Array = NDArray[Any]
Ids = NDArray[np.int64]
Integers = NDArray[np.int64]

LEAST_TERMS = 2
"""Sums to which fewer senders are left are refused, unless there was but one from the start."""
KEY, FINGERPRINT, INCLUDED = "key", "fingerprint", "included"
"""Fields beside those of `wire`."""

_FINGERPRINT = np.dtype(np.uint8), (FINGERPRINT_BYTES,)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What everybody knows of the sums of one topology.

    Attributes:
        senders: int64 [n], party identifiers.
        aggregator: who adds.
        receiver: who holds the key.
        length: entries of a vector.
        parameters: of CKKS.
        batch_bytes: most bytes of one batch of messages, but for one message.
    """

    senders: Ids
    aggregator: int
    receiver: int
    length: int
    parameters: Parameters
    batch_bytes: int

    @property
    def count(self) -> int:
        """Ciphertexts of a vector."""
        return self.parameters.ciphertexts(self.length)

    @property
    def others(self) -> Ids:
        """Everybody but the receiver, ascending."""
        return np.unique([self.aggregator, *self.senders.tolist()]).astype(np.int64)

    @property
    def messages_at_once(self) -> int:
        """Vectors in one batch."""
        return max(1, self.batch_bytes // (self.count * wire_bytes(self.parameters)))


@dataclass(slots=True, eq=False)
class KeyRing:
    """Keys that the parties of one process hold, for all sums that they take part in.

    Attributes:
        pairs: of receivers hosted, by receiver and parameters.
        told: to whom each receiver has given its public key.
        held: public keys, by holder, receiver and parameters.
    """

    pairs: dict[tuple[int, Parameters], ReceiverKey] = field(default_factory=dict, repr=False)
    told: dict[tuple[int, Parameters], set[int]] = field(default_factory=dict)
    held: dict[tuple[int, int, Parameters], PublicKey] = field(default_factory=dict)


class Role(SumMachine):
    """What the three roles have in common: one step at a time, and keys by party.

    Args:
        parties: int64 [k], those hosted.
        plan: of the sums.
        ring: of their process.
    """

    def __init__(self, parties: Ids, plan: Plan, ring: KeyRing) -> None:
        super().__init__(parties)
        self._plan, self._ring = plan, ring
        self._step: Step | None = None
        self._done: set[Step] = set()

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        if step in self._done:
            raise ProtocolError(f"a step must be summed once; found {step} again")
        self._start(rows)
        self._step = step
        self._done.add(step)

    @abstractmethod
    def _start(self, rows: Array | None) -> None:
        """Makes ready for a step; what raises changes nothing."""

    @property
    def sums(self) -> Array | None:
        """None but with the receiver."""
        return None

    def state(self) -> State:
        """Steps that were begun, the last of them first, and all else by role."""
        now = [] if self._step is None else [self._step]
        done = step_rows([*now, *(step for step in self._done if step != self._step)])
        return {"steps": done, "begun": np.array([self._step is not None]), **self._own_state()}

    def restore(self, state: State) -> None:
        """See `Machine.restore`."""
        steps = steps_of(field_of(state, "steps"))
        self._restore_own(state)
        self._done, self._step = set(steps), steps[0] if field_of(state, "begun").any() else None

    @abstractmethod
    def _own_state(self) -> State:
        """What the role holds beside steps."""

    @abstractmethod
    def _restore_own(self, state: State) -> None:
        """The same, back; what raises changes nothing."""

    def _check(self, messages: Messages, sender: int | None) -> None:
        """Raises unless messages are of the step at hand, for parties hosted, and from whom they must be."""
        if self._step is None or messages.step != self._step:
            raise StaleMessageError(f"messages must be of the step at hand, {self._step}; found {messages.step}")
        if not np.isin(messages.receivers, self.parties).all():
            raise MalformedMessageError("messages must be for parties hosted here; they are not")
        if sender is not None and not (messages.senders == sender).all():
            raise ProtocolError(f"messages ({messages.phase.label}) must come from party {sender}; they do not")

    def _take_keys(self, messages: Messages) -> Ids:
        """Keeps public keys that came; says which hosted parties hold the one that the receiver names.

        Raises:
            ProtocolError: messages are not what a receiver sends.
        """
        plan, names = self._plan, messages[FINGERPRINT]
        self._check(messages, plan.receiver)
        check_field(messages, FINGERPRINT, *_FINGERPRINT)
        if KEY in messages.fields:
            keys = messages[KEY]
            found = {data: self._public(data) for data in {row.tobytes() for row in keys}}
            for party, row in zip(messages.receivers.tolist(), keys, strict=True):
                self._ring.held[party, plan.receiver, plan.parameters] = found[row.tobytes()]
        able = [
            self._holds(party, row.tobytes()) for party, row in zip(messages.receivers.tolist(), names, strict=True)
        ]
        return messages.receivers[able]

    def _holds(self, party: int, fingerprint: bytes) -> bool:
        key = self._key_of(party)
        return key is not None and key.fingerprint == fingerprint

    def _key_of(self, party: int) -> PublicKey | None:
        return self._ring.held.get((party, self._plan.receiver, self._plan.parameters))

    def _public(self, data: bytes) -> PublicKey:
        try:
            key = PublicKey.from_bytes(data)
        except InputError as error:
            raise MalformedMessageError("public key must be a whole one; it is not") from error
        if key.parameters != self._plan.parameters:
            raise ProtocolError(f"public key must have {self._plan.parameters}; found {key.parameters}")
        return key

    def _held_fields(self) -> State:
        mine = [(party, key) for party in self.parties.tolist() if (key := self._key_of(party)) is not None]
        who = np.array([party for party, _ in mine], dtype=np.int64)
        return {"holders": who, **byte_fields("held", [key.to_bytes() for _, key in mine])}

    def _restore_held(self, state: State) -> None:
        keys = [self._public(data) for data in bytes_of(state, "held")]
        for party, key in zip(field_of(state, "holders").tolist(), keys, strict=True):
            self._ring.held[party, self._plan.receiver, self._plan.parameters] = key


class Senders(Role):
    """Those who bring vectors, and encrypt them when the receiver names the key."""

    def __init__(self, parties: Ids, plan: Plan, ring: KeyRing) -> None:
        super().__init__(parties, plan, ring)
        self._rows: Integers | None = None
        self._called = np.zeros(0, dtype=np.int64)

    def _start(self, rows: Array | None) -> None:
        if rows is None:
            raise InputError(f"rows must be given where {len(self.parties)} senders are hosted; found None")
        check_rows(rows, len(self.parties), self._plan.length, self._plan.parameters.bound)
        self._rows, self._called = rows, np.zeros(0, dtype=np.int64)

    def take(self, messages: Messages) -> None:
        """The key, or its name."""
        if messages.phase is not Phase.ENCRYPTION_KEY:
            raise MalformedMessageError(f"a sender must get keys alone; found {messages.phase.label}")
        self._called = np.union1d(self._called, self._take_keys(messages))

    def turn(self) -> Iterable[Messages]:
        """Vectors of those who hold the key, some at a time."""
        called, rows, step = self._called, self._rows, self._step
        if not len(called) or rows is None or step is None:
            return ()
        self._rows, self._called = None, np.zeros(0, dtype=np.int64)
        return self._sent(called, rows, step)

    def _sent(self, called: Ids, rows: Integers, step: Step) -> Iterator[Messages]:
        """Ciphertexts sender by sender, in the order of the topology."""
        order = self._plan.senders[np.isin(self._plan.senders, self.parties)]
        places = np.flatnonzero(np.isin(order, called))
        for first in range(0, len(places), self._plan.messages_at_once):
            some = places[first : first + self._plan.messages_at_once]
            made = (encrypted(self._key(int(order[at])), rows[at]) for at in some.tolist())
            fields = ciphertext_fields(made, len(some), self._plan.count, self._plan.parameters)
            yield Messages(Phase.CIPHERTEXTS, step, order[some], np.full(len(some), self._plan.aggregator), fields)

    def _key(self, party: int) -> PublicKey:
        key = self._key_of(party)
        assert key is not None, "only those are called who hold it"
        return key

    def _own_state(self) -> State:
        return {"called": self._called, **optional("rows", self._rows), **self._held_fields()}

    def _restore_own(self, state: State) -> None:
        called = field_of(state, "called")
        self._restore_held(state)
        self._called, self._rows = called, state.get("rows")


class Aggregator(Role):
    """The one who adds whole vectors as they come, and keeps the sums alone."""

    def __init__(self, parties: Ids, plan: Plan, ring: KeyRing) -> None:
        super().__init__(parties, plan, ring)
        self._sums: RunningSums | None = None
        self._included = np.zeros(len(plan.senders), dtype=np.bool_)
        self._news = self._sent = False

    def _start(self, rows: Array | None) -> None:  # noqa: ARG002  # it brings none
        self._sums, self._news, self._sent = None, False, False
        self._included = np.zeros(len(self._plan.senders), dtype=np.bool_)

    @property
    def included(self) -> Ids | None:
        """Whose vectors are in the sum, once it is sent."""
        return self._plan.senders[self._included] if self._sent else None

    def take(self, messages: Messages) -> None:
        """The key, or vectors: each that is good is added at once."""
        if messages.phase is Phase.ENCRYPTION_KEY:
            able = self._take_keys(messages)
            key = self._key_of(self._plan.aggregator)
            if len(able) and key is not None and self._sums is None:
                self._sums = RunningSums(key, self._plan.count)
            return
        self._check(messages, None)
        if messages.phase is not Phase.CIPHERTEXTS or self._sums is None or self._sent:
            raise ProtocolError(f"aggregator must have the key, and get ciphertexts once; found {messages.phase.label}")
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        places = np.flatnonzero(np.isin(messages.senders, self._plan.senders))
        if len(places) < len(messages):
            raise ProtocolError("ciphertexts must come from senders of this sum; found another party's")
        for row, sender in enumerate(messages.senders.tolist()):
            self._add(messages, row, sender, self._sums)

    def _add(self, messages: Messages, row: int, sender: int, sums: RunningSums) -> None:
        """One vector; what repeats one changes nothing."""
        place = int(np.flatnonzero(self._plan.senders == sender)[0])
        if self._included[place]:
            return
        try:
            sums.add(ciphertexts_of(messages, row))
        except ProtocolError as error:
            self.remark(messages.step, sender, f"its ciphertexts are refused: {error}")
            return
        self._included[place] = self._news = True

    def turn(self) -> Iterable[Messages]:
        """The sum, when the vectors are in."""
        if not self._news or self._sums is None or self._step is None or self._sent:
            return ()
        plan, left = self._plan, int(self._included.sum())
        for sender in plan.senders[~self._included].tolist():
            self.remark(self._step, sender, "its ciphertexts did not all arrive, so its vector is left out")
        least = min(LEAST_TERMS, len(plan.senders))
        if left < least:
            self._news = False
            raise ProtocolError(f"a sum must have at least {least} terms; found {left}, the other senders dropped out")
        fields = ciphertext_fields([self._sums.to_bytes()], 1, plan.count, plan.parameters)
        fields[INCLUDED] = self._included[None].astype(np.uint8)
        self._sums, self._sent = None, True
        ends = np.array([plan.aggregator]), np.array([plan.receiver])
        return (Messages(Phase.CIPHERTEXT_SUMS, self._step, *ends, fields),)

    def _own_state(self) -> State:
        totals = [] if self._sums is None else self._sums.to_bytes()
        marks = np.array([self._sums is not None, self._news, self._sent])
        return {"marks": marks, "included": self._included, **byte_fields("totals", totals), **self._held_fields()}

    def _restore_own(self, state: State) -> None:
        adding, news, sent = (bool(mark) for mark in field_of(state, "marks"))
        totals, included = bytes_of(state, "totals"), field_of(state, "included").astype(np.bool_)
        self._restore_held(state)
        key = self._key_of(self._plan.aggregator)
        self._sums = RunningSums.restored(key, self._plan.count, totals) if adding and key is not None else None
        self._included, self._news, self._sent = included, news, sent


class Receiver(Role):
    """The one who holds the key: it names it to the others, gives it to those who lack it, and decrypts the sum."""

    def __init__(self, parties: Ids, plan: Plan, ring: KeyRing) -> None:
        super().__init__(parties, plan, ring)
        name = plan.receiver, plan.parameters
        if name not in ring.pairs:
            ring.pairs[name] = ReceiverKey.generate(plan.parameters)
        self._told = ring.told.setdefault(name, set())
        self._asked = False
        self._ciphertexts: Sequence[bytes] | None = None
        self._included: Ids | None = None
        self._total: Integers | None = None

    def __repr__(self) -> str:
        return f"Receiver(ckks, party={self._plan.receiver}, <secrets>)"

    @property
    def _pair(self) -> ReceiverKey:
        return self._ring.pairs[self._plan.receiver, self._plan.parameters]

    def _start(self, rows: Array | None) -> None:  # noqa: ARG002  # it brings none
        if self._asked and self._total is None:
            self._told.clear()  # there was no sum: perhaps somebody lacks the key
        self._asked, self._ciphertexts, self._included, self._total = False, None, None, None

    @property
    def sums(self) -> Array | None:
        """Int64 [1, length], the exact sum."""
        return None if self._total is None else self._total[None]

    @property
    def included(self) -> Ids | None:
        """Whose vectors are in the sum, as the aggregator says."""
        return self._included

    def take(self, messages: Messages) -> None:
        """The encrypted sum, once."""
        self._check(messages, self._plan.aggregator)
        if messages.phase is not Phase.CIPHERTEXT_SUMS or self._included is not None or len(messages) != 1:
            raise ProtocolError(f"a receiver must get one sum a step; found {messages.phase.label}")
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        check_field(messages, INCLUDED, np.dtype(np.uint8), (len(self._plan.senders),))
        self._ciphertexts = ciphertexts_of(messages, 0)
        self._included = self._plan.senders[messages[INCLUDED][0] > 0]

    def turn(self) -> Iterable[Messages]:
        """The key at the start, and the decryption at the end."""
        if self._step is None:
            return ()
        if not self._asked:
            self._asked = True
            return tuple(self._calls(self._step))
        if self._ciphertexts is not None:
            waiting, self._ciphertexts = self._ciphertexts, None
            self._total = self._pair.decrypt(waiting, self._plan.length)
            included = set() if self._included is None else set(self._included.tolist())
            self._told &= {*included, self._plan.aggregator}  # who is missing may lack the key
        return ()

    def _calls(self, step: Step) -> Iterator[Messages]:
        others, pair = self._plan.others, self._pair
        lacking = np.array([party not in self._told for party in others.tolist()], dtype=np.bool_)
        name = np.frombuffer(pair.public.fingerprint, dtype=np.uint8)
        key = np.frombuffer(pair.public_context(), dtype=np.uint8)
        for flags, extra in ((lacking, {KEY: key}), (~lacking, {})):
            to = others[flags]
            fields = {
                what: np.broadcast_to(row, (len(to), len(row))) for what, row in {FINGERPRINT: name, **extra}.items()
            }
            if len(to):
                yield Messages(Phase.ENCRYPTION_KEY, step, np.full(len(to), self._plan.receiver), to, fields)
        self._told |= set(others.tolist())

    def _own_state(self) -> State:
        return {
            "asked": np.array([self._asked]),
            "told": np.array(sorted(self._told), dtype=np.int64),
            **byte_fields("pair", [self._pair.secret_file()]),
            **byte_fields("waiting", self._ciphertexts or []),
            **optional("included", self._included),
            **optional("total", self._total),
        }

    def _restore_own(self, state: State) -> None:
        (data,), waiting = bytes_of(state, "pair"), bytes_of(state, "waiting")
        asked, told = bool(field_of(state, "asked").any()), field_of(state, "told").tolist()
        try:
            self._ring.pairs[self._plan.receiver, self._plan.parameters] = ReceiverKey.from_secret_file(data)
        except InputError as error:
            raise MalformedMessageError("state must hold a whole key; it does not") from error
        self._told.clear()
        self._told |= set(told)
        self._asked, self._ciphertexts = asked, waiting or None
        self._included, self._total = state.get("included"), state.get("total")
