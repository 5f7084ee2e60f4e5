"""The integers modulo some number, as masked vectors are added up and as they travel: in whole words, or bit by bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.prg import word_of
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.jit import njit

Elements = NDArray[np.int64]
Array = NDArray[Any]

MOST_BITS = 61
"""Of an element: two of them add up within 63."""


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
        count = math.prod(values.shape[:-1])
        rows = np.ascontiguousarray(values).reshape(count, values.shape[-1])
        _pack(rows, self.bits, out.reshape(count, out.shape[-1]))
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
        given, count = np.ascontiguousarray(array), math.prod(array.shape[:-1])
        values = np.zeros((*given.shape[:-1], length), dtype=np.int64)
        if _unpack(given.reshape(count, given.shape[-1]), self.bits, values.reshape(count, length)):
            raise MalformedMessageError("bits behind the last element must be 0; they are not")
        self._check(values)
        return values

    def _check(self, values: Array) -> None:
        if values.size and int(values.max()) >= self.modulus:
            raise MalformedMessageError(f"elements must be below {self.modulus}; at least one is not")


@njit(boundscheck=False)
def _pack(rows: Elements, bits: int, out: Array) -> None:
    """Writes each row's elements one behind the other, lowest bit first."""
    for row in range(len(rows)):
        held, filled, at = np.uint64(0), 0, 0
        for value in rows[row]:
            left, rest = bits, np.uint64(value)
            while left > 0:
                step = min(left, 32)  # at most 7 bits are held, so nothing is shifted out
                held |= (rest & np.uint64((1 << step) - 1)) << np.uint64(filled)
                rest >>= np.uint64(step)
                filled += step
                left -= step
                while filled >= 8:
                    out[row, at] = held & np.uint64(255)
                    held >>= np.uint64(8)
                    filled -= 8
                    at += 1
        if filled:
            out[row, at] = held


@njit(boundscheck=False)
def _unpack(packed: Array, bits: int, out: Elements) -> int:
    """Reads what `_pack` wrote; says which bits behind the last element are not 0 in some row."""
    beyond = 0
    for row in range(len(packed)):
        held, filled, at = np.uint64(0), 0, 0
        for place in range(out.shape[1]):
            value, done = np.uint64(0), 0
            while done < bits:
                if not filled:
                    held, filled = np.uint64(packed[row, at]), 8
                    at += 1
                step = min(bits - done, filled)
                value |= (held & np.uint64((1 << step) - 1)) << np.uint64(done)
                held >>= np.uint64(step)
                filled -= step
                done += step
            out[row, place] = value
        beyond |= int(held)
    return beyond
