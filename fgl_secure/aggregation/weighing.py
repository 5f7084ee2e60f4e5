"""What weights there may be, and how they become integers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fgl_secure.aggregation.arguments import number_of
from fgl_secure.errors import FieldRangeError, InputError


@dataclass(frozen=True, slots=True)
class Weighing:
    """What weights there may be.

    Attributes:
        bound: the largest one.
        fraction_bits: they are rounded to multiples of 2^-fraction_bits; with none they must be integers.
    """

    bound: float = 1.0
    fraction_bits: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fraction_bits <= 40:
            raise InputError(f"weight_fraction_bits must lie in 0..40; found {self.fraction_bits}")
        if not (math.isfinite(self.bound) and 1 <= self.bound * 2.0**self.fraction_bits <= 2**53):
            raise InputError(
                f"weight_bound * 2^weight_fraction_bits must lie in 1..2^53; found {self.bound} * "
                f"2^{self.fraction_bits}"
            )

    @property
    def most(self) -> int:
        """The largest weight in units."""
        return math.ceil(self.bound * 2.0**self.fraction_bits)

    def units(self, weight: float) -> int:
        """A weight in units of 2^-fraction_bits.

        Raises:
            InputError: it is no number, negative, no integer where integers are due, or rounds to nothing. Its value
                is not shown.
            FieldRangeError: it is beyond the bound.
        """
        value = number_of(weight, "weight")
        if not (math.isfinite(value) and value >= 0):
            raise InputError("weight must be a number of at least 0; it is not")
        if value > self.bound:
            raise FieldRangeError(f"weight must not exceed weight_bound = {self.bound:g}; it does")
        if not self.fraction_bits and not value.is_integer():
            raise InputError("weight must be an integer unless weight_fraction_bits is given; it is not")
        units = round(value * 2.0**self.fraction_bits)
        if value and not units:
            raise InputError(f"weight must be 0 or above 2^-{self.fraction_bits + 1}; it is between")
        return units


UNWEIGHTED = Weighing()
"""Every client counts once, or not at all."""
