"""Mask secrets shared among a sender's neighbours: Shamir's scheme, as Lagrange coding with one data row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, LagrangeCode, PrimeField
from fgl_secure.coins import Coins
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import ProtocolError

SEED_BITS = 8 * KEY_BYTES


def words_per_seed(field: PrimeField) -> int:
    """Elements that hold a seed of 256 bits, each floor(log2 p) of them."""
    return -(-SEED_BITS // _word_bits(field))


def words_of(field: PrimeField, seeds: NDArray[np.uint8]) -> Elements:
    """Seeds as elements: uint8 [n, 32] to [n, words]."""
    bits, count = _word_bits(field), words_per_seed(field)
    whole = [int.from_bytes(seed.tobytes(), "little") for seed in seeds]
    words = [[(value >> (bits * at)) & (2**bits - 1) for at in range(count)] for value in whole]
    return np.array(words, dtype=field.dtype).reshape(len(seeds), count)


def seed_of(field: PrimeField, words: Elements) -> bytes:
    """The seed that elements [words] hold.

    Raises:
        ProtocolError: they hold no seed, so the shares that they were opened from are not those of one.
    """
    bits = _word_bits(field)
    value = sum(int(word) << (bits * at) for at, word in enumerate(words.tolist()))
    if any(int(word) >> bits for word in words.tolist()) or value >> SEED_BITS:
        raise ProtocolError(f"opened shares must hold a seed of {SEED_BITS} bits; they hold none")
    return value.to_bytes(KEY_BYTES, "little")


def _word_bits(field: PrimeField) -> int:
    return field.modulus.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Sharing:
    """Shamir's scheme for the secrets of m senders; sender v holds the share at the v-th point of every secret.

    Attributes:
        field: of secrets and shares.
        senders: m.
        needed: shares that open a secret; one fewer tell nothing.
    """

    field: PrimeField
    senders: int
    needed: int

    @property
    def code(self) -> LagrangeCode:
        """The code; raises `FieldRangeError` for a field with fewer than m + needed elements."""
        return LagrangeCode(self.field, 1, self.needed - 1, self.senders)

    def share(self, secrets: Elements, coins: Elements) -> Elements:
        """Shares of secrets: elements [..., w] with fresh uniform coins [..., needed - 1, w] to [..., m, w]."""
        first = np.expand_dims(secrets, -2)
        return self.field.combine_two(self.code.encoding_matrix, first, coins, axis=secrets.ndim - 1)

    def open(self, shares: Elements, holders: Sequence[int], coins: Coins | None) -> Elements:
        """Secrets from the shares of some holders, wrong ones corrected as far as there are more than needed.

        Args:
            shares: elements [holders, ...].
            holders: whose they are, at least `needed`.
            coins: for locating errors; they never change the answer. None corrects nothing and notices all the more.

        Raises:
            TooManyErrors: shares contradict each other and the wrong ones cannot be told.
        """
        errors = 0 if coins is None else (len(holders) - self.needed) // 2
        decoded = self.code.decode(shares, holders, max_errors=errors, coins=coins)
        return np.asarray(decoded.blocks[0])
