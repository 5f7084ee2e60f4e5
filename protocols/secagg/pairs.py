"""Keys that clients of one sum share with each other, for what they seal and for their votes.

Every client seals something for each of the others at one time, before it has heard anything but public keys. So
where keys are hybrid each wraps a secret in front of what it seals, and a pair has two keys: one for what either end
says. A key that seals or votes is then hidden from a party that breaks X25519 or ML-KEM, but not both. With X25519
alone both are the same, and known as soon as the public keys are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.typing import Array, Bytes, Flags

PairIds = tuple[int, int]
"""Party identifiers of who says something, and of who hears it."""


def check_usable(cryptography: Cryptography, publics: Mapping[int, bytes]) -> None:
    """Raise ProtocolError for public keys, by party, that are unusable, before anything is wrapped for them.

    Where nothing is wrapped, agreeing finds it.
    """
    for name, public in publics.items() if cryptography.wrapped_bytes else ():
        if not cryptography.usable(public):
            raise ProtocolError(
                f"the key of party {name} must not be a public key of low order, and must hold one of ML-KEM-768"
            )


class Publics:
    """Public keys of others, as clients of one process were told them; one that many were told is kept once.

    Args:
        clients: h.
        others: k, places of others.
        size: bytes of a key.
    """

    def __init__(self, clients: int, others: int, size: int) -> None:
        self._size, self._number = size, dict[bytes, int]()
        self._which = np.full((clients, others), -1, dtype=np.int64)
        self._keys: list[bytes] = []

    def put(self, index: int, j: int, public: bytes) -> None:
        """Keeps the key of one of the others of a client."""
        if public not in self._number:
            self._number[public] = len(self._keys)
            self._keys.append(public)
        self._which[index, j] = self._number[public]

    def get(self, index: int, j: int) -> bytes:
        """That key; zeros where there is none."""
        number = int(self._which[index, j])
        return bytes(self._size) if number < 0 else self._keys[number]

    def arrays(self) -> tuple[Array, Array]:
        """For a state: uint8 [keys, size], and int64 [h, k], which of them."""
        return np.frombuffer(b"".join(self._keys), dtype=np.uint8).reshape(len(self._keys), self._size), self._which

    def restore(self, keys: Array, numbers: Array) -> None:
        """Goes on from arrays."""
        self._keys, self._which = [key.tobytes() for key in keys], numbers
        self._number = {key: index for index, key in enumerate(self._keys)}


class PairwiseKeys:
    """The keys of some clients, each with up to k others, by place among those.

    Args:
        cryptography: agrees on keys, seals and votes.
        clients: h.
        others: k.

    Attributes:
        has: bool [h, k], with whom a client has keys.
    """

    def __init__(self, cryptography: Cryptography, clients: int, others: int) -> None:
        self._crypto, shape = cryptography, (clients, others)
        self.has: Flags = np.zeros(shape, dtype=np.bool_)
        self._send_keys: Bytes = np.zeros((*shape, KEY_BYTES), dtype=np.uint8)
        self._receive_keys: Bytes = np.zeros((*shape, KEY_BYTES), dtype=np.uint8)
        self._publics = Publics(*shape, cryptography.public_bytes if cryptography.wrapped_bytes else 0)

    def box_bytes(self, count: int) -> int:
        """Bytes of so many elements as they are sealed here, with what is wrapped in front of them."""
        return self._crypto.wrapped_bytes + self._crypto.sealed_bytes(count)

    def agree(
        self, index: int, secret: bytes, context: Context, owner: int, others: Mapping[int, tuple[int, bytes]]
    ) -> None:
        """Keys for what a client says.

        Args:
            index: the client's place.
            secret: of its key pair.
            context: of the sum.
            owner: its party identifier.
            others: party identifiers and public keys, by place.

        Raises:
            ProtocolError: a public key is not usable; nothing has changed.
        """
        c, publics = self._crypto, dict(others.values())
        check_usable(c, publics)
        keys = c.agree(secret, context, KeyPurpose.PAIR, owner, publics)
        for j, (name, public) in others.items():
            self.has[index, j], self._send_keys[index, j] = True, np.frombuffer(keys[name], dtype=np.uint8)
            if c.wrapped_bytes:
                self._publics.put(index, j, public)
            else:
                self._receive_keys[index, j] = self._send_keys[index, j]

    def wrap_keys(
        self, index: int, secret: bytes, context: Context, owner: int, names: Mapping[int, int]
    ) -> dict[int, bytes]:
        """What goes in front of what a client seals for others, by their places.

        Args:
            index: the client's place.
            secret: of its key pair.
            context: of the sum.
            owner: its party identifier.
            names: those of the others, by place.
        """
        publics = {name: self._publics.get(index, j) for j, name in names.items()}
        result = self._crypto.wrap_keys(secret, context, KeyPurpose.PAIR, owner, publics)
        return {j: result[name] for j, name in names.items()}

    def seal(self, index: int, j: int, wrapped: bytes, context: Context, ends: PairIds, values: Elements) -> bytes:
        """Elements for one of the others alone, `box_bytes` of them.

        Args:
            index: the client's place.
            j: the other's.
            wrapped: for that one.
            context: of the sum.
            ends: who seals, and for whom.
            values: elements [*tapes, count].
        """
        return wrapped + self._crypto.seal(self._send_keys[index, j].tobytes(), context, *ends, values)

    def unwrap_keys(
        self, index: int, secret: bytes, context: Context, owner: int, boxes: Mapping[int, tuple[int, bytes]]
    ) -> dict[int, bytes]:
        """Keys for what a client hears, from what others wrapped for it in front of their boxes, by their places.

        Those of whom nothing opens are not there.

        Args:
            index: the client's place.
            secret: of its key pair.
            context: of the sum.
            owner: its party identifier.
            boxes: party identifiers and boxes, by place of the other.
        """
        size = self._crypto.wrapped_bytes
        if not size:
            return {j: self._receive_keys[index, j].tobytes() for j in boxes}
        wrapped = {j: (name, box[:size]) for j, (name, box) in boxes.items()}
        try:
            return self._unwrap(index, secret, context, owner, wrapped)
        except ProtocolError:  # of one of them: the others count
            item = (self._unwrap_single(index, secret, context, owner, {j: one}) for j, one in wrapped.items())
            return {j: key for result in item for j, key in result.items()}

    def _unwrap_single(
        self, index: int, secret: bytes, context: Context, owner: int, one: Mapping[int, tuple[int, bytes]]
    ) -> dict[int, bytes]:
        try:
            return self._unwrap(index, secret, context, owner, one)
        except ProtocolError:
            return {}

    def _unwrap(
        self, index: int, secret: bytes, context: Context, owner: int, wrapped: Mapping[int, tuple[int, bytes]]
    ) -> dict[int, bytes]:
        publics = {name: self._publics.get(index, j) for j, (name, _) in wrapped.items()}
        keys = self._crypto.agree(secret, context, KeyPurpose.PAIR, owner, publics, 0, dict(wrapped.values()))
        return {j: keys[name] for j, (name, _) in wrapped.items()}

    def unseal(self, key: bytes | None, context: Context, ends: PairIds, box: bytes, count: int) -> Elements:
        """What one of the others sealed: elements [*tapes, count].

        Args:
            key: as `unwrap_keys` gives it; None for none.
            context: of the sum.
            ends: who sealed, and for whom.
            box: as `seal` made it.
            count: of elements.

        Raises:
            ProtocolError: see `Cryptography.unseal`.
        """
        if key is None:
            raise ProtocolError(
                f"a box of party {ends[0]} must be sealed for party {ends[1]} in this session and step; it is not"
            )
        return self._crypto.unseal(key, context, *ends, box[self._crypto.wrapped_bytes :], count)

    def keep(self, index: int, keys: Mapping[int, bytes]) -> None:
        """Keeps keys that were heard, for votes."""
        for j, key in keys.items():
            self._receive_keys[index, j] = np.frombuffer(key, dtype=np.uint8)

    def vote(self, index: int, j: int, context: Context, ends: PairIds, digest: bytes) -> Bytes:
        """A client's word to one of the others: uint8 [vote_bytes]."""
        tag = self._crypto.vote(self._send_keys[index, j].tobytes(), context, *ends, digest)
        return np.frombuffer(tag, dtype=np.uint8)

    def is_vote(self, index: int, j: int, context: Context, ends: PairIds, digest: bytes, tag: bytes) -> bool:
        """Whether the word of one of the others is for a digest; never where there is no key to tell by."""
        key = self._receive_keys[index, j]
        return bool(key.any()) and self._crypto.is_vote(tag, key.tobytes(), context, *ends, digest)

    def forget(self, clients: Iterable[int] | Array) -> None:
        """Forgets the keys of some clients."""
        index = np.asarray(clients)
        self._send_keys[index], self._receive_keys[index] = 0, 0

    def arrays(self) -> dict[str, Array]:
        """All of it, for a state."""
        publics, numbers = self._publics.arrays()
        ends = {"has": self.has, "says": self._send_keys, "hears": self._receive_keys}
        return {**ends, "publics": publics, "which public": numbers}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from arrays."""
        self.has = arrays["has"]
        self._publics.restore(arrays["publics"], arrays["which public"])
        self._send_keys, self._receive_keys = arrays["says"], arrays["hears"]
