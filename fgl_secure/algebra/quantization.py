"""Real numbers as integers whose sums are exact: range, weights, rounding and overflow, once for everybody.

`Quantizer` is for vectors that a scheme adds up as integers, `FixedPoint` for rows that become elements of a field.
Both take the most bits behind the binary point for which sums stay within what can be told apart, and both refuse what
does not fit; nothing saturates or wraps in silence, and no message shows a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, overload

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra.array_kinds import arithmetic_of
from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.jit import njit

Integers = NDArray[np.int64]

LARGEST_ENCODED = 2.0**62
"""Beyond it a scaled value would no longer fit the integers that it passes through."""
SPARE_BITS = 6
"""By which a bound that an error names exceeds the power of two above the values, which may grow."""
FINEST = 40
"""Most bits behind the binary point of field elements."""
_MOST_EXPONENT = 1000
"""Powers of two below it are floats, and so are their inverses."""


def units_of(bound: float, fraction_bits: int) -> int:
    """The largest magnitude of round(x 2^f) for |x| <= bound, however halves are rounded."""
    return math.floor(math.ldexp(bound, fraction_bits) + 0.5)


def most_fraction_bits(bound: float, room: int) -> int:
    """The most bits behind the binary point for which a number up to `bound` has up to `room` units; may be negative.

    Raises:
        InputError: the bound is no positive number.
    """
    _check_bound(bound)
    bits = room.bit_length() - math.frexp(bound)[1]
    return bits if units_of(bound, bits) <= room else bits - 1


def rounded(
    values: NDArray[np.floating[Any]],
    fraction_bits: int,
    kind: type[np.integer[Any]] = np.int64,
    out: Integers | None = None,
) -> Integers:
    """round(x 2^f), halves to even; each at most half a unit off.

    Args:
        values: of any float type.
        fraction_bits: f.
        kind: of the integers.
        out: where they go, contiguous and of the shape of the values; None for a new array of that kind.
    """
    out = np.empty(values.shape, dtype=kind) if out is None else out
    native = values.dtype.newbyteorder("=")
    wide = np.float64 if abs(fraction_bits) >= _MOST_EXPONENT else np.float32 if native == np.float16 else native
    flat = np.ascontiguousarray(values.reshape(-1), dtype=wide)
    if abs(fraction_bits) >= _MOST_EXPONENT:
        flat, fraction_bits = scaled(flat, fraction_bits), 0
    _round(flat, 2.0**fraction_bits, out.reshape(-1))
    return out


@njit(boundscheck=False)
def _round(values: NDArray[np.floating[Any]], scale: float, out: Integers) -> None:
    """out[i] = values[i] * scale in float64, to the nearest integer."""
    for i in range(len(values)):
        out[i] = np.int64(np.rint(np.float64(values[i]) * scale))


def scaled(values: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """X 2^e, as `numpy.ldexp` has it, which takes ten times as long."""
    near = abs(exponent) < _MOST_EXPONENT
    found: NDArray[np.float64] = values * 2.0**exponent if near else np.ldexp(values, exponent)
    return found


def largest_magnitude(values: NDArray[Any]) -> float:
    """The largest magnitude; 0 for no values, NaN where there is one."""
    if not values.size:
        return 0.0
    return float(max(-float(values.min()), float(values.max())))  # a NaN is both


def check_bits(values: NDArray[np.floating[Any]], bits: int, what: str) -> None:
    """Refuses numbers that have more bits behind the binary point than everybody is told.

    Raises:
        InputError: one is no multiple of 2^-bits; says what they are.
    """
    shifted = values * 2.0**bits
    if not (np.rint(shifted) == shifted).all() or not np.isfinite(shifted).all():
        raise InputError(f"{what} must be multiples of 2^-{bits}, as everybody is told; at least one is not")


def check_finite(values: NDArray[np.floating[Any]], what: str = "numbers", remedy: str = "") -> float:
    """The largest magnitude of values that must be numbers.

    Raises:
        InputError: NaN or infinity is among them; says what they are and what to do.
    """
    return finite(largest_magnitude(values), what, remedy)


def finite(largest: float, what: str = "numbers", remedy: str = "") -> float:
    """The largest magnitude of numbers, if it is one; see `check_finite`."""
    if not math.isfinite(largest):
        raise InputError(f"{what} must be finite; found NaN or infinity" + (f": {remedy}" if remedy else ""))
    return largest


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Numbers as multiples of 2^-fraction_bits, for weighted sums that a scheme adds up as integers.

    A number x becomes round(x 2^f), halves to even. The sum of k of them is exact, and off by k 2^-(f + 1) at most from
    the sum of the numbers; a mean with weights that are not negative is off by 2^-(f + 1), whatever the weights.

    Attributes:
        bound: largest magnitude of a number.
        fraction_bits: bits behind the binary point; negative where numbers are larger than the room.
        what: the numbers are called in messages.
        remedy: what a caller may do about numbers that do not fit.
    """

    bound: float
    fraction_bits: int
    what: str = field(default="numbers", compare=False)
    remedy: str = field(default="scale them, or give a larger bound", compare=False)

    @classmethod
    def for_sums(
        cls,
        *,
        bound: float,
        limit: int,
        terms: int,
        heaviest: int = 1,
        most_bits: int = FINEST,
        least_bits: int = 1,
        what: str = "numbers",
        remedy: str = "scale them",
    ) -> Quantizer:
        """The most precise one whose weighted sums stay within a limit.

        Args:
            bound: largest magnitude of a number.
            limit: largest magnitude of a sum.
            terms: most numbers in a sum.
            heaviest: largest weight.
            most_bits: more are not taken.
            least_bits: fewer will not do.
            what: see the class.
            remedy: see the class.

        Raises:
            FieldRangeError: the limit has no room for so few bits; the message has the figures.
            InputError: the bound is no positive number.
        """
        bits = min(most_fraction_bits(bound, limit // terms // heaviest), most_bits)
        if bits < least_bits:
            raise FieldRangeError(
                f"terms * weight * bound * 2^{least_bits} must stay within the limit {limit:,} of the scheme's sums; "
                f"found {terms} * {heaviest:,} * {bound:g} * 2^{least_bits}: take a scheme with a larger field, or "
                f"fewer or smaller summands"
            )
        return cls(bound, bits, what, remedy)

    @property
    def largest(self) -> int:
        """The largest magnitude of an encoded number."""
        return units_of(self.bound, self.fraction_bits)

    @property
    def error(self) -> float:
        """How far a number may be from what it is encoded as: half a unit."""
        return math.ldexp(1.0, -self.fraction_bits - 1)

    def encode(
        self,
        values: NDArray[np.floating[Any]],
        *,
        narrow: bool = False,
        out: Integers | None = None,
        largest: float | None = None,
    ) -> Integers:
        """Numbers as units, of the same shape: int64, or, where `narrow` is true and all units fit, int32.

        Args:
            values: of any float type.
            narrow: see above.
            out: where they go, int64 and contiguous; None for a new array.
            largest: their `largest_magnitude`, where it is known.

        Raises:
            InputError: one is NaN or infinite.
            FieldRangeError: one is beyond the bound; its value is not shown.
        """
        if finite(largest_magnitude(values) if largest is None else largest, self.what, self.remedy) > self.bound:
            raise FieldRangeError(
                f"{self.what} must not exceed the bound {self.bound:g}; at least one does: {self.remedy}"
            )
        kind = np.int32 if narrow and self.largest < 2**31 else np.int64
        return rounded(values, self.fraction_bits, kind, out)

    def decode(self, total: Integers, weight: int = 1) -> NDArray[np.float64]:
        """The number that a sum of units stands for, or the mean under a sum of weights; float64."""
        return scaled(total / weight, -self.fraction_bits)


@dataclass(frozen=True, slots=True)
class Weighing:
    """What weights there may be, and how they become integers.

    Attributes:
        bound: the largest one.
        fraction_bits: they are rounded to multiples of 2^-fraction_bits; with none they must be integers.
    """

    bound: float = 1.0
    fraction_bits: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fraction_bits <= FINEST:
            raise InputError(f"weight_fraction_bits must lie in 0..{FINEST}; found {self.fraction_bits}")
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
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError("weight must be a number of at least 0; it is not")
        if weight > self.bound:
            raise FieldRangeError(
                f"weight must not exceed weight_bound = {self.bound:g}; it does: give a larger weight_bound, or divide "
                "all weights by the same number"
            )
        if not self.fraction_bits and not float(weight).is_integer():
            raise InputError(
                "weight must be an integer unless weight_fraction_bits is given; it is a fraction: give integers, such "
                "as numbers of examples, or shares up to weight_bound=1 with weight_fraction_bits=20"
            )
        units = round(weight * 2.0**self.fraction_bits)
        if weight and not units:
            raise InputError(
                f"weight must be 0 or above 2^-{self.fraction_bits + 1}; it is between: give 0, or more "
                "weight_fraction_bits"
            )
        return units


UNWEIGHTED = Weighing()
"""Every client counts once, or not at all."""


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
        bits = min(most_fraction_bits(bound, (field.modulus - 1) // 2 // max(terms, 1)), FINEST)
        return cls(field, bound, max(bits, 0), terms)  # raises, with the figures, where not even whole numbers fit

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
        scale = 2.0**self.fraction_bits
        most = self.bound * scale if self.overflow is Overflow.REFUSE else math.nextafter(LARGEST_ENCODED, 0)
        encoded = arithmetic.encode_fixed(values, scale, most, self.field.modulus)
        if encoded is None:
            self._refuse(arithmetic.largest_magnitude(values))
        return encoded

    def _refuse(self, magnitude: float) -> NoReturn:
        """Says what is wrong with values of which the largest has a magnitude that can't be encoded."""
        if not math.isfinite(magnitude):
            raise InputError("values must be finite; found NaN or infinity")
        if self.overflow is Overflow.REFUSE:
            raise FieldRangeError(
                f"values must not exceed the bound {self.bound:g}; at least one does: {self._remedy(magnitude)}"
            )
        raise FieldRangeError("values * 2^fraction_bits must stay below 2^62; at least one does not: scale the values")

    @overload
    def decode(self, elements: torch.Tensor) -> torch.Tensor: ...
    @overload
    def decode(self, elements: Elements) -> NDArray[np.float64]: ...
    def decode(self, elements: Any) -> Any:
        """Maps elements to the representatives of least magnitude, as float64 of the same shape."""
        arithmetic, _ = arithmetic_of(elements)
        return arithmetic.decode_fixed(elements, 2.0**self.fraction_bits, self.field.modulus)

    def _remedy(self, magnitude: float) -> str:
        """A bound that holds such values, a power of two with bits to spare, where the field has room for it."""
        for spare in (SPARE_BITS, 1):
            bound = math.ldexp(1.0, math.frexp(magnitude)[1] + spare)
            if _fits(self.field, bound, 0, self.terms):
                return f"give a larger bound, as in SCHEME[bound={bound:.0f}], or scale the values"
        return f"scale the values, or take a larger field, for this one has no room for sums of {self.terms} of them"


def _check_bound(bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound must be a positive number; found {bound}")


def _fits(field: PrimeField, bound: float, fraction_bits: int, terms: int) -> bool:
    scaled = bound * 2.0**fraction_bits
    if scaled >= field.modulus:  # also infinite, which has no floor
        return False
    return terms * units_of(bound, fraction_bits) <= (field.modulus - 1) // 2
