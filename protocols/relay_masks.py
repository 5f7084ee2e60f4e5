"""Where the masks of the relay-coded scheme come from, and why none of them is used twice.

A mask is named by its session, sender, relay, round, layer, part, direction, attempt and slot. Session, sender and
relay are in the key; all but the slot are in the nonce; the slot is the place in the stream behind it. A slot stands
for one target, so the target's tag is bound to the mask as well: nobody uses a slot for two tags in one step.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.crypto.streams import KeyedStreams
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.relay_delivery import carried
from fgl_secure.runtime import Channel, Direction, Phase, Step

Ids = NDArray[np.int64]

_NONCE = struct.Struct(">IHIBBI")
_SETUP = Step(0)


def mask_nonce(step: Step, attempt: int = 0) -> bytes:
    """The counter block at which the masks of a step begin, 16 bytes; different for different steps and attempts.

    Args:
        step: round below 2^32, layer -1 to 2^16 - 2, part below 2^32.
        attempt: 0, or how often a message was made anew (not resent) in this step, below 256.
    """
    kind = 2 * (step.direction is Direction.BACKWARD) + step.evaluation
    try:
        return _NONCE.pack(step.round, step.layer + 1, step.part, kind, attempt, 0)
    except struct.error as error:
        raise InputError(
            f"step must have round < 2^32, layer in -1..65534, part < 2^32 and attempt < 256; found {step}, {attempt}"
        ) from error


class MaskSupply(ABC):
    """Masks of one session."""

    @property
    @abstractmethod
    def expanded(self) -> int:
        """How many relays, from the first on, expand their shares themselves."""

    @abstractmethod
    def openings(self, step: Step, owners: Ids) -> Ids:
        """Fresh openings of tags: int64 [g, 2], one for each group, known to its owner alone."""

    @abstractmethod
    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        """T arrays of masks, elements [*batch, m, width], for messages in ascending order of sender and slot.

        Args:
            step: when they are used; a step is asked for once.
            senders: int64 [m], ascending party identifiers.
            width: coordinates of each row.
        """


@dataclass(frozen=True, slots=True, eq=False)
class KeyAgreement:
    """The keys that senders and relays agreed on.

    Attributes:
        senders: int64 [s], ascending party identifiers.
        streams: for each of the first T relays, one stream a sender.
    """

    senders: Ids
    streams: tuple[KeyedStreams, ...]

    @classmethod
    def between(cls, channel: Channel, senders: Ids, relays: Ids) -> KeyAgreement:
        """Exchanges public keys over the channel, which must authenticate the relays', and derives a key a pair."""
        session = channel.coins.uniform(256, (16,)).astype(np.uint8).tobytes()
        own = _key_pairs(channel, senders)
        theirs = _key_pairs(channel, relays)
        relay_keys = _sent_keys(channel, relays, senders, theirs)
        _sent_keys(channel, senders, relays, own)
        streams = []
        for j, relay in enumerate(relays.tolist()):
            heard = relay_keys[j].tobytes()
            keys = [
                pair.agree(heard, session=session, context=mask_context(pair.public, heard, sender, relay))
                for pair, sender in zip(own, senders.tolist(), strict=True)
            ]
            streams.append(KeyedStreams(keys))
        return cls(senders, tuple(streams))


def mask_context(sender_key: bytes, relay_key: bytes, sender: int, relay: int) -> bytes:
    """Says what a key is for and between whom: fixed lengths, so that no two pairs share a context.

    Args:
        sender_key: its public key.
        relay_key: that of the relay.
        sender: party identifier.
        relay: party identifier.
    """
    return b"fgl-secure relay-coded/v1 mask" + sender_key + relay_key + struct.pack(">QQ", sender, relay)


def _key_pairs(channel: Channel, owners: Ids) -> list[KeyPair]:
    private = channel.draw("private keys", owners, 256, (KEY_BYTES,)).astype(np.uint8)
    return [KeyPair(row.tobytes()) for row in private]


def _sent_keys(channel: Channel, senders: Ids, receivers: Ids, pairs: list[KeyPair]) -> NDArray[np.uint8]:
    """Every sender's public key to every receiver; the keys, uint8 [senders, 32].

    Raises:
        ProtocolError: a key did not arrive, or not as it was sent.
    """
    keys = np.frombuffer(b"".join(pair.public for pair in pairs), dtype=np.uint8).reshape(len(pairs), PUBLIC_KEY_BYTES)
    rows = np.repeat(np.arange(len(senders)), len(receivers))
    sent = (senders[rows], np.tile(receivers, len(senders)))
    delivery = carried(channel, Phase.KEYS, _SETUP, *sent, keys[rows])
    lost = np.setdiff1d(np.arange(len(rows)), np.arange(len(rows)) if delivery.rows is None else delivery.rows)
    if len(lost):
        sender, receiver = (channel.parties.party_of(int(ends[lost[0]])) for ends in sent)
        raise ProtocolError(f"public keys must arrive before the first sum; that of {sender} did not reach {receiver}")
    return keys


class AgreedMasks(MaskSupply):
    """Masks from the keys that each sender shares with each of the first T relays."""

    def __init__(self, channel: Channel, field: PrimeField, keys: KeyAgreement) -> None:
        self._channel, self._field, self._keys = channel, field, keys

    @property
    def expanded(self) -> int:
        """All T relays whose shares are masks."""
        return len(self._keys.streams)

    def openings(self, step: Step, owners: Ids) -> Ids:
        """Drawn by each owner."""
        return self._channel.draw("openings", owners, 2**63, (2,), step)

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        """Read from the streams at the nonce of the step."""
        return agreed_masks(self._keys, self._field, step, senders, width)


def agreed_masks(keys: KeyAgreement, field: PrimeField, step: Step, senders: Ids, width: int) -> list[Elements]:
    """What a sender, or a relay in its place, expands keys into.

    Args:
        keys: of senders and relays.
        field: of the masks.
        step: when they are used.
        senders: int64 [m], ascending, of all messages of each of them, by slot.
        width: coordinates of each row.

    Returns:
        For each relay of the keys elements [m, width].
    """
    place = np.searchsorted(keys.senders, senders)
    counts, nonce = np.bincount(place, minlength=len(keys.senders)) * width, mask_nonce(step)
    return [
        streams.uniform(field.modulus, counts, nonce, field.dtype).reshape(len(senders), width)
        for streams in keys.streams
    ]


class SeededMasks(MaskSupply):
    """Masks from a fresh seed for every message and relay, for senders that must stay unnamed."""

    SEED_WORDS = 4

    def __init__(self, channel: Channel, field: PrimeField, T: int) -> None:
        self._channel, self._field, self._T = channel, field, T
        self.seeds: list[Ids] = []

    @property
    def expanded(self) -> int:
        """All T relays whose shares are masks."""
        return self._T

    def openings(self, step: Step, owners: Ids) -> Ids:
        """Drawn by each owner."""
        return self._channel.draw("openings", owners, 2**63, (2,), step)

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        """Draws T seeds a message, kept in `seeds` for sending: int64 [m, 4], 252 bits each."""
        field, counts = self._field, np.full(len(senders), width)
        draw = self._channel.draw
        self.seeds = [draw("seeds", senders, 2**63, (self.SEED_WORDS,), step) for _ in range(self._T)]
        return [
            KeyedStreams([row.tobytes() for row in seeds])
            .uniform(field.modulus, counts, mask_nonce(step), field.dtype)
            .reshape(len(senders), width)
            for seeds in self.seeds
        ]


class DrawnMasks(MaskSupply):
    """Masks drawn as they are and sent in full: the ideal that the streams stand in for, for enumeration.

    Tags are numbered here, not drawn: no value depends on them.
    """

    def __init__(self, channel: Channel, field: PrimeField, T: int) -> None:
        self._channel, self._field, self._T = channel, field, T
        self._tags = 0

    @property
    def expanded(self) -> int:
        """None: every relay is sent its share."""
        return 0

    def openings(self, step: Step, owners: Ids) -> Ids:  # noqa: ARG002  # numbered across steps
        """The next numbers."""
        first, self._tags = self._tags, self._tags + len(owners)
        numbers = np.arange(first, self._tags)
        return np.stack([numbers, numbers], axis=1)

    def masks(self, step: Step, senders: Ids, width: int) -> list[Elements]:
        """Drawn by each sender."""
        modulus, dtype = self._field.modulus, self._field.dtype
        draw = self._channel.draw
        return [draw("masks", senders, modulus, (width,), step).astype(dtype) for _ in range(self._T)]
