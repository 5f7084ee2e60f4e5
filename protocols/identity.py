"""Long-term keys by which clients know each other: Ed25519 (RFC 8032)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError

SIGNATURE_BYTES = 64
IDENTITY_BYTES = 32


class Identity:
    """A client's signing key.

    Args:
        private: 32 secret bytes.
    """

    __slots__ = ("_key", "public")

    def __init__(self, private: bytes) -> None:
        if len(private) != IDENTITY_BYTES:
            raise InputError(f"private must have {IDENTITY_BYTES} bytes; found {len(private)}")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, coins: Coins) -> Identity:
        """A fresh key.

        Raises:
            InputError: coins are those of several tapes.
        """
        if coins.batch_shape:
            raise InputError("coins must be those of one run; found several tapes at once")
        return cls(bytes(coins.uniform(256, (IDENTITY_BYTES,)).tolist()))

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()}, private=<secret>)"

    def sign(self, message: bytes) -> bytes:
        """64 bytes that only this identity can make for this message."""
        return self._key.sign(message)

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, for a file or state of this client alone."""
        return self._key.private_bytes_raw()


@dataclass(frozen=True, slots=True)
class Identities:
    """The public keys of all clients, as each client knows them from elsewhere, and not from the server.

    Attributes:
        public: 32 bytes for each client, by number.
    """

    public: Mapping[int, bytes]

    def __post_init__(self) -> None:
        for client, public in self.public.items():
            if client < 0 or len(public) != IDENTITY_BYTES:
                raise InputError(
                    f"identities must have {IDENTITY_BYTES} bytes each for clients from 0 on; "
                    f"found {len(public)} for client {client}"
                )

    def check(self, client: int, message: bytes, signature: bytes) -> None:
        """Raises unless a client signed a message.

        Raises:
            ProtocolError: it did not, or is not known.
        """
        if client not in self.public:
            raise ProtocolError(f"client must be one whose identity is known; found {client}")
        try:
            Ed25519PublicKey.from_public_bytes(self.public[client]).verify(signature, message)
        except InvalidSignature as error:
            raise ProtocolError(f"keys of client {client} must be signed by its identity; they are not") from error


@dataclass(frozen=True, slots=True)
class Names:
    """Long-term identities of the parties of a sum, by place: clients from 0, a receiver that is none behind them.

    Attributes:
        own: of those hosted here.
        known: of all whose keys those hosted here will hear, as they know them from elsewhere.
    """

    own: Mapping[int, Identity]
    known: Identities

    def __post_init__(self) -> None:
        for place, identity in self.own.items():
            if self.known.public.get(place) != identity.public:
                raise InputError(f"identity must be that of client {place} among those known; it is not")
