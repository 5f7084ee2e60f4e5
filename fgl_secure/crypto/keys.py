"""Keys that two parties agree on: X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869), alone or with ML-KEM-768 (FIPS 203).

In the hybrid a party that speaks first publishes an X25519 key and an ML-KEM one; a party that answers draws a secret
and wraps it under a key that it encapsulates. The agreed key is derived from the X25519 secret and the wrapped one
together, so that it is hidden from a party that breaks one of the two. The secret is drawn from the caller's coins, and
so simulations repeat; the library's own randomness hides it on its way and goes into nothing else.

Where both ends publish offers, either may answer: parties that tell each other something at one time each wrap a
secret for what they say. What is wrapped then is sealed under both kinds of keys, so that no other party, such as a
server that passes it on, can put something of its own in its place, which would leave X25519 alone to hide a key.

A message is sealed for a public key by a sender that stays unnamed. One ephemeral X25519 key may serve several
receivers of one message (Bellare, Boldyreva and Staddon 2003). The key of a seal is HKDF-SHA256 of the X25519 and the
encapsulated secret; `info` has both public keys and the ciphertext.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import shake_128

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError

try:
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

    MLKEM768PrivateKey.from_seed_bytes(bytes(64))
    HAS_ML_KEM = True
    """Whether the installed `cryptography` has ML-KEM: 48 or later, over a library that has it."""
except (ImportError, UnsupportedAlgorithm):  # pragma: no cover  # as versions before 48 have it
    HAS_ML_KEM = False

PUBLIC_KEY_BYTES = 32
SEED_BYTES, ENCAPSULATION_KEY_BYTES, CIPHERTEXT_BYTES = 64, 1184, 1088
"""Of ML-KEM-768: FIPS 203, tables 2 and 3."""
WRAPPED_BYTES = CIPHERTEXT_BYTES + KEY_BYTES + 16
"""A secret of KEY_BYTES, wrapped: the ciphertext, and AES-256-GCM under the encapsulated key."""

MOST_PARSED = 4096
"""Public keys of ML-KEM that are kept as they were read, which takes as long as wrapping something for one."""

_NONCE = bytes(12)  # of a key that seals one message or wraps one secret
_WRAP = b"wrap"
_BOTH = b"fgl-secure/v1 private keys of a hybrid offer"


class KeyAgreement(StrEnum):
    """How two parties agree on a key. Both must take the same one: it is in what keys are derived from."""

    X25519 = "x25519"
    HYBRID = "hybrid"
    """X25519 and ML-KEM-768."""

    @classmethod
    def best(cls) -> KeyAgreement:
        """The hybrid, where the installed library has it."""
        return cls.HYBRID if HAS_ML_KEM else cls.X25519

    def check_available(self) -> None:
        """Raises InputError where the installed library lacks it."""
        if self is KeyAgreement.HYBRID and not HAS_ML_KEM:
            raise InputError(f"key agreement must be one that `cryptography` has, which {self} needs at 48; it has not")

    @property
    def words(self) -> str:
        """What has to hold, as claims say it."""
        return "X25519 or ML-KEM-768" if self is KeyAgreement.HYBRID else "X25519"

    @property
    def private_bytes(self) -> int:
        """Secret bytes of a party that speaks first."""
        return KEY_BYTES + SEED_BYTES * (self is KeyAgreement.HYBRID)

    @property
    def public_bytes(self) -> int:
        """What that one publishes."""
        return PUBLIC_KEY_BYTES + ENCAPSULATION_KEY_BYTES * (self is KeyAgreement.HYBRID)

    @property
    def wrapped_bytes(self) -> int:
        """What wraps the secret of a party that answers, who is known by an X25519 key."""
        return WRAPPED_BYTES * (self is KeyAgreement.HYBRID)

    @property
    def secret_bytes(self) -> int:
        """That secret, fresh for each key."""
        return KEY_BYTES * (self is KeyAgreement.HYBRID)

    @property
    def seal_bytes(self) -> int:
        """What sealing a message for a public key adds: a fresh public key or ciphertexts, and the authentication."""
        return PUBLIC_KEY_BYTES + CIPHERTEXT_BYTES * (self is KeyAgreement.HYBRID) + 16


class KeyPair:
    """An X25519 key pair.

    Args:
        private: 32 secret bytes.

    What is shared with another key is kept as long as the pair: it takes as long to find as all that is made of it.
    """

    __slots__ = ("_private", "_shares", "public")

    def __init__(self, private: bytes) -> None:
        if len(private) != KEY_BYTES:
            raise InputError(f"private must have {KEY_BYTES} bytes; found {len(private)}")
        self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()
        self._shares: dict[bytes, bytes] = {}

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()}, private=<secret>)"

    def agree(self, other: bytes, *, session: bytes, context: bytes, secret: bytes = b"") -> bytes:
        """The 32-byte key shared with the owner of another public key.

        Args:
            other: that public key, 32 bytes.
            session: the salt: public, and different in every session.
            context: what the key is for and between whom; both sides must say the same.
            secret: what both know beside, of one length for all keys of a kind.

        Raises:
            InputError: `other` has another length.
            ProtocolError: `other` is a point of low order, with which every party would share the same key.
        """
        shared = self._shared_secret(other)
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=session, info=context).derive(shared + secret)

    def _shared_secret(self, other: bytes) -> bytes:
        if len(other) != PUBLIC_KEY_BYTES:
            raise InputError(f"other must have {PUBLIC_KEY_BYTES} bytes; found {len(other)}")
        shared = self._shares.get(other)
        if shared is None:
            try:
                shared = self._private.exchange(X25519PublicKey.from_public_bytes(other))
            except ValueError as error:
                raise ProtocolError("other must not be a public key of low order") from error
            self._shares[other] = shared
        return shared


_P = 2**255 - 19
_ORDER_8 = (
    0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
)
LOW_ORDER = frozenset(u.to_bytes(KEY_BYTES, "little") for u in (0, 1, *_ORDER_8, _P - 1, _P, _P + 1))
"""Points of order 1, 2, 4 and 8 on Curve25519 and its twist, in all ways to write them in 255 bits (Bernstein,
https://cr.yp.to/ecdh.html#validate)."""


def _is_low_order(public: bytes) -> bool:
    return bytes([*public[:-1], public[-1] & 127]) in LOW_ORDER  # X25519 ignores the last bit


def is_usable(public: bytes) -> bool:
    """Whether a public key or an offer can be answered.

    Points of low order cannot, with which every party would share the same key, nor what is no ML-KEM key.
    """
    if len(public) < PUBLIC_KEY_BYTES or _is_low_order(public[:PUBLIC_KEY_BYTES]):
        return False
    try:
        if len(public) > PUBLIC_KEY_BYTES:
            _ml_kem_key(public)
    except ValueError:
        return False
    return True


class Offer:
    """The keys of a party that speaks first.

    Args:
        private: secret bytes, as many as the agreement says.
        agreement: which one.

    Attributes:
        public: what is published.
    """

    __slots__ = ("_pair", "_private_key", "_seed", "public")

    def __init__(self, private: bytes, agreement: KeyAgreement) -> None:
        agreement.check_available()
        if len(private) != agreement.private_bytes:
            raise InputError(f"private must have {agreement.private_bytes} bytes; found {len(private)}")
        self._pair, self._seed = KeyPair(private[:KEY_BYTES]), private[KEY_BYTES:]
        self.public = self._pair.public
        if self._seed:
            self._private_key = MLKEM768PrivateKey.from_seed_bytes(self._seed)
            self.public += self._private_key.public_key().public_bytes_raw()

    @classmethod
    def of_seed(cls, seed: bytes, agreement: KeyAgreement) -> Offer:
        """The offer of a party who keeps, or shares among others, one secret for both of its keys.

        Args:
            seed: 32 secret bytes: the X25519 key where there is no other, else what both are derived from.
            agreement: which one.
        """
        if agreement is KeyAgreement.X25519:
            return cls(seed, agreement)
        size = agreement.private_bytes
        return cls(HKDF(algorithm=SHA256(), length=size, salt=None, info=_BOTH).derive(seed), agreement)

    def __repr__(self) -> str:
        return f"Offer(public={self._pair.public.hex()}, private=<secret>)"

    def answer(self, other: bytes, secret: bytes, *, session: bytes, context: bytes) -> bytes:
        """The key shared with the owner of another offer, for whom a secret is wrapped (`wrap`).

        Args:
            other: what that one published.
            secret: that is wrapped; empty where the agreement wraps none.
            session: see `KeyPair.agree`.
            context: see `KeyPair.agree`.

        Raises:
            ProtocolError: `other` has low order.
        """
        return self._pair.agree(other[:PUBLIC_KEY_BYTES], session=session, context=context, secret=secret)

    def wrap(self, other: bytes, secret: bytes, *, session: bytes, context: bytes) -> bytes:
        """The secret of such an answer, for the owner of the other offer alone, who knows whom it is from.

        Args:
            other: see `answer`.
            secret: of 32 bytes, used for one key.
            session: see `KeyPair.agree`.
            context: see `KeyPair.agree`.

        Raises:
            ProtocolError: `other` has low order or holds no ML-KEM key.
        """
        if not self._seed:
            return b""
        key, ciphertext = _encapsulate(other)
        sealing = self._pair.agree(other[:PUBLIC_KEY_BYTES], session=session, context=context + _WRAP, secret=key)
        return ciphertext + AESGCM(sealing).encrypt(_NONCE, secret, None)

    def unwrap(self, other: bytes, wrapped: bytes, *, session: bytes, context: bytes) -> bytes:
        """The key shared with the owner of another offer, who wrapped a secret.

        Args:
            other: what that one published.
            wrapped: the secret; empty where the agreement wraps none.
            session: see `KeyPair.agree`.
            context: see `KeyPair.agree`.

        Raises:
            ProtocolError: `other` has low order, or it was not its owner who wrapped the secret, or not for this offer.
        """
        public = other[:PUBLIC_KEY_BYTES]
        if not self._seed:
            return self._pair.agree(public, session=session, context=context)
        sealing = self._pair.agree(public, session=session, context=context + _WRAP, secret=self._decapsulate(wrapped))
        secret = _open_sealed(sealing, wrapped)
        return self._pair.agree(public, session=session, context=context, secret=secret)

    def agree(self, other: bytes, wrapped: bytes, *, session: bytes, context: bytes) -> bytes:
        """The key shared with a party that answered.

        Args:
            other: the X25519 key of that one.
            wrapped: its secret; empty where the agreement wraps none.
            session: see `KeyPair.agree`.
            context: see `KeyPair.agree`.

        Raises:
            InputError: `other` has another length.
            ProtocolError: `other` has low order, or the secret was not wrapped for this offer.
        """
        return self._pair.agree(other, session=session, context=context, secret=self._unwrap(wrapped))

    def _unwrap(self, wrapped: bytes) -> bytes:
        if not self._seed:
            return b""
        return _open_sealed(self._decapsulate(wrapped), wrapped)

    def _decapsulate(self, wrapped: bytes) -> bytes:
        if len(wrapped) != WRAPPED_BYTES:
            raise ProtocolError(f"wrapped must have {WRAPPED_BYTES} bytes; found {len(wrapped)}")
        return self._private_key.decapsulate(wrapped[:CIPHERTEXT_BYTES])


def _open_sealed(key: bytes, wrapped: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(_NONCE, wrapped[CIPHERTEXT_BYTES:], None)
    except InvalidTag as error:
        raise ProtocolError("wrapped must have been made for this key; it was not, or was changed") from error


@lru_cache(maxsize=MOST_PARSED)
def _ml_kem_key(offer: bytes) -> MLKEM768PublicKey:
    """The ML-KEM key of an offer; raises ValueError where it holds none. It is looked at, and then wrapped for."""
    return MLKEM768PublicKey.from_public_bytes(offer[PUBLIC_KEY_BYTES:])


def _encapsulate(offer: bytes) -> tuple[bytes, bytes]:
    try:
        return _ml_kem_key(offer).encapsulate()
    except ValueError as error:
        raise ProtocolError("offer must hold an ML-KEM-768 public key; it does not") from error


def wrap(offer: bytes, secret: bytes) -> bytes:
    """A secret that the owner of an offer alone unwraps; empty where the offer is of X25519 alone.

    Args:
        offer: what was published.
        secret: of 32 bytes, used for one key.

    Raises:
        ProtocolError: the offer holds no ML-KEM key.
    """
    if len(offer) == PUBLIC_KEY_BYTES:
        return b""
    key, ciphertext = _encapsulate(offer)
    return ciphertext + AESGCM(key).encrypt(_NONCE, secret, None)


_LABEL = b"fgl-secure/v1 seal"


class Sealing:
    """Seals messages for some receivers.

    Args:
        publics: what each receiver published, see `Unsealing.public`.
        salt: public, different in every session.
        counted: whether seals have their size and notice changes, and no secret is agreed on: they hide nothing from
            those who look for it. For simulations under coins that are no secret either.

    Raises:
        ProtocolError: a receiver published no public key.
    """

    def __init__(self, publics: Sequence[bytes], salt: bytes, *, counted: bool = False) -> None:
        self._salt, self._counted = salt, counted
        try:
            self._receivers = [
                (public, X25519PublicKey.from_public_bytes(public[:PUBLIC_KEY_BYTES]),
                 _ml_kem_key(public) if len(public) > PUBLIC_KEY_BYTES else None)
                for public in publics
            ]  # fmt: skip
        except ValueError as error:
            raise ProtocolError("publics must be X25519 keys, alone or with ML-KEM-768 ones; one is not") from error

    def seal(self, ephemeral: bytes, contents: Sequence[bytes]) -> bytes:
        """Return the seals of one message, one for each receiver, one behind the other.

        Args:
            ephemeral: 32 secret bytes, used for this message alone.
            contents: for each receiver.

        Raises:
            ProtocolError: a receiver published a point of small order.
        """
        private, public_key, out = None, b"", list[bytes]()
        if self._counted:
            public_key = shake_128(_LABEL + ephemeral).digest(PUBLIC_KEY_BYTES)
        else:
            private = X25519PrivateKey.from_private_bytes(ephemeral)
            public_key = private.public_key().public_bytes_raw()
        for (public, point, lattice), content in zip(self._receivers, contents, strict=True):
            shared, secret, ciphertext = b"" if private is None else _exchange(private, point), b"", b""
            if lattice is not None and private is None:
                ciphertext = shake_128(public_key + public).digest(CIPHERTEXT_BYTES)
            elif lattice is not None:
                secret, ciphertext = lattice.encapsulate()
            shared += secret
            key = _derived(self._salt, shared, public[:PUBLIC_KEY_BYTES] + public_key + ciphertext)
            out += [public_key, ciphertext, AESGCM(key).encrypt(_NONCE, content, None)]
        return b"".join(out)


class Unsealing:
    """A receiver's private key.

    Args:
        private: secret bytes, as many as the agreement says.
        agreement: X25519 alone, or the hybrid.

    Attributes:
        public: what the receiver publishes.
    """

    def __init__(self, private: bytes, agreement: KeyAgreement) -> None:
        self._point = X25519PrivateKey.from_private_bytes(private[:KEY_BYTES])
        self.public = public_key = self._point.public_key().public_bytes_raw()
        self._own, self._lattice = public_key, None
        if agreement is KeyAgreement.HYBRID:
            # The private ML-KEM key of a seed.
            self._lattice = MLKEM768PrivateKey.from_seed_bytes(private[KEY_BYTES:])
            self.public += self._lattice.public_key().public_bytes_raw()

    def unseal(self, sealed: bytes, salt: bytes, *, counted: bool = False) -> bytes | None:
        """Return the content of a seal; None if it was not made for this key and salt, `counted` or not."""
        other, rest = sealed[:PUBLIC_KEY_BYTES], sealed[PUBLIC_KEY_BYTES:]
        ciphertext, body = (b"", rest) if self._lattice is None else (rest[:CIPHERTEXT_BYTES], rest[CIPHERTEXT_BYTES:])
        try:
            shared = b"" if counted else self._point.exchange(X25519PublicKey.from_public_bytes(other))
            if self._lattice is not None and not counted:
                shared += self._lattice.decapsulate(ciphertext)
            return AESGCM(_derived(salt, shared, self._own + other + ciphertext)).decrypt(_NONCE, body, None)
        except (ValueError, InvalidTag):
            return None


def _exchange(private: X25519PrivateKey, point: X25519PublicKey) -> bytes:
    try:
        return private.exchange(point)
    except ValueError as error:
        raise ProtocolError("publics must be points of large order; one is not") from error


def _derived(salt: bytes, shared: bytes, context: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), 32 bytes."""
    extracted = hmac.digest(salt, shared, "sha256")
    return hmac.digest(extracted, _LABEL + context + b"\x01", "sha256")
