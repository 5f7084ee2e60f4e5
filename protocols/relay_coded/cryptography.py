"""What is cryptographic about relay-coded sums, as one object: keys, masks, tags and names.

A mask is named by its session, sender, relay, round, layer, part, direction, attempt and slot. Session, sender and
relay are in the key; all but the slot are in the nonce; the slot is the place in the stream behind it. A slot stands
for one target, so the target's tag is bound to the mask as well: nobody uses a slot for two tags in one step. Unnamed
senders share no keys with relays, and send each of them a fresh seed with every message instead.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyAgreement, KeyPair, Offer, wrap
from fgl_secure.crypto.streams import KEY_BYTES, KeyedStreams
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.relay_coded.tags import Tags
from fgl_secure.runtime import Direction, Draws, Step
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import Numbers
from fgl_secure.typing import Array, Bytes, Ids

Arrays = Mapping[str, Array]

SEED_WORDS = 4
SEEDS = "seeds"

_NONCE = struct.Struct(">IHIBBI")


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


def mask_context(sender_key: bytes, relay_key: bytes, sender: int, relay: int) -> bytes:
    """Says what a key is for and between whom: fixed lengths, so that no two pairs share a context.

    Args:
        sender_key: what it published; its length tells one key agreement from another.
        relay_key: the X25519 key of the relay.
        sender: party identifier.
        relay: party identifier.
    """
    kind = struct.pack(">H", len(sender_key))
    return b"fgl-secure relay-coded/v2 mask" + kind + sender_key + relay_key + struct.pack(">QQ", sender, relay)


def offers_of(private: Bytes, agreement: KeyAgreement) -> list[Offer]:
    """The keys of senders, from private ones uint8 [s, private bytes]; they take as long to make as to agree on one."""
    return [Offer(row.tobytes(), agreement) for row in private]


def published(offers: Sequence[Offer], agreement: KeyAgreement) -> Bytes:
    """What senders publish: uint8 [s, public bytes]."""
    return _rows([offer.public for offer in offers], agreement.public_bytes)


def answers(private: Bytes, publics: Bytes, secrets: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """What a relay, with its private key uint8 [32], answers senders: its X25519 key and a secret wrapped for each.

    Args:
        private: of the relay.
        publics: uint8 [s, public bytes], of senders.
        secrets: uint8 [s, secret bytes], one for each.

    Returns:
        uint8 [k, 32 + wrapped bytes], and bool [s]: which k senders published keys that can be answered.
    """
    own, found, good = KeyPair(private.tobytes()).public, [], np.ones(len(publics), dtype=np.bool_)
    for at, (public, secret) in enumerate(zip(publics, secrets, strict=True)):
        try:
            found.append(own + wrap(public.tobytes(), secret.tobytes()))
        except ProtocolError:
            good[at] = False
    return _rows(found, len(found[0]) if found else PUBLIC_KEY_BYTES), good


@dataclass(frozen=True, slots=True, eq=False)
class _Expanded:
    """Masks that one process expanded as their sender, and would expand again as their relay."""

    step: Step
    names: Ids
    secrets: Array
    masks: Elements


class Cryptography(ABC):
    """What the parties that one process hosts can do; secrets are theirs and passed in.

    Where a process hosts both ends of a secret, as a simulation does, it works it out once.

    Args:
        field: of the masks.
        T: masks of each message.
        anonymous: whether senders are unnamed.
        session: 16 public bytes, different in every session; None draws them with the keys, where a process hosts all.
        agreement: how keys are agreed on, and what messages are sealed with.

    Attributes:
        agreement: as given.
        tags: of sums.
    """

    unlinkable: ClassVar[bool] = True
    """Whether tags, numbers and orders are fresh and random, so that they tell nobody who sends to whom."""

    def __init__(
        self,
        field: PrimeField,
        T: int,
        *,
        anonymous: bool,
        session: bytes | None = None,
        agreement: KeyAgreement = KeyAgreement.X25519,
    ) -> None:
        self._field, self._T, self._anonymous, self._session = field, T, anonymous, session
        self._both_ends, self.agreement, self.tags = session is None, agreement, Tags()

    def session(self, draws: Draws) -> bytes:
        """The session's name."""
        if self._session is None:
            self._session = bytes(draws.coins.uniform(256, (SESSION_BYTES,)).tolist())
        return self._session

    @property
    def named_session(self) -> Bytes:
        """The session's name for a state: uint8 [16], or empty before it is drawn."""
        return np.frombuffer(self._session or b"", dtype=np.uint8)

    def name_session(self, named: Bytes) -> None:
        """Takes the name from a state."""
        self._session = named.tobytes() or None

    @property
    @abstractmethod
    def keyed(self) -> bool:
        """Whether senders and the first T relays agree on keys before the first sum."""

    @property
    @abstractmethod
    def expanded(self) -> int:
        """How many relays, from the first on, expand their shares themselves."""

    @abstractmethod
    def shuffle(self, draws: Draws, count: int) -> Ids | None:
        """int64 [count], by which messages are put in order once a session; None leaves them in that of groups."""

    @abstractmethod
    def ways(self, draws: Draws, step: Step, silos: Ids, before: int) -> Ids:
        """By way of whom silos hand messages on, and in which order: int64 [m, 2], see `Mixing`.

        Args:
            draws: coins of the silos.
            step: when.
            silos: int64 [m], whose message each is.
            before: how many messages came before these.
        """

    @abstractmethod
    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        """Fresh openings of tags: int64 [g, 2], one for each group, known to its owner alone."""

    @abstractmethod
    def numbers(self, draws: Draws, step: Step, senders: Ids) -> Ids:
        """int64 [m], what the messages of unnamed senders are called, by which they are put in order."""

    @abstractmethod
    def drawn(self, draws: Draws, step: Step, senders: Ids, width: int) -> dict[str, Array]:
        """What senders draw for the masks of a step, kept for messages that are sent again: arrays by name."""

    @abstractmethod
    def masks(
        self, step: Step, senders: Numbers, width: int, drawn: Arrays, keys: Keys | None, places: Ids | None = None
    ) -> list[Elements]:
        """T arrays of masks, elements [*batch, m, width], or [*batch, k, width] of some messages alone.

        Args:
            step: when they are used.
            senders: integers [m], ascending party identifiers, of all messages of each, by slot.
            width: coordinates of each row.
            drawn: what was drawn for the step.
            keys: that the senders share with relays.
            places: int64 [k], of which messages; of all unless given.
        """

    @abstractmethod
    def expand(self, step: Step, relay: int, names: Ids, secrets: Array, width: int, keys: Keys | None) -> Elements:
        """What a relay expands into the shares of messages: elements [m, width].

        Args:
            step: when they are used.
            relay: party identifier.
            names: int64 [m], ascending names of messages, see `wire.names_of`.
            secrets: int64 [m, 4] seeds of unnamed senders, or uint8 [s, 32] keys as they are in `keys`.
            width: coordinates of each row.
            keys: that the relay shares with senders.
        """

    @abstractmethod
    def remember(self, step: Step, relay: int, names: Ids, secrets: Array, masks: Elements) -> None:
        """Keeps masks for the relay at the other end, if it is hosted here."""

    @abstractmethod
    def sender_keys(
        self, offers: Sequence[Offer], senders: Ids, answered: Bytes, relay: int, session: bytes
    ) -> Bytes:  # fmt: skip
        """What each sender agrees on with one relay: uint8 [s, 32].

        Args:
            offers: of the senders, s of them.
            senders: int64 [s], party identifiers.
            answered: uint8 [s, 32 + wrapped bytes], what the relay answered each.
            relay: party identifier.
            session: its name.

        Raises:
            ProtocolError: the relay's key is a point of low order, with which everybody would share one key, or a
                secret was wrapped for somebody else.
        """

    @abstractmethod
    def relay_keys(
        self, private: Bytes, relay: int, publics: Bytes, secrets: Bytes, senders: Ids, session: bytes
    ) -> Bytes:
        """What one relay, with its private key uint8 [32], agrees on with each sender: the same.

        Args:
            private: of the relay.
            relay: party identifier.
            publics: uint8 [s, public bytes], what senders published.
            secrets: uint8 [s, secret bytes], that it wrapped for them.
            senders: int64 [s], party identifiers.
            session: its name.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Keys between some senders and some relays.

    Attributes:
        senders: int64 [s], ascending party identifiers.
        secrets: for each relay uint8 [s, 32].
        streams: of those keys.
    """

    senders: Ids
    secrets: tuple[Bytes, ...]
    streams: tuple[KeyedStreams, ...]

    @classmethod
    def of(cls, senders: Ids, secrets: Sequence[Bytes]) -> Keys:
        """Sets up the streams."""
        return cls(senders, tuple(secrets), tuple(KeyedStreams(each) for each in secrets))


class RealCryptography(Cryptography):
    """X25519, with ML-KEM-768 or alone, HKDF, AES-256 in counter mode, random tags: what users run."""

    def __init__(self, field: PrimeField, T: int, **known: Any) -> None:
        super().__init__(field, T, **known)
        self._expanded: dict[int, _Expanded] = {}
        self._agreed: dict[tuple[int, bytes], tuple[Ids, Bytes, Bytes]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(T={self._T}, anonymous={self._anonymous})"

    @property
    def keyed(self) -> bool:
        """Named senders share keys with relays."""
        return not self._anonymous

    @property
    def expanded(self) -> int:
        """All T relays whose shares are masks."""
        return self._T

    def nonce(self, step: Step) -> bytes:
        """See `mask_nonce`."""
        return mask_nonce(step)

    def shuffle(self, draws: Draws, count: int) -> Ids | None:
        """Random."""
        return draws.coins.uniform(2**63, (count,))

    def ways(self, draws: Draws, step: Step, silos: Ids, before: int) -> Ids:  # noqa: ARG002  # all are drawn alike
        """Drawn by each silo."""
        return draws.draw("ways", silos, 2**63, (2,), step)

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        """Drawn by each owner."""
        return draws.draw("openings", owners, 2**63, (2,), step)

    def numbers(self, draws: Draws, step: Step, senders: Ids) -> Ids:
        """Drawn by each sender."""
        return draws.draw("numbers", senders, 2**63, (), step)

    def drawn(self, draws: Draws, step: Step, senders: Ids, width: int) -> dict[str, Array]:  # noqa: ARG002
        """A key for each message and relay, where senders are unnamed: int64 [T, m, 4], every bit of it drawn."""
        if not self._anonymous:
            return {}
        seeds = []
        for _ in range(self._T):
            low = draws.draw("seeds", senders, 2**63, (SEED_WORDS,), step)
            signs = draws.draw("signs of seeds", senders, 2**SEED_WORDS, (), step)
            seeds.append(low | (signs[:, None] >> np.arange(SEED_WORDS) & 1) << 63)
        return {SEEDS: np.stack(seeds)}

    def masks(
        self, step: Step, senders: Numbers, width: int, drawn: Arrays, keys: Keys | None, places: Ids | None = None
    ) -> list[Elements]:
        """Read from streams at the nonce of the step."""
        if self._anonymous:
            which = slice(None) if places is None else places
            return [self._from_seeds(step, seeds[which], width) for seeds in drawn[SEEDS]]
        assert keys is not None, "named senders have keys"
        if places is not None:
            some = senders[places]
            slots = places - np.searchsorted(senders, some)
            return [self._from_keys(step, keys.senders, each, some, slots, width) for each in keys.secrets]
        ends = np.searchsorted(senders, keys.senders, side="right") - np.searchsorted(senders, keys.senders)
        return [self._read(step, each, ends, width) for each in keys.streams]

    def expand(self, step: Step, relay: int, names: Ids, secrets: Array, width: int, keys: Keys | None) -> Elements:
        """The same, at the relay's end."""
        known = self._expanded.pop(relay, None)
        if known is not None and self._is_of(known, step, names, secrets) and known.masks.shape[-1] == width:
            return known.masks
        if keys is None:
            return self._from_seeds(step, secrets, width)
        return self._from_keys(step, keys.senders, keys.secrets[0], names >> 32, names & (2**32 - 1), width)

    def remember(self, step: Step, relay: int, names: Ids, secrets: Array, masks: Elements) -> None:
        """Keeps masks for the relay at the other end, if it is hosted here."""
        if self._both_ends:
            self._expanded[relay] = _Expanded(step, names, secrets, masks)

    @staticmethod
    def _is_of(known: _Expanded, step: Step, names: Ids, secrets: Array) -> bool:
        alike = known.step == step and np.array_equal(known.names, names)
        return alike and np.array_equal(known.secrets, secrets)

    def _from_seeds(self, step: Step, seeds: Ids, width: int) -> Elements:
        streams = KeyedStreams(np.ascontiguousarray(seeds).view(np.uint8).reshape(len(seeds), KEY_BYTES))
        return self._read(step, streams, np.ones(len(seeds), dtype=np.int64), width)

    def _read(self, step: Step, streams: KeyedStreams, ends: Ids, width: int) -> Elements:
        """The masks of so many messages of each sender: elements [sum of ends, width]."""
        field = self._field
        return streams.uniform(field.modulus, ends * width, self.nonce(step), field.dtype).reshape(-1, width)

    def _from_keys(self, step: Step, known: Ids, secrets: Bytes, senders: Numbers, slots: Ids, width: int) -> Elements:
        """Masks of some messages of each sender: streams are read up to the last of them."""
        place = np.searchsorted(known, senders)
        first, stop = int(place.min(initial=len(known))), int(place.max(initial=-1)) + 1
        place, ends = place - first, np.zeros(max(stop - first, 0), dtype=np.int64)
        np.maximum.at(ends, place, slots + 1)
        read = self._read(step, KeyedStreams(secrets[first:stop]), ends, width)
        rows = (np.cumsum(ends) - ends)[place] + slots
        return read if len(rows) == len(read) else read[rows]  # all of them, ascending, or some

    def sender_keys(
        self, offers: Sequence[Offer], senders: Ids, answered: Bytes, relay: int, session: bytes
    ) -> Bytes:  # fmt: skip
        """From X25519, ML-KEM where it is agreed on, and HKDF."""
        heard, keys = answered[:1, :PUBLIC_KEY_BYTES].tobytes(), []
        for offer, sender, answer in zip(offers, senders.tolist(), answered, strict=True):
            context, wrapped = mask_context(offer.public, heard, sender, relay), answer[PUBLIC_KEY_BYTES:].tobytes()
            keys.append(offer.agree(heard, wrapped, session=session, context=context))
        found = _rows(keys, KEY_BYTES)
        if self._both_ends:
            self._agreed[relay, heard] = (senders, published(offers, self.agreement), found)
        return found

    def relay_keys(
        self, private: Bytes, relay: int, publics: Bytes, secrets: Bytes, senders: Ids, session: bytes
    ) -> Bytes:
        """The same, or from the other end where it is hosted here."""
        pair, keys = KeyPair(private.tobytes()), []
        known = self._agreed.pop((relay, pair.public), None)
        if known is not None and np.array_equal(known[0], senders) and np.array_equal(known[1], publics):
            return known[2]
        for row, secret, sender in zip(publics, secrets, senders.tolist(), strict=True):
            public = row.tobytes()
            context, first = mask_context(public, pair.public, sender, relay), public[:PUBLIC_KEY_BYTES]
            keys.append(pair.agree(first, session=session, context=context, secret=secret.tobytes()))
        return _rows(keys, KEY_BYTES)


def _rows(keys: Sequence[bytes], size: int) -> Bytes:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), size)
