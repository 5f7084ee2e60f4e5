"""Real numbers of sums for the server at few bits: their ranges, what rounds them, and what they stand for."""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.levels import Levels
from fgl_secure.algebra.quantization import FixedPoint, Integers, LowPrecision, joined
from fgl_secure.coins import Coins
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Step

Reals = NDArray[np.float64]

LOWEST = -40
"""Binary exponent of the range of a part that is zero everywhere, or nearly so."""
_LABEL = b"fgl-secure rounding/v1"


class StepCoins(Coins):
    """A silo's coins for one step, which are the same where its round is run again: nobody else knows its key.

    Args:
        key: 32 secret bytes, of the silo's own coins.
        step: of a sum; every sum has another one.
    """

    __slots__ = ("_stream",)

    def __init__(self, key: bytes, step: Step) -> None:
        self._stream = FieldStream(hmac.digest(key, _LABEL + step_bytes(step), "sha256"))

    def __repr__(self) -> str:
        return "StepCoins(<secret>)"

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """No leading axes: one run."""
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> Integers:
        """Draws int64 [*shape], uniform on 0 .. modulus - 1."""
        return self._stream.uniform(modulus, math.prod(shape)).reshape(shape)


def rounding_key(coins: Coins) -> bytes:
    """A silo's key, for all that it rounds in a run: 32 secret bytes."""
    return bytes(coins.uniform(256, (KEY_BYTES,)).tolist())


@dataclass(frozen=True, slots=True)
class Parts:
    """Numbers that are summed at few bits, part by part, each in a range of its own.

    Attributes:
        lengths: of the parts.
        grid: says what numbers there may be, before they are weighted.
        heaviest: the largest weight.
    """

    lengths: tuple[int, ...]
    grid: FixedPoint
    heaviest: int = 1

    @property
    def exponents(self) -> list[int]:
        """For each level the exponent that magnitudes stay within when it is the highest one reached.

        Up to twice the bound, for the errors that are added.
        """
        return list(range(LOWEST, math.ceil(math.log2(self.grid.bound * self.heaviest)) + 2))

    def levels(self, modulus: int) -> Levels:
        """By which ranges are found, to within a factor of two."""
        above = (0.0, *(2.0**e for e in self.exponents[:-1]))
        return Levels(modulus, (above,) * len(self.lengths))

    def weighted(self, values: NDArray[np.floating], weight: int = 1) -> Reals:
        """Numbers times their weight, float64.

        Raises:
            InputError: a number is not finite.
            FieldRangeError: one is beyond the bound; it is not shown.
        """
        self.grid.encode(values)
        return np.asarray(values, dtype=np.float64) * weight

    def magnitudes(self, values: Reals) -> list[float]:
        """The largest magnitude of each part of the values."""
        ends = np.cumsum((0, *self.lengths))
        return [float(np.abs(values[a:b]).max(initial=0.0)) for a, b in pairwise(ends)]

    def bounds(self, reached: Sequence[int]) -> tuple[float, ...]:
        """The range of each part, of which so many levels are reached."""
        return tuple(2.0 ** self.exponents[max(count - 1, 0)] for count in reached)


@dataclass(frozen=True, slots=True)
class RoundedUnits:
    """What entries of a vector stand for, where recordings have reals: its numbers, and the integers behind them.

    Attributes:
        numbers: how they are written.
    """

    numbers: LowPrecision

    def encode(self, rows: Reals) -> Integers:
        """Int64 [k, width] of reals [k, size + whole] that are multiples of units, and integers."""
        numbers, at = self.numbers, self.numbers.size
        units = np.rint(rows[..., :at] / np.repeat(numbers.units, numbers.lengths)).astype(np.int64)
        whole = [numbers.cut(row) for row in np.rint(rows[..., at:]).astype(np.int64)]
        return np.concatenate([units, np.stack(whole)], axis=-1)

    def decode(self, sums: Integers) -> Reals:
        """Float64 [k, size + whole] of integers [k, width]."""
        return np.stack([np.concatenate(self.numbers.decode(row)) for row in sums]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Digits:
    """Which entries at the end of a sum are digits of integers, for who tells the sum.

    Attributes:
        whole: how many integers; 0 where no entries are digits.
        places: digits of each.
        bits: of an entry.
    """

    whole: int = 0
    places: int = 0
    bits: int = 0

    @classmethod
    def of(cls, numbers: LowPrecision | None) -> Digits:
        """Of a vector; none unless its numbers have few bits."""
        return cls() if numbers is None else cls(numbers.whole, numbers.digits, numbers.bits)

    @property
    def array(self) -> Integers:
        """Int64 [3], all of it."""
        return np.array([self.whole, self.places, self.bits], dtype=np.int64)

    @property
    def spared(self) -> int:
        """By how many entries a sum is shorter when its integers are put together."""
        return self.whole * max(self.places - 1, 0)

    def together(self, total: Integers) -> Integers:
        """A sum with its integers put together."""
        if not self.whole:
            return total
        at = len(total) - self.whole * self.places
        return np.concatenate([total[:at], joined(total[at:], self.whole, self.bits)])


NO_DIGITS = Digits()
