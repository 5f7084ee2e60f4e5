"""The roles of a sum under the receiver's key: it leads, senders encrypt, another party adds what it cannot read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fgl_secure.crypto.ckks import FINGERPRINT_BYTES, PublicKey, ReceiverKey, RunningSums, wire_bytes
from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.ckks.wire import (
    CIPHERTEXTS,
    SIZES,
    CkksPlan,
    check_ciphertexts,
    check_field,
    ciphertext_fields,
    ciphertexts_of,
    encrypt,
    pad,
    public_bytes,
    public_key,
    secret_bytes,
    secret_keys,
    unpad,
)
from fgl_secure.protocols.secagg.server import ResponseTracker
from fgl_secure.protocols.secagg.terms import AggregationMachine, Stage, bytes_of, each_row, flags_of
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array, Ids, Integers

KEY, KEY_SIZE, FINGERPRINT, INCLUDED = "key", "key size", "fingerprint", "included"
"""Fields beside those of `wire`."""

_NOBODY: Ids = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ReceiverKeyPlan(CkksPlan):
    """What every party knows of the sums of one topology.

    Attributes:
        batch_bytes: most bytes of one batch of messages, except for one message.
    """

    batch_bytes: int

    @property
    def others(self) -> Ids:
        """Every party but the receiver, ascending."""
        return np.unique([self.terms.server, *self.terms.clients.tolist()]).astype(np.int64)

    @property
    def messages_at_once(self) -> int:
        """Vectors in one batch."""
        return max(1, self.batch_bytes // (self.count * wire_bytes(self.parameters)))


@dataclass(slots=True, eq=False)
class KeyRing:
    """Keys that the parties of one process hold, for all sums that they take part in.

    Attributes:
        pairs: of receivers hosted, by receiver and parameters.
        notified: the parties that each receiver has sent its public key.
        held: public keys, by holder, receiver and parameters.
    """

    pairs: dict[tuple[int, Parameters], ReceiverKey] = field(default_factory=dict, repr=False)
    notified: dict[tuple[int, Parameters], set[int]] = field(default_factory=dict)
    held: dict[tuple[int, int, Parameters], PublicKey] = field(default_factory=dict)


class _KeyHolders(AggregationMachine):
    """What those have in common who are given the receiver's public key.

    Args:
        parties: int64 [k], those hosted, ascending.
        plan: of the sums.
        ring: of their process.
    """

    def __init__(self, parties: Ids, plan: ReceiverKeyPlan, ring: KeyRing) -> None:
        super().__init__(parties, plan.terms, plan.digest, 0)
        self._plan, self._ring = plan, ring

    def _take_keys(self, messages: Messages) -> Ids:
        """Keeps public keys that came; says which hosted parties hold the one that the receiver names.

        Raises:
            ProtocolError: messages are not what a receiver sends.
        """
        plan, names = self._plan, bytes_of(messages, FINGERPRINT, FINGERPRINT_BYTES)
        self._check_from(messages, plan.terms.receiver)
        if KEY in messages.fields:
            check_field(messages, KEY_SIZE, np.dtype(np.uint32), (1,))
            rows = bytes_of(messages, KEY, public_bytes(plan.parameters))
            files = unpad(rows, messages[KEY_SIZE][:, 0], "public keys")
            result = {data: public_key(data, plan.parameters) for data in set(files)}
            if any(result[data].fingerprint != name.tobytes() for data, name in zip(files, names, strict=True)):
                raise ProtocolError("a key must be the one that is named with it; found another")
            for party, data in zip(messages.receivers.tolist(), files, strict=True):
                self._ring.held[party, plan.terms.receiver, plan.parameters] = result[data]
        named = zip(messages.receivers.tolist(), names, strict=True)
        return messages.receivers[[self._holds(party, row.tobytes()) for party, row in named]]

    def _holds(self, party: int, fingerprint: bytes) -> bool:
        key = self._key_of(party)
        return key is not None and key.fingerprint == fingerprint

    def _key_of(self, party: int) -> PublicKey | None:
        return self._ring.held.get((party, self._plan.terms.receiver, self._plan.parameters))

    def _arrays(self) -> dict[str, Array]:
        held = [(party, key) for party in self.parties.tolist() if (key := self._key_of(party)) is not None]
        rows, sizes = pad([key.to_bytes() for _, key in held], public_bytes(self._plan.parameters))
        holders = np.array([party for party, _ in held], dtype=np.int64)
        return {**super()._arrays(), "holders": holders, "keys": rows, "key sizes": sizes}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        files = unpad(arrays["keys"], arrays["key sizes"], "public keys")
        keys = [public_key(data, self._plan.parameters) for data in files]
        for party in self.parties.tolist():
            self._ring.held.pop((party, self._plan.terms.receiver, self._plan.parameters), None)
        for party, key in zip(arrays["holders"].tolist(), keys, strict=True):
            self._ring.held[party, self._plan.terms.receiver, self._plan.parameters] = key


class EncryptingSenders(_KeyHolders):
    """Those who bring vectors, and encrypt them when the receiver names the key."""

    def __init__(self, parties: Ids, plan: ReceiverKeyPlan, ring: KeyRing) -> None:
        super().__init__(parties, plan, ring)
        self._rows: Integers | None = None
        self._called = self._answered = _NOBODY

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        if rows is None:
            raise InputError(f"rows must be given where {len(self.parties)} senders are hosted; found None")
        self.terms.check_rows(rows, len(self.parties), None)
        self._start_step(step)
        self._rows, self._called, self._answered = rows, _NOBODY, _NOBODY

    def receive(self, messages: Messages) -> None:
        """The key, or its name."""
        self._check_head(messages, {Phase.ENCRYPTION_KEY: None}, Phase.ENCRYPTION_KEY)
        again = np.isin(messages.receivers, np.union1d(self._called, self._answered))
        if again.any():
            raise ProtocolError(
                f"party {messages.receivers[again][0]} must be notified of one key a sum; found a second"
            )
        self._called = np.union1d(self._called, self._take_keys(messages))

    def step(self) -> Iterable[Messages]:
        """Vectors of those who hold the key, some at a time."""
        called, rows = self._called, self._rows
        if not len(called) or rows is None:
            return ()
        self._used_up()
        self._called, self._answered = _NOBODY, np.union1d(self._answered, called)
        if len(self._answered) == len(self.parties):
            self._rows = None
        return self._send_ciphertexts(called, rows, self.now)

    def _send_ciphertexts(self, called: Ids, rows: Integers, step: Step) -> Iterator[Messages]:
        """Ciphertexts sender by sender, in the order of the topology."""
        order = self.terms.clients[np.isin(self.terms.clients, self.parties)]
        places = np.flatnonzero(np.isin(order, called))
        for first in range(0, len(places), self._plan.messages_at_once):
            chunk = places[first : first + self._plan.messages_at_once]
            made = (encrypt(self._key(int(order[index])), rows[index]) for index in chunk.tolist())
            fields = ciphertext_fields(made, len(chunk), self._plan.count, self._plan.parameters)
            yield Messages(Phase.CIPHERTEXTS, step, order[chunk], np.full(len(chunk), self.terms.server), fields)

    def _key(self, party: int) -> PublicKey:
        key = self._key_of(party)
        assert key is not None, "only those are called who hold it"
        return key

    def _arrays(self) -> dict[str, Array]:
        rows = np.zeros((0, self.terms.length), dtype=np.int64) if self._rows is None else self._rows
        return {**super()._arrays(), "called": self._called, "told": self._answered, "rows": rows}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._called, self._answered = arrays["called"], arrays["told"]
        self._rows = arrays["rows"] if len(arrays["rows"]) else None


class Aggregator(_KeyHolders):
    """The one who adds whole vectors as they come, and keeps the sums alone."""

    def __init__(self, parties: Ids, plan: ReceiverKeyPlan, ring: KeyRing) -> None:
        super().__init__(parties, plan, ring)
        self._tracker = ResponseTracker(plan.terms)
        self._adding: RunningSums | None = None
        self._included = np.zeros(plan.terms.n, dtype=np.bool_)

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._unexpected_rows(rows)
        self._start_step(step)
        self._tracker.go(None)
        self._adding, self._included = None, np.zeros(self.terms.n, dtype=np.bool_)

    @property
    def over(self) -> bool:
        """See `SumMachine.over`."""
        return self._step is None

    @property
    def contributors(self) -> Ids | None:
        """Whose vectors are in the sum, once it is sent."""
        return self.terms.clients[self._included] if self._included.any() else None

    def receive(self, messages: Messages) -> None:
        """The key, or vectors: each that is good is added at once."""
        adding = self._adding
        due = Phase.ENCRYPTION_KEY if adding is None else Phase.CIPHERTEXTS
        self._check_head(messages, {Phase.ENCRYPTION_KEY: None, Phase.CIPHERTEXTS: None}, due)
        if adding is None:
            able, key = self._take_keys(messages), self._key_of(self.terms.server)
            if not len(able) or key is None:
                raise ProtocolError(f"the aggregator must hold the key that the receiver names; party {able} does not")
            self._adding = RunningSums(key, self._plan.count)
            self._tracker.go(Stage.VECTORS)
            return
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)

        def one(row: int) -> None:
            client = self.terms.place_of(int(messages.senders[row]))
            self._tracker.check(client)
            adding.add(ciphertexts_of(messages, row))
            self._tracker.note(client)

        each_row(self, messages, one)

    def step(self) -> Iterable[Messages]:
        """The sum, when the vectors are in.

        Raises:
            TooFewClientsError: fewer than the threshold have come.
        """
        adding, here = self._adding, self._tracker
        if here.stage is None or adding is None or not here.ready():
            return ()
        here.require(int(here.answered.sum()))
        self._included = here.answered.copy()
        for sender in self.terms.clients[~self._included].tolist():
            self.remark(self.now, sender, "its ciphertexts did not all arrive, so its vector is left out")
        fields = ciphertext_fields([adding.to_bytes()], 1, self._plan.count, self._plan.parameters)
        ends = np.array([self.terms.server]), np.array([self.terms.receiver])
        step, self._adding, self._step = self.now, None, None
        here.go(None)
        return (Messages(Phase.CIPHERTEXT_SUMS, step, *ends, {**fields, INCLUDED: self._included[None]}),)

    def _arrays(self) -> dict[str, Array]:
        totals = [] if self._adding is None else self._adding.to_bytes()
        laid = ciphertext_fields([totals] if totals else [], int(bool(totals)), self._plan.count, self._plan.parameters)
        marks = {"adding": np.array([self._adding is not None]), "included": self._included}
        return {**super()._arrays(), **self._tracker.arrays(), **marks, **laid}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        rows, key = arrays[CIPHERTEXTS], self._key_of(self.terms.server)
        totals = unpad(rows[0], arrays[SIZES][0], "ciphertexts") if len(rows) else []
        adding = arrays["adding"][0] and key is not None
        self._adding = RunningSums.restore(key, self._plan.count, totals) if adding and key is not None else None
        self._included = arrays["included"]
        self._tracker.restore(arrays)


class KeyReceiver(AggregationMachine):
    """The one who holds the key: it names it to the others, gives it to those who lack it, and decrypts the sum.

    Args:
        parties: int64 [1].
        plan: of the sums.
        ring: of its process.
    """

    def __init__(self, parties: Ids, plan: ReceiverKeyPlan, ring: KeyRing) -> None:
        super().__init__(parties, plan.terms, plan.digest, 0)
        self._plan, self._ring, self._name = plan, ring, (plan.terms.receiver, plan.parameters)
        if self._name not in ring.pairs:
            ring.pairs[self._name] = ReceiverKey.generate(plan.parameters)
        self._forwarded = ring.notified.setdefault(self._name, set())
        self._speaks = False
        self._ciphertexts: Sequence[bytes] = ()
        self._included = np.zeros(plan.terms.n, dtype=np.bool_)

    @property
    def _pair(self) -> ReceiverKey:
        return self._ring.pairs[self._name]

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`."""
        self._unexpected_rows(rows)
        if self._step is not None and not self._speaks:
            self._forwarded.clear()  # there was no sum: perhaps a party lacks the key
        self._start_step(step)
        self._speaks, self._ciphertexts, self._included = True, (), np.zeros(self.terms.n, dtype=np.bool_)

    @property
    def contributors(self) -> Ids | None:
        """Whose vectors are in the sum, as the aggregator says."""
        return self.terms.clients[self._included] if self._included.any() else None

    def receive(self, messages: Messages) -> None:
        """The encrypted sum, once."""
        self._check_head(messages, {Phase.CIPHERTEXT_SUMS: None}, None if self._speaks else Phase.CIPHERTEXT_SUMS)
        self._check_from(messages, self.terms.server)
        check_ciphertexts(messages, self._plan.count, self._plan.parameters)
        included = flags_of(messages, INCLUDED, self.terms.n)
        if len(messages) != 1 or self._ciphertexts or int(included.sum()) < self.terms.threshold:
            raise ProtocolError(
                f"a receiver must be told once of a sum of at least {self.terms.threshold} vectors; found "
                f"{len(messages)} messages, of {int(included.sum())}"
            )
        self._ciphertexts, self._included = ciphertexts_of(messages, 0), included[0].copy()

    def step(self) -> Iterable[Messages]:
        """The key at the start, and the decryption at the end.

        Raises:
            ProtocolError: what came is no sum under the key.
        """
        if self._speaks:
            self._speaks = False
            return tuple(self._calls())
        if self._ciphertexts:
            waiting, self._ciphertexts = self._ciphertexts, ()
            self._sums = self._pair.decrypt(waiting, self.terms.length)[None]
            self._used_up()
            # Others may lack the key.
            self._forwarded &= {*self.terms.clients[self._included].tolist(), self.terms.server}
            self._step = None
        return ()

    def _calls(self) -> Iterator[Messages]:
        others, pair = self._plan.others, self._pair
        lacking = np.array([party not in self._forwarded for party in others.tolist()], dtype=np.bool_)
        name = np.frombuffer(pair.public.fingerprint, dtype=np.uint8)[None]
        key, size = pad([pair.public_context()], public_bytes(self._plan.parameters))
        complete_key: dict[str, Array] = {FINGERPRINT: name, KEY: key, KEY_SIZE: size[:, None]}
        for flags, values in ((lacking, complete_key), (~lacking, {FINGERPRINT: name})):
            to = others[flags]
            fields = {field: np.broadcast_to(row, (len(to), row.shape[1])) for field, row in values.items()}
            if len(to):
                yield Messages(Phase.ENCRYPTION_KEY, self.now, np.full(len(to), self.terms.receiver), to, fields)
        self._forwarded |= set(others.tolist())

    def _arrays(self) -> dict[str, Array]:
        file, size = pad([self._pair.secret_file()], secret_bytes(self._plan.parameters))
        waiting = [self._ciphertexts] if self._ciphertexts else []
        return {
            **super()._arrays(),
            "pair": file,
            "pair size": size,
            "told": np.array(sorted(self._forwarded), dtype=np.int64),
            "speaks": np.array([self._speaks]),
            "included": self._included,
            **ciphertext_fields(waiting, len(waiting), self._plan.count, self._plan.parameters),
        }

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        (pair,) = secret_keys(arrays["pair"], arrays["pair size"])
        rows = arrays[CIPHERTEXTS]
        self._ciphertexts = unpad(rows[0], arrays[SIZES][0], "ciphertexts") if len(rows) else ()
        self._ring.pairs[self._name] = pair
        self._forwarded.clear()
        self._forwarded |= set(arrays["told"].tolist())
        self._speaks, self._included = bool(arrays["speaks"][0]), arrays["included"]
