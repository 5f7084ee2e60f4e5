"""One TenSEAL vector a row, as a first user of TenSEAL would write a sum of matrices: what our packing is held against.

Degree 8192, primes of 60, 40, 40 and 60 bits and a scale of 2^40 are those of TenSEAL's own tutorials. They allow two
multiplications that a sum doesn't need. Sums are approximate, and nothing is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tenseal

DEGREE, PRIMES, SCALE = 8192, (60, 40, 40, 60), 2.0**40
SLOTS = DEGREE // 2
"""Numbers in one ciphertext."""


class RowVectors:
    """The receiver's context, with its secret key, and the public copy of every other party."""

    __slots__ = ("_private", "_public", "context_bytes")

    def __init__(self) -> None:
        self._private = tenseal.context(tenseal.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=list(PRIMES), n_threads=1)
        self._private.global_scale = SCALE
        public: bytes = self._private.serialize(save_secret_key=False)
        self._public = tenseal.context_from(public, n_threads=1)
        self.context_bytes = len(public)

    def __repr__(self) -> str:
        return "RowVectors(secret=<secret>)"

    def encrypt(self, row: Sequence[float]) -> bytes:
        """A sender's ciphertext of one row of up to 4096 numbers."""
        made: bytes = tenseal.ckks_vector(self._public, row).serialize()
        return made

    def add(self, terms: Sequence[bytes]) -> bytes:
        """The server's sum of the same row of several senders."""
        total: Any = tenseal.ckks_vector_from(self._public, terms[0])
        for term in terms[1:]:
            total += tenseal.ckks_vector_from(self._public, term)
        made: bytes = total.serialize()
        return made

    def decrypt(self, total: bytes) -> list[float]:
        """The receiver's row, approximately."""
        result: list[float] = tenseal.ckks_vector_from(self._private, total).decrypt()
        return result
