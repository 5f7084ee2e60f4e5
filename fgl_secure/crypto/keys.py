"""Keys that two parties agree on: X25519 (RFC 7748) and HKDF-SHA256 (RFC 5869)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError

PUBLIC_KEY_BYTES = 32


class KeyPair:
    """An X25519 key pair.

    Args:
        private: 32 secret bytes.
    """

    __slots__ = ("_private", "public")

    def __init__(self, private: bytes) -> None:
        if len(private) != KEY_BYTES:
            raise InputError(f"private must have {KEY_BYTES} bytes; found {len(private)}")
        self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()}, private=<secret>)"

    def agree(self, other: bytes, *, session: bytes, context: bytes) -> bytes:
        """The 32-byte key shared with the owner of another public key.

        Args:
            other: that public key, 32 bytes.
            session: the salt: public, and different in every session.
            context: what the key is for and between whom; both sides must say the same.

        Raises:
            InputError: `other` has another length.
            ProtocolError: `other` is a point of low order, with which everybody would share the same key.
        """
        if len(other) != PUBLIC_KEY_BYTES:
            raise InputError(f"other must have {PUBLIC_KEY_BYTES} bytes; found {len(other)}")
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError as error:
            raise ProtocolError("other must not be a public key of low order") from error
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=session, info=context).derive(secret)
