"""The integers modulo some number, as masked vectors are added up and as they travel: in whole words, or bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.prg import word_of
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.typing import Array

Elements = NDArray[np.int64]

MOST_BITS = 61
"""Of an element: two of them add up within 63."""
PIECE = 2**16
"""Elements whose bits are laid out at a time, a byte each: 4 MiB."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The integers modulo a number, prime or not: masks are uniform over all of it, whatever it is.

    Attributes:
        modulus: 2 to 2^61.
        packed: whether an element takes as many bits on the wire as the modulus has, and not the least word of 8, 16,
            32 or 64 that holds it.
    """

    modulus: int
    packed: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.modulus <= 2**MOST_BITS:
            raise InputError(f"modulus must lie in 2..2^{MOST_BITS}; found {self.modulus}")

    @classmethod
    def least(cls, largest: int) -> Ring:
        """The smallest one of 2^k elements in which sums of magnitude up to `largest` do not wrap, packed.

        Raises:
            InputError: the magnitude is not in 1 .. 2^60 - 1.
        """
        if not 1 <= largest < 2 ** (MOST_BITS - 1):
            raise InputError(f"largest must lie in 1..2^{MOST_BITS - 1} - 1; found {largest}")
        return cls(2 ** (2 * largest).bit_length(), packed=True)

    @property
    def bits(self) -> int:
        """Of an element."""
        return (self.modulus - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a field of elements as it travels."""
        return np.dtype(np.uint8) if self.packed else word_of(self.modulus)[0]

    def entries(self, length: int) -> int:
        """Entries of that type in which so many elements travel."""
        return -(-length * self.bits // 8) if self.packed else length

    def add(self, a: Elements, b: Elements) -> Elements:
        """The sum of elements, with broadcasting: int64."""
        total: Elements = a + b
        total -= np.where(total >= self.modulus, self.modulus, 0)
        return total

    def written(self, values: Elements) -> Array:
        """Elements [..., n] as they travel, [..., entries(n)]."""
        if not self.packed:
            return values.view(self.dtype) if self.dtype.itemsize == 8 else values.astype(self.dtype)  # of int64
        out = np.zeros((*values.shape[:-1], self.entries(values.shape[-1])), dtype=np.uint8)
        for place in np.ndindex(values.shape[:-1]):
            out[place] = _packed(values[place], self.bits)
        return out

    def read(self, array: Array, length: int) -> Elements:
        """The elements that have travelled: int64 [..., length].

        Args:
            array: [..., entries(length)], of the type in which they travel.
            length: how many.

        Raises:
            MalformedMessageError: a value is no element, or the bits behind the last one are not all 0.
        """
        if not self.packed:
            self._check(array)
            return array.view(np.int64) if array.itemsize == 8 else array.astype(np.int64)
        values = np.zeros((*array.shape[:-1], length), dtype=np.int64)
        if any(_unpacked(array[place], self.bits, values[place]) for place in np.ndindex(array.shape[:-1])):
            raise MalformedMessageError("bits behind the last element must be 0; they are not")
        self._check(values)
        return values

    def _check(self, values: Array) -> None:
        if values.size and int(values.max()) >= self.modulus:
            raise MalformedMessageError(f"elements must be below {self.modulus}; at least one is not")


def _pieces(length: int) -> Iterator[slice]:
    """Pieces of a row whose bits, of any number an element, fill whole bytes; but for the last one."""
    return (slice(start, min(start + PIECE, length)) for start in range(0, length, PIECE))


def _packed(row: Elements, bits: int) -> Array:
    """A row's elements one behind the other, lowest bit first: uint8."""
    parts = [
        np.packbits(
            np.unpackbits(row[piece].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, :bits],
            bitorder="little",
        )
        for piece in _pieces(len(row))
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def _unpacked(packed: Array, bits: int, out: Elements) -> bool:
    """Reads what `_packed` wrote; says whether a bit behind the last element is not 0."""
    beyond = False
    for piece in _pieces(len(out)):
        count = piece.stop - piece.start
        first = piece.start * bits // 8
        flags = np.unpackbits(packed[first : first + -(-count * bits // 8)], bitorder="little")
        beyond = beyond or bool(flags[count * bits :].any())
        padded = np.zeros((count, 64), dtype=np.uint8)
        padded[:, :bits] = flags[: count * bits].reshape(count, bits)
        out[piece] = np.packbits(padded, axis=1, bitorder="little").view("<i8")[:, 0]
    return beyond
