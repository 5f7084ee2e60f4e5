"""Long-term keys by which clients know each other: Ed25519 (RFC 8032)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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

    Examples:
        alice = Identity.generate(SystemCoins())
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

    @classmethod
    def load(cls, file: Path) -> Identity:
        """Reads what `save` wrote.

        Raises:
            InputError: the file cannot be read, or holds something else.
        """
        result = _from_hex(file)
        if len(result) != 1:
            raise InputError(f"identity must be a file of one line; {file.name} has {len(result)}")
        return cls(result[0])

    def save(self, file: Path) -> None:
        """Writes the secret key, in hexadecimal, to a new file that only its owner may read.

        Raises:
            InputError: there is such a file, or it cannot be written.
        """
        try:
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
                out.write(f"{self.private_bytes().hex()}\n")
        except OSError as error:
            raise InputError(f"identity must go to a new file; {file.name} cannot be one ({error.strerror})") from error

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

    Examples:
        public = Identities({0: alice.public, 1: bob.public})
    """

    public: Mapping[int, bytes]

    def __post_init__(self) -> None:
        for client, public in self.public.items():
            if client < 0 or len(public) != IDENTITY_BYTES:
                raise InputError(
                    f"identities must have {IDENTITY_BYTES} bytes each for clients from 0 on; "
                    f"found {len(public)} for client {client}"
                )

    @classmethod
    def load(cls, file: Path) -> Identities:
        """Reads the public keys of all parties, one a line in hexadecimal, in the order of their numbers.

        Raises:
            InputError: the file cannot be read or holds something else, or two parties have one key.
        """
        result = _from_hex(file)
        if len(set(result)) != len(result):
            raise InputError(f"identities must all differ; at least two in {file.name} do not")
        return cls(dict(enumerate(result)))

    def save(self, file: Path) -> None:
        """Writes the keys as `load` reads them."""
        keys = [self.public[party] for party in range(len(self.public))]
        file.write_text("".join(f"{key.hex()}\n" for key in keys), encoding="ascii")

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


def _from_hex(file: Path) -> list[bytes]:
    """The lines of a file, each of which is a key in hexadecimal."""
    rule = f"identities must be files of keys, {2 * IDENTITY_BYTES} hexadecimal digits a line"
    try:
        result = [bytes.fromhex(line) for line in file.read_text(encoding="ascii").split()]
    except OSError as error:
        raise InputError(f"{rule}; {file.name} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{rule}; {file.name} is none") from error
    if not result or any(len(key) != IDENTITY_BYTES for key in result):
        raise InputError(f"{rule}; {file.name} is none")
    return result


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
