"""Sums over clients under CKKS, as FedStruct App. D asks: the receiver holds the key, the aggregator adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np

from fgl_secure.crypto.ckks import Adder, PublicKey, ReceiverKey, wire_bytes
from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.ckks_claim import CKKS_CLAIM
from fgl_secure.protocols.ckks_roles import (
    FRAME_BYTES,
    aggregator_totals,
    arrivals,
    framed,
    sender_ciphertexts,
    unframe,
)
from fgl_secure.protocols.vector_sum import (
    Ids,
    Integers,
    VectorGroup,
    VectorScheme,
    VectorSession,
    check_range,
    check_rows,
)
from fgl_secure.runtime import Channel, Claim, Delivery, Phase, PublicParameters, Step

BATCH_BYTES = 2**28
"""Most bytes of one batch of messages: longer vectors take several."""
PART_STRIDE = 2**16
"""Batch b of a sum at part p is sent at part p + b * PART_STRIDE, so that a caller's own parts stay apart."""
LEAST_TERMS = 2
"""Sums to which fewer senders are left are refused, unless there was but one from the start."""


@dataclass(slots=True, eq=False)
class _Keys:
    """A receiver's key pair, and what the others got of it.

    Attributes:
        pair: the receiver's alone.
        held: by party, the public key as it arrived.
    """

    pair: ReceiverKey
    held: dict[int, PublicKey]


_KeysOfChannel = dict[tuple[int, Parameters], _Keys]


@dataclass(frozen=True, slots=True)
class CkksVectors(VectorScheme):
    """Each receiver makes a key pair; senders encrypt, an aggregator adds, the receiver decrypts and rounds.

    A receiver sends its public key once to each party of a channel, and serves all its sums of equal parameters with
    it. The channel's coins aren't used: SEAL draws its own.

    Attributes:
        batch_bytes: most bytes of one batch of messages, which is what is held in memory at once beside one
            sender's ciphertexts and the sums.
    """

    batch_bytes: int = BATCH_BYTES
    _keys: WeakKeyDictionary[Channel, _KeysOfChannel] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """`ckks`."""
        return "ckks"

    @property
    def claim(self) -> Claim:
        """Computational secrecy of terms against the aggregator alone and against the receiver alone."""
        return CKKS_CLAIM

    @property
    def public(self) -> PublicParameters:
        """No field and no masks."""
        return PublicParameters()

    def limit(self, terms: int) -> int:
        """Where the proved bound of the error reaches 1/2."""
        return limit(terms)

    def open(self, channel: Channel, group: VectorGroup, length: int, bound: int) -> VectorSession:
        """Makes the receiver's key pair where it has none yet, and sends its public part to those who lack it.

        A bound well below `limit(terms) / terms` lets one number carry several entries.

        Raises:
            InputError: the aggregator is the receiver, or the channel's coins are tapes, which SEAL doesn't take.
            ProtocolError: the key doesn't reach the aggregator.
        """
        check_range(self, len(group.senders), length, bound)
        if group.aggregator == group.receiver:
            raise InputError(f"aggregator must not be the receiver, which holds the key; found {group.aggregator}")
        if channel.batch_shape:
            raise InputError(f"coins of the channel must be those of one run; found tapes {channel.batch_shape}")
        parameters = Parameters.for_sums(len(group.senders), bound, length=length)
        keys = self._keys.setdefault(channel, {})
        if (group.receiver, parameters) not in keys:
            keys[group.receiver, parameters] = _Keys(ReceiverKey.generate(parameters), {})
        return _CkksSession(channel, group, length, keys[group.receiver, parameters], self.batch_bytes)


class _CkksSession(VectorSession):
    def __init__(self, channel: Channel, group: VectorGroup, length: int, keys: _Keys, batch_bytes: int) -> None:
        self._channel, self._group, self._length, self._keys = channel, group, length, keys
        self._parameters = keys.pair.parameters
        self._message_bytes = FRAME_BYTES + wire_bytes(self._parameters)
        self._most = max(1, batch_bytes // self._message_bytes)
        self._done: set[Step] = set()
        self._hand_out()

    def sum(self, rows: Integers, step: Step) -> Integers:
        check_rows(rows, len(self._group.senders), self._length, self._parameters.bound)
        if step in self._done:
            raise InputError(f"a step must have one sum; found {step} again")
        self._done.add(step)
        return self._received(self._added(self._sent(rows, step), step), step)

    def _hand_out(self) -> None:
        """The receiver's part: its public key to those who don't hold it."""
        others = np.unique([self._group.aggregator, *self._group.senders]).astype(np.int64)
        lacking = others[[party not in self._keys.held for party in others.tolist()]]
        if len(lacking):
            context = np.frombuffer(self._keys.pair.public_context(), dtype=np.uint8)
            payload = np.broadcast_to(context, (len(lacking), len(context)))
            arrived = self._channel.send(Phase.ENCRYPTION_KEY, Step(0), self._receivers(lacking), lacking, payload)
            self._keys.held.update(
                (party, PublicKey.from_bytes(data)) for party, data in arrivals(arrived, arrived.receivers)
            )
        if self._group.aggregator not in self._keys.held:
            raise ProtocolError(f"aggregator {self._group.aggregator} must have the receiver's key; it didn't arrive")

    def _sent(self, rows: Integers, step: Step) -> Iterator[Delivery]:
        """The senders' part: ciphertexts sender by sender, in batches."""
        held, needed = self._keys.held, self._parameters.ciphertexts(self._length)
        able = [(sender, row) for sender, row in zip(self._group.senders.tolist(), rows, strict=True) if sender in held]
        senders = np.repeat(np.array([sender for sender, _ in able], dtype=np.int64), needed)
        messages = (message for sender, row in able for message in enumerate(sender_ciphertexts(held[sender], row)))
        for number, first in enumerate(range(0, len(senders), self._most)):
            ids = senders[first : first + self._most]
            to = np.full(len(ids), self._group.aggregator, dtype=np.int64)
            payload = framed(messages, len(ids), self._message_bytes)
            yield self._channel.send(Phase.CIPHERTEXTS, _batch_step(step, number), ids, to, payload)

    def _added(self, deliveries: Iterator[Delivery], step: Step) -> list[bytes]:
        """The aggregator's part: adds whole vectors only, and drops senders of whom anything is missing."""
        adder, needed = Adder(self._keys.held[self._group.aggregator]), self._parameters.ciphertexts(self._length)
        held: dict[int, dict[int, bytes]] = {sender: {} for sender in self._group.senders.tolist()}
        totals: list[bytes] = []
        for delivery in deliveries:
            for sender, message in arrivals(delivery, delivery.senders):
                position, data = unframe(message, self._message_bytes)
                if sender in held:  # a whole vector is in the sum already, and what repeats it changes nothing
                    held[sender].setdefault(position, data)
            whole = [sender for sender, found in held.items() if found.keys() >= set(range(needed))]
            totals = aggregator_totals(adder, totals, [held.pop(sender) for sender in whole], needed)
        for sender in held:
            self._channel.note_incident(step, sender, "its ciphertexts did not all arrive, so its vector is left out")
        least, left = min(LEAST_TERMS, len(self._group.senders)), len(self._group.senders) - len(held)
        if left < least:
            raise ProtocolError(f"a sum must have at least {least} terms; found {left}, the other senders dropped out")
        return totals

    def _received(self, totals: list[bytes], step: Step) -> Integers:
        """Aggregator to receiver, who decrypts batch by batch."""
        entries, sums = self._parameters.entries, np.empty(self._length, dtype=np.int64)
        messages = enumerate(totals)
        for number, first in enumerate(range(0, len(totals), self._most)):
            positions = range(first, min(first + self._most, len(totals)))
            ids = np.full(len(positions), self._group.aggregator, dtype=np.int64)
            payload, at = framed(messages, len(ids), self._message_bytes), _batch_step(step, number)
            arrived = self._channel.send(Phase.CIPHERTEXT_SUMS, at, ids, self._receivers(ids), payload)
            found = dict(unframe(message, self._message_bytes) for _, message in arrivals(arrived, arrived.senders))
            if sorted(found) != list(positions):
                raise ProtocolError(f"all {len(ids)} sums of a batch must reach the receiver; found {len(found)}")
            part = slice(first * entries, positions.stop * entries)
            sums[part] = self._keys.pair.decrypt([found[position] for position in positions], len(sums[part]))
        return sums

    def _receivers(self, like: Ids) -> Ids:
        return np.full(len(like), self._group.receiver, dtype=np.int64)


def _batch_step(step: Step, number: int) -> Step:
    return replace(step, part=step.part + number * PART_STRIDE)
