"""Real numbers at few bits, rounded at random so that they are right on average, and integers in digits beside them.

Sums of such vectors over m parties stay within m times the largest entry, so that a ring of bits + log2(m) bits holds
them, whatever stands in them: a real number is a multiple of its part's unit, and an integer is cut into digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.quantization import Integers, check_finite, largest_magnitude
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError

Reals = NDArray[np.float64]

STEPS = 2**53
"""A fraction of a unit is told from another one to within 2^-53."""
_SLACK = 1 + 2.0**-40
"""What rounding to double precision may add to a number at its bound."""


def rounded_stochastically(values: Reals, coins: Coins, steps: int = STEPS) -> Integers:
    """Each number rounded to one of the two integers beside it, with the probability that makes it right on average.

    A number x is rounded up with probability ceil((x - floor x) steps) / steps: exact where the fraction is a multiple
    of 1 / steps, and else off by less than 1 / steps on average.

    Args:
        values: float64, of magnitude up to 2^52.
        coins: secret, of whose numbers they are; one draw for each.
        steps: equally likely outcomes of a draw.

    Returns:
        int64 of the same shape (behind the coins' own axes, where all tapes run at once).
    """
    low = np.floor(values)
    up = coins.uniform(steps, values.shape) < (values - low) * steps
    found: Integers = low.astype(np.int64) + up
    return found


@dataclass(frozen=True, slots=True)
class LowPrecision:
    """How a vector of real numbers in parts, and of integers behind them, is written.

    A number x of a part with bound B is a multiple of the unit B / L, where L = 2^(bits - 1) - 1 is the largest entry,
    or B / (L - 1) where there is room for an error of up to a unit that is fed back. Integers are cut into digits of
    bits - 1 bits with their sign, lowest digits first, all integers' digits of one place together.

    Attributes:
        bits: of an entry, its sign among them.
        lengths: of the parts.
        bounds: for each part the largest magnitude of a number.
        whole: how many integers there are.
        most: their largest magnitude.
        feedback: whether numbers come with the errors of a round before.
    """

    bits: int
    lengths: tuple[int, ...]
    bounds: tuple[float, ...]
    whole: int = 0
    most: int = 1
    feedback: bool = False

    def __post_init__(self) -> None:
        if self.bits < 3:
            raise InputError(f"bits must be at least 3; found {self.bits}")
        if len(self.bounds) != len(self.lengths):
            raise InputError(f"bounds must be {len(self.lengths)}, one for each part; found {len(self.bounds)}")
        for bound in self.bounds:
            if not (math.isfinite(bound) and bound > 0 and math.isfinite(self.largest / bound)):
                raise InputError(f"bounds must be positive numbers; found {bound}")

    @property
    def largest(self) -> int:
        """L, the largest magnitude of an entry."""
        return (1 << (self.bits - 1)) - 1

    @property
    def units(self) -> Reals:
        """What 1 stands for in each part."""
        return np.array(self.bounds, dtype=np.float64) / (self.largest - self.feedback)

    @property
    def size(self) -> int:
        """How many real numbers there are."""
        return sum(self.lengths)

    @property
    def digits(self) -> int:
        """Of an integer."""
        return max(-(-self.most.bit_length() // (self.bits - 1)), 1)

    @property
    def width(self) -> int:
        """Entries of a vector."""
        return self.size + self.digits * self.whole

    def encode(self, reals: Reals, integers: Integers, coins: Coins) -> tuple[Integers, Reals]:
        """A vector, and what it is off by.

        Args:
            reals: float64 [size], with what is fed back added to them.
            integers: int64 [whole].
            coins: secret, of whose numbers they are.

        Returns:
            int64 [width], and float64 [size]: the numbers less what is written of them.

        Raises:
            InputError: NaN or infinity, or another number of numbers.
            FieldRangeError: a number beyond its part's bound, or an integer beyond its own; it is not shown.
        """
        if reals.shape != (self.size,) or integers.shape != (self.whole,):
            raise InputError(f"numbers must be {self.size} and {self.whole} integers; found {reals.shape}")
        self._check(reals, integers)
        units = np.repeat(self.units, self.lengths)
        scaled = np.clip(reals / units, -self.largest, self.largest)
        written = rounded_stochastically(scaled, coins)
        return np.concatenate([written, self.cut(integers)]), reals - written * units

    def decode(self, total: Integers) -> tuple[Reals, Integers]:
        """The sums of the numbers, float64 [size], and of the integers, int64 [whole], from that of the vectors."""
        reals: Reals = total[: self.size].astype(np.float64) * np.repeat(self.units, self.lengths)
        return reals, joined(total[self.size :], self.whole, self.bits)

    def _check(self, reals: Reals, integers: Integers) -> None:
        check_finite(reals)
        ends = np.cumsum(self.lengths)
        for number, (length, end, bound, unit) in enumerate(
            zip(self.lengths, ends, self.bounds, self.units, strict=True)
        ):
            if largest_magnitude(reals[end - length : end]) > (bound + self.feedback * unit) * _SLACK:
                raise FieldRangeError(f"numbers of part {number} must not exceed {bound:g}; at least one does")
        if largest_magnitude(integers) > self.most:
            raise FieldRangeError(f"integers must not exceed {self.most:,}; at least one does")

    def cut(self, integers: Integers) -> Integers:
        """The digits of integers [whole], int64 [digits * whole]."""
        places = np.arange(self.digits)[:, None] * (self.bits - 1)
        digits: Integers = (np.abs(integers) >> places) & self.largest
        return (np.sign(integers) * digits).reshape(-1)


def joined(digits: Integers, whole: int, bits: int) -> Integers:
    """Sums of integers from those of their digits, int64 [places * whole]: int64 [whole]."""
    rows = digits.reshape(-1, whole) if whole else np.zeros((0, 0), dtype=np.int64)
    total = np.zeros(whole, dtype=np.int64)
    for row in reversed(rows):
        total = total * 2 ** (bits - 1) + row
    return total


def check_lengths(lengths: Sequence[int], size: int) -> tuple[int, ...]:
    """Lengths of parts, if they are those of so many numbers.

    Raises:
        InputError: they are not.
    """
    found = tuple(int(length) for length in lengths)
    if min(found, default=0) < 0 or sum(found) != size:
        raise InputError(f"parts must be lengths that add up to {size}; found {sum(found)}")
    return found
