"""What is cryptographic about a machine, as one object that it is given: key agreement, masks, seals and votes.

`RealCryptography` is what users run. `IdealCryptography`, in a file of its own, keeps the books of an ideal
functionality instead: a key is a name, a mask is drawn on the tapes the first time that its name is used, a sealed box
is a number that its addressee alone gets opened. A machine cannot tell which of the two it was given, so that what is
proved of one of them over all coins is proved of the code that users run with the other.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES, KeyAgreement, Offer, is_usable
from fgl_secure.crypto.streams import KEY_BYTES, ModularRing, add_masks
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.typing import Bytes, Ids

Elements = NDArray[np.int64]
Mask = bytes | Elements
"""The key that a mask is expanded from; where cryptography is ideal and a mask was opened, the mask itself."""

TAG_BYTES = 16
SEED_BITS = 8 * KEY_BYTES

MOST_OFFERS = 4096
"""Key pairs that are kept, with what they share with others: two for each of 2,048 clients that one process hosts."""

_NONCE = bytes(12)  # of a key that seals one message
_ENDS = struct.Struct(">QQ")


class KeyPurpose(bytes, Enum):
    """What a key is for, as its name says it."""

    PAIR = b"pair"
    SEAL = b"seal"
    VOTE = b"vote"
    PAIR_MASK = b"pmsk"
    SELF_MASK = b"smsk"
    RECEIVER_MASK = b"rmsk"
    SHARING = b"shar"
    VETO = b"veto"
    BLANK = b"blnk"
    WRAPPED = b"wrap"
    NONCE = b"nonc"

    @property
    def words(self) -> str:
        """As transcripts name what is drawn for it."""
        return _NAMES.get(self, self.name.lower())


_NAMES = {
    KeyPurpose.PAIR_MASK: "pair masks",
    KeyPurpose.SELF_MASK: "self masks",
    KeyPurpose.RECEIVER_MASK: "receiver masks",
    KeyPurpose.SHARING: "share coins",
    KeyPurpose.VETO: "veto coins",
    KeyPurpose.BLANK: "blank vectors",
}


class Source(Protocol):
    """Where secrets are drawn, as `Draws` of the runtime does it."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of every draw."""
        ...

    def draw(self, name: str, owners: Ids, modulus: int, shape: tuple[int, ...], step: Any) -> NDArray[np.int64]:
        """Secret coins of some parties: [*batch_shape, len(owners), *shape]."""
        ...

    def note_secrets(self, name: str, owners: Ids, values: NDArray[Any], step: Any) -> None:
        """Notes what parties learn by ideal means: values [*batch_shape, len(owners), ...]."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What every key of one sum is bound to.

    Attributes:
        label: names the scheme and its version.
        session: public, and different in every session; what else all parties must have been told alike may be part
            of it.
        when: 16 bytes that name the sum within its session.
        step: the same for recordings.
    """

    label: bytes
    session: bytes
    when: bytes
    step: Any = None

    def info(self, purpose: KeyPurpose, sender: int, receiver: int) -> bytes:
        """What names a key, in fields of fixed length."""
        return self.label + purpose + b"\x01" + self.when + _ENDS.pack(sender, receiver)

    def digest(self, content: bytes) -> bytes:
        """SHA-256 of something that parties of this sum must have been told alike."""
        return hashlib.sha256(self.label + self.session + self.when + content).digest()


@dataclass(frozen=True, slots=True)
class Partner:
    """The other end of a pair of which one end's secret was opened.

    Attributes:
        name: party identifier.
        public: the key that it published.
        wrapped: what it wrapped for the first end; None where that one wrapped something for it, or no party does.
    """

    name: int
    public: bytes
    wrapped: bytes | None = None


NOTHING_HEARD: Mapping[int, bytes] = {}


class Cryptography:
    """X25519 (RFC 7748), HKDF-SHA256 (RFC 5869), AES-256-GCM for seals, AES-256 in counter mode for masks, HMAC-SHA256.

    Keys and secrets are 32 bytes. Every key names its purpose, session, sum and ends in the `info` of HKDF, in fields
    of fixed length, so that no key serves two purposes and no mask is made twice.

    In the hybrid with ML-KEM-768 (FIPS 203) a party's secret is the seed of both its private keys, and of every secret
    that it wraps for another party. So a party that is given one end's secret by others, as the server is where a
    client
    has vanished, recomputes the keys of its pairs alone: what that end wrapped follows from the seed, and what was
    wrapped for it opens with the private key that the seed gives. The other end is not needed, nor is any word of its.

    Args:
        source: coins of the parties hosted here.
        modulus: of the field of shared secrets, below 2^62.
        agreement: how two parties agree on keys.
        ring: of masks and masked vectors; that field unless given.
    """

    public_bytes: int = PUBLIC_KEY_BYTES
    wrapped_bytes: int = 0
    """What one end of a pair sends the other before they share a key; 0 where their public keys are enough."""
    vote_bytes: int = TAG_BYTES
    signature_bytes: int = 64

    def __init__(
        self,
        source: Source,
        modulus: int,
        agreement: KeyAgreement = KeyAgreement.X25519,
        ring: ModularRing | None = None,
    ) -> None:
        agreement.check_available()
        self._source, self.modulus, self.agreement = source, modulus, agreement
        self.field = ModularRing(modulus)
        self.ring = ring or self.field
        self._sealed = self.ring if self.ring.modulus == modulus else self.field
        self.public_bytes, self.wrapped_bytes = agreement.public_bytes, agreement.wrapped_bytes
        self._offers: dict[bytes, Offer] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(modulus={self.modulus}, <secrets>)"

    @property
    def cached_keys(self) -> int:
        """How many secrets' key pairs are kept now."""
        return len(self._offers)

    def forget(self, secrets: Bytes) -> None:
        """Forgets what follows from secrets, uint8 [..., 32], that their owners forget: key pairs and shared keys."""
        for secret in secrets.reshape(-1, KEY_BYTES):
            self._offers.pop(secret.tobytes(), None)

    def _offer(self, secret: bytes) -> Offer:
        """The key pairs of a secret, which are needed in several stages of a sum; the oldest make room for others."""
        if secret not in self._offers:
            while len(self._offers) >= MOST_OFFERS:
                del self._offers[next(iter(self._offers))]
            self._offers[secret] = Offer.of_seed(secret, self.agreement)
        return self._offers[secret]

    def fresh(self, owners: Ids, count: int, step: Any) -> Bytes:
        """Fresh secrets, used for one sum: uint8 [m, count, 32].

        Raises:
            InputError: coins are those of several tapes at once.
        """
        if self._source.batch_shape:
            raise InputError("coins must be those of one run where keys are real; found several tapes at once")
        return self._source.draw("secrets", owners, 256, (count, KEY_BYTES), step).astype(np.uint8)

    def public(self, secret: bytes) -> bytes:
        """The public key of a secret one: X25519, and ML-KEM behind it where it is agreed on."""
        return self._offer(secret).public

    def usable(self, public: bytes) -> bool:
        """Whether a public key is no point of low order, which agrees on the same secret with all parties.

        It holds an ML-KEM key where there must be one.
        """
        return is_usable(public)

    def agree(
        self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int, others: Mapping[int, bytes],
        width: int = 0,  # noqa: ARG002  # for what draws masks as it agrees
        wrapped: Mapping[int, bytes] = NOTHING_HEARD,
    ) -> dict[int, bytes]:  # fmt: skip
        """The keys that the owner of a key pair shares with the owners of others, the same on both sides.

        Where something is wrapped, one end of each pair wraps it (`wrap_keys`), and the other end has heard it.

        Args:
            secret: of the key pair.
            context: of the sum.
            purpose: what for.
            owner: party identifier of its owner.
            others: public keys, by party identifier.
            width: entries of the masks that the keys are for; 0 for none.
            wrapped: what others wrapped for the owner, by party identifier; for those that are not there the owner did.

        Returns:
            A key for each of the others.

        Raises:
            ProtocolError: a public key is not usable, or what was heard was not wrapped for the owner.
        """
        offer, result = self._offer(secret), {}
        for other, public in others.items():
            bound = _bound(context, purpose, (owner, offer.public), (other, public))
            if other in wrapped:
                result[other] = _unwrap(offer, public, wrapped[other], context.session, bound, (other, owner))
                continue
            box = self._wrapped_secret(secret, context, purpose, owner, other)
            result[other] = offer.answer(public, box, session=context.session, context=bound)
        return result

    def wrap_keys(
        self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int, others: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        """What the others must hear to agree on the same keys: `wrapped_bytes` for each, public, for it alone to open.

        Arguments as for `agree`.

        Raises:
            ProtocolError: a public key is not usable.
        """
        if not self.wrapped_bytes:
            return dict.fromkeys(others, b"")
        offer, result = self._offer(secret), {}
        for other, public in others.items():
            bound = _bound(context, purpose, (owner, offer.public), (other, public))
            box = self._wrapped_secret(secret, context, purpose, owner, other)
            result[other] = offer.wrap(public, box, session=context.session, context=bound)
        return result

    def _wrapped_secret(self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int, other: int) -> bytes:
        """What a party wraps for another: from its own secret, so that a party that is given that one knows it."""
        if not self.wrapped_bytes:
            return b""
        info = context.info(KeyPurpose.WRAPPED, owner, other) + purpose
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.session, info=info).derive(secret)

    def derive_key(self, secret: bytes, context: Context, purpose: KeyPurpose, owner: int) -> bytes:
        """A key that one party makes from a secret of its own, for one purpose, by HKDF."""
        return _derive_pair_key(secret, context, purpose, owner, owner)

    def elements(self, key: bytes, count: int) -> Elements:
        """The uniform elements of the field that a key stands for: int64 [count], its key stream, rejection-sampled.

        A key is read once, at one length.
        """
        total = np.zeros(count, dtype=np.int64)
        add_masks(total, [key], [1], self.modulus)
        return total

    def add_masks(self, total: Elements, masks: Sequence[Mask], signs: Sequence[int]) -> Elements:
        """Adds masks to elements [length], or takes them away, in place.

        Args:
            total: elements, which the caller gives up.
            masks: each of the length of `total`.
            signs: 1 or -1 for each.
        """
        keys = [mask for mask in masks if isinstance(mask, bytes)]
        add_masks(total, keys, signs, self.ring.modulus)
        return total

    def sealed_bytes(self, count: int) -> int:
        """Bytes of so many elements, sealed: as they travel, and a tag."""
        return self._sealed.entries(count) * self._sealed.dtype.itemsize + TAG_BYTES

    def seal(self, key: bytes, context: Context, sender: int, receiver: int, values: Elements) -> bytes:
        """Elements [count] that only the other owner of the key can open, and that no other party can have sealed.

        AES-256-GCM under a key for this message alone.
        """
        plain = self._sealed.write(values).tobytes()
        return AESGCM(_derive_pair_key(key, context, KeyPurpose.SEAL, sender, receiver)).encrypt(_NONCE, plain, None)

    def unseal(self, key: bytes, context: Context, sender: int, receiver: int, sealed: bytes, count: int) -> Elements:
        """What was sealed: elements [count].

        Raises:
            ProtocolError: it was sealed under another key, in another sum, by or for another party, or changed on the
                way; or it holds no elements.
        """
        try:
            plain = AESGCM(_derive_pair_key(key, context, KeyPurpose.SEAL, sender, receiver)).decrypt(
                _NONCE, sealed, None
            )
        except InvalidTag as error:
            raise ProtocolError(
                f"a box of party {sender} must be sealed for party {receiver} in this session and step; it is not"
            ) from error
        if len(plain) != self.sealed_bytes(count) - TAG_BYTES:
            raise MalformedMessageError(f"a box must hold {count} elements; found {len(plain)} bytes")
        return self._sealed.read(np.frombuffer(plain, dtype=self._sealed.dtype), count).copy()

    def vote(self, key: bytes, context: Context, sender: int, receiver: int, digest: bytes) -> bytes:
        """A party's word to another of what it received: HMAC-SHA256, of which `vote_bytes` travel."""
        return hmac.digest(_derive_pair_key(key, context, KeyPurpose.VOTE, sender, receiver), digest, "sha256")[
            :TAG_BYTES
        ]

    def is_vote(self, vote: bytes, key: bytes, context: Context, sender: int, receiver: int, digest: bytes) -> bool:
        """Whether a party's word is for a digest, compared in constant time."""
        return hmac.compare_digest(vote, self.vote(key, context, sender, receiver, digest))

    def words(self, length: int, neighbours: int) -> int:  # noqa: ARG002  # a seed, however long the masks
        """Elements that hold one secret that is shared: 256 bits, each of them floor(log2 p)."""
        return -(-SEED_BITS // _word_bits(self.modulus))

    def seed_words(self, seed: bytes, mask: bytes, count: int, length: int) -> Elements:  # noqa: ARG002  # of ideals
        """What is shared so that others can open one's own mask: its seed as elements [count]."""
        return words_of(seed, self.modulus, count)

    def key_words(self, secret: bytes, masks: Mapping[int, bytes], count: int, length: int) -> Elements:  # noqa: ARG002
        """What is shared so that others can open masks shared with neighbours: the secret key as elements [count]."""
        return words_of(secret, self.modulus, count)

    def mask_of_seed(self, words: Elements, context: Context, owner: int, length: int) -> Mask:  # noqa: ARG002  # same
        """The key of the mask that opened `seed_words` give.

        Raises:
            ProtocolError: they hold no seed.
        """
        return self.derive_key(seed_of(words, self.modulus), context, KeyPurpose.SELF_MASK, owner)

    def masks_of_key(
        self, words: Elements, public: bytes, context: Context, owner: int, near: Mapping[int, Partner], length: int
    ) -> dict[int, Mask]:
        """The keys of the masks that opened `key_words` give, by place of the neighbour, agreed on as their owner did.

        Args:
            words: as opened.
            public: the key that their owner published.
            context: of the sum.
            owner: party identifier.
            near: the neighbours whose masks are wanted, by place.
            length: of a mask.

        Raises:
            ProtocolError: they hold no key, or not that of the published one; or what a neighbour wrapped does not
                open.
        """
        secret = seed_of(words, self.modulus)
        if self.public(secret) != public:
            raise ProtocolError(f"party {owner} must share the mask key that it published; the one opened is another")
        publics = {other.name: other.public for other in near.values()}
        received = {other.name: other.wrapped for other in near.values() if other.wrapped is not None}
        keys = self.agree(secret, context, KeyPurpose.PAIR_MASK, owner, publics, length, received)
        return {place: keys[other.name] for place, other in near.items()}


def _bound(context: Context, purpose: KeyPurpose, own: tuple[int, bytes], other: tuple[int, bytes]) -> bytes:
    """What the key of a pair is bound to, the same at both ends."""
    (a, own_key), (b, other_key) = own, other
    named = context.info(purpose, a, b) if a < b else context.info(purpose, b, a)
    return named + (own_key + other_key if own_key < other_key else other_key + own_key)


def _unwrap(offer: Offer, public: bytes, wrapped: bytes, session: bytes, bound: bytes, ends: tuple[int, int]) -> bytes:
    try:
        return offer.unwrap(public, wrapped, session=session, context=bound)
    except ProtocolError as error:
        raise ProtocolError(f"what party {ends[0]} sends must agree with party {ends[1]}; {error}") from error


def words_of(seed: bytes, modulus: int, count: int) -> Elements:
    """32 bytes as elements, int64 [count]."""
    bits, value = _word_bits(modulus), int.from_bytes(seed, "little")
    return np.array([(value >> (bits * index)) & (2**bits - 1) for index in range(count)], dtype=np.int64)


def seed_of(words: Elements, modulus: int) -> bytes:
    """The 32 bytes that elements [count] hold.

    Raises:
        ProtocolError: they hold none, so the shares that they were opened from are not those of a seed.
    """
    bits = _word_bits(modulus)
    value = sum(int(word) << (bits * index) for index, word in enumerate(words.tolist()))
    if any(int(word) >> bits for word in words.tolist()) or value >> SEED_BITS:
        raise ProtocolError(f"opened shares must hold a seed of {SEED_BITS} bits; they hold none")
    return value.to_bytes(KEY_BYTES, "little")


def _word_bits(modulus: int) -> int:
    return modulus.bit_length() - 1


def _derive_pair_key(secret: bytes, context: Context, purpose: KeyPurpose, sender: int, receiver: int) -> bytes:
    info = context.info(purpose, sender, receiver)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=context.session, info=info).derive(secret)
