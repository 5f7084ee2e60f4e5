"""Real numbers as field elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra.array_kinds import arithmetic_of
from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.errors import FieldRangeError, InputError

LARGEST_ENCODED = 2.0**62
"""Beyond it a scaled value would no longer fit the integers that it passes through."""


class Overflow(StrEnum):
    """What happens to values and sums that do not fit."""

    REFUSE = "refuse"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """A map from real numbers to field elements under which sums stay exact.

    A value v becomes round(v * 2^fraction_bits) modulo p, halves away from zero. Up to `terms` values of magnitude
    `bound` may be added: the set-up refuses unless terms * bound * 2^fraction_bits < p / 2 (rounding included), and
    `encode` refuses values beyond the bound. A decoded sum of k terms is off by at most k * 2^-(fraction_bits + 1).

    Attributes:
        field: the field of the elements.
        bound: largest magnitude of one value, in the values' own unit.
        fraction_bits: bits behind the binary point.
        terms: most values in one sum.
        overflow: REFUSE, or WRAP for a replica of a published scheme that states no range; wrapping is never silent,
            because only a caller who writes WRAP gets it.
    """

    field: PrimeField
    bound: float
    fraction_bits: int
    terms: int
    overflow: Overflow = Overflow.REFUSE

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        if self.terms < 1:
            raise InputError(f"terms must be at least 1; found {self.terms}")
        if not 0 <= self.fraction_bits <= 52:
            raise InputError(f"fraction_bits must lie in 0..52; found {self.fraction_bits}")
        if self.overflow is Overflow.REFUSE and not _fits(self.field, self.bound, self.fraction_bits, self.terms):
            raise FieldRangeError(
                f"terms * bound * 2^fraction_bits must stay below p / 2 = {self.field.modulus / 2:g}; found "
                f"{self.terms} * {self.bound:g} * 2^{self.fraction_bits} = "
                f"{self.terms * self.bound * 2**self.fraction_bits:g}"
            )

    @classmethod
    def for_sums(cls, field: PrimeField, *, bound: float, terms: int) -> FixedPoint:
        """The most precise map for sums of up to `terms` values of magnitude up to `bound`."""
        _check_bound(bound)
        for fraction_bits in range(40, -1, -1):
            if _fits(field, bound, fraction_bits, terms):
                return cls(field, bound, fraction_bits, terms)
        return cls(field, bound, 0, terms)  # raises, with the figures

    @property
    def resolution(self) -> float:
        """Distance between neighbouring representable values."""
        return 2.0**-self.fraction_bits

    @overload
    def encode(self, values: torch.Tensor) -> torch.Tensor: ...
    @overload
    def encode(self, values: NDArray[np.floating[Any]]) -> Elements: ...
    def encode(self, values: Any) -> Any:
        """Maps values, an array or a tensor, to elements of the same shape and kind.

        Raises:
            InputError: a value is NaN or infinite.
            FieldRangeError: a value exceeds the bound (unless wrapping was asked for), or 2^62 after scaling.
        """
        arithmetic, _ = arithmetic_of(values)
        magnitude, scale = arithmetic.largest_magnitude(values), 2.0**self.fraction_bits
        if not math.isfinite(magnitude):
            raise InputError("values must be finite; found NaN or infinity")
        if self.overflow is Overflow.REFUSE and magnitude > self.bound:
            raise FieldRangeError(f"values must not exceed the bound {self.bound:g}; found magnitude {magnitude:g}")
        if magnitude * scale >= LARGEST_ENCODED:
            raise FieldRangeError(f"values * 2^fraction_bits must stay below 2^62; found magnitude {magnitude:g}")
        return arithmetic.encode_fixed(values, scale, self.field.modulus)

    @overload
    def decode(self, elements: torch.Tensor) -> torch.Tensor: ...
    @overload
    def decode(self, elements: Elements) -> NDArray[np.float64]: ...
    def decode(self, elements: Any) -> Any:
        """Maps elements to the representatives of least magnitude, as float64 of the same shape."""
        arithmetic, _ = arithmetic_of(elements)
        return arithmetic.decode_fixed(elements, 2.0**self.fraction_bits, self.field.modulus)


def _check_bound(bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound must be a positive number; found {bound}")


def _fits(field: PrimeField, bound: float, fraction_bits: int, terms: int) -> bool:
    scaled = bound * 2.0**fraction_bits
    if scaled >= field.modulus:  # also infinite, which has no floor
        return False
    largest_element = math.floor(scaled + 0.5)
    return bool(terms * largest_element < field.modulus / 2)
