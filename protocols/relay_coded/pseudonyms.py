"""Pseudonyms of groups: each commits to one value for every relay, and a relay answers the owner of what it is made of.

What an owner shows one relay is of no use at any other, so no relay can fetch a sum with what an owner sent it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fgl_secure.typing import Ids

_LEAVES = b"fgl-secure one-way function tags"
_LOW_63 = np.int64(2**63 - 1)


class Pseudonyms:
    """The pseudonyms of the groups of one process's owners, and what its relays are shown.

    Relays that agree are shown openings of the same values, and hash them once where one process hosts several.
    """

    def __init__(self) -> None:
        self._leaves: Ids = np.empty((0, 0, 2), dtype=np.int64)
        self._known: Ids = np.empty((0, 2), dtype=np.int64)

    def derived(self, openings: Ids, place: int) -> Ids:
        """Return what opens pseudonyms at one relay, by its place: int64 [g, 2]; it hides the others."""
        return one_way(openings, sha256(b"fgl-secure relay-coded opening" + struct.pack(">I", place)).digest())

    def of(self, openings: Ids, relays: int) -> Ids:
        """Return the pseudonyms of openings [g, 2] for so many relays: int64 [g, 2]."""
        return pseudonyms_of(one_way(self._derived(openings, relays)))

    def proofs(self, openings: Ids, relays: int) -> Iterator[Ids]:
        """Yield for each of R relays the proof of ownership for the groups of openings [g, 2]: int64 [g, R, 2]."""
        derived = self._derived(openings, relays)
        leaves = one_way(derived)
        for place in range(relays):
            shown = leaves.copy()
            shown[:, place] = derived[:, place]
            yield shown

    def opened(self, proofs: Ids, place: int) -> Ids:
        """Return the pseudonyms that the relay at a place is shown the openings of: int64 [g, 2]."""
        leaves = proofs.copy()
        leaves[:, place] = one_way(proofs[:, place])
        if not np.array_equal(leaves, self._leaves):
            self._leaves, self._known = leaves, pseudonyms_of(leaves)
        return self._known

    def _derived(self, openings: Ids, relays: int) -> Ids:
        return np.stack([self.derived(openings, place) for place in range(relays)], axis=1)


def one_way(blocks: Ids, name: bytes = _LEAVES) -> Ids:
    """A one-way function: Davies and Meyer's construction from AES under a fixed public key, x -> AES(x) xor x.

    Args:
        blocks: int64 [..., 2], secret and uniform below 2^63.
        name: 32 bytes; under another one it is an independent function.

    Returns:
        int64 [..., 2], non-negative.
    """
    blocks = np.ascontiguousarray(blocks)
    permutation = Cipher(algorithms.AES256(name), modes.ECB()).encryptor()  # noqa: S305  # no secrecy asked
    image = np.frombuffer(permutation.update(blocks.tobytes()), dtype=np.int64).reshape(blocks.shape)
    return (image ^ blocks) & _LOW_63


def pseudonyms_of(leaves: Ids) -> Ids:
    """Return the pseudonyms that commit to what all relays are shown: 126 bits of SHA-256.

    Args:
        leaves: int64 [g, R, 2], one for each relay.

    Returns:
        int64 [g, 2], non-negative.
    """
    data, size = memoryview(leaves.tobytes()), leaves.shape[1] * 2 * leaves.itemsize
    digests = b"".join(sha256(data[start : start + size]).digest() for start in range(0, len(data), size))
    return np.frombuffer(digests, dtype=np.int64).reshape(len(leaves), -1)[:, :2] & _LOW_63
