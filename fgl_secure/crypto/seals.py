"""Messages sealed for a public key by senders that stay unnamed: X25519, alone or with ML-KEM-768, and AES-256-GCM.

One ephemeral X25519 key may serve several receivers of one message (Bellare, Boldyreva and Staddon 2003). The key of a
seal is HKDF-SHA256 of the X25519 secret and the encapsulated one; `info` has both public keys and the ciphertext.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import shake_128

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fgl_secure.crypto.keys import CIPHERTEXT_BYTES, PUBLIC_KEY_BYTES, KeyAgreement, ml_kem_key, ml_kem_secret
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError

_NONCE = bytes(12)  # a key seals one message
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
                 ml_kem_key(public) if len(public) > PUBLIC_KEY_BYTES else None)
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
        private, own, out = None, b"", list[bytes]()
        if self._counted:
            own = shake_128(_LABEL + ephemeral).digest(PUBLIC_KEY_BYTES)
        else:
            private = X25519PrivateKey.from_private_bytes(ephemeral)
            own = private.public_key().public_bytes_raw()
        for (public, point, lattice), content in zip(self._receivers, contents, strict=True):
            shared, secret, ciphertext = b"" if private is None else _exchange(private, point), b"", b""
            if lattice is not None and private is None:
                ciphertext = shake_128(own + public).digest(CIPHERTEXT_BYTES)
            elif lattice is not None:
                secret, ciphertext = lattice.encapsulate()
            shared += secret
            key = _derived(self._salt, shared, public[:PUBLIC_KEY_BYTES] + own + ciphertext)
            out += [own, ciphertext, AESGCM(key).encrypt(_NONCE, content, None)]
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
        self.public = own = self._point.public_key().public_bytes_raw()
        self._own, self._lattice = own, None
        if agreement is KeyAgreement.HYBRID:
            self._lattice = ml_kem_secret(private[KEY_BYTES:])
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
