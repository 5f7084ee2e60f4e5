"""Real numbers as integers whose sums are exact: range, weights, rounding and overflow, once for every party.

`FixedPoint` takes the most bits behind the binary point for which sums stay exact, for vectors that a scheme adds up as
integers and for rows that become elements of a field. `LowPrecision` has few bits, and rounds at random. `Weighing`
makes integers of weights. All refuse what does not fit; nothing saturates or wraps in silence, and no message shows a
value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, overload

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra.checks import as_floats, check_finite, finite, largest_magnitude
from fgl_secure.algebra.prime_field import PrimeField
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.threads import njit
from fgl_secure.typing import Floats, Integers

LARGEST_ENCODED = 2.0**62
"""Beyond it a scaled value would no longer fit the integers that it passes through."""
SPARE_BITS = 6
"""By which a bound that an error names exceeds the power of two above the values, which may grow."""
MANTISSA = 52
"""Most bits behind the binary point of a float64 of magnitude 1."""
LEAST_UNITS = 16
"""Least magnitude, in units, of the largest value that `for_values` encodes."""
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


def round_fixed_point(
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
        flat, fraction_bits = scale(flat, fraction_bits), 0
    _round(flat, 2.0**fraction_bits, out.reshape(-1))
    return out


@njit(boundscheck=False)
def _round(values: NDArray[np.floating[Any]], scale: float, out: Integers) -> None:
    """out[i] = values[i] * scale in float64, to the nearest integer."""
    for i in range(len(values)):
        out[i] = np.int64(np.rint(np.float64(values[i]) * scale))


def scale(values: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """X 2^e, as `numpy.ldexp` has it, which takes ten times as long."""
    near = abs(exponent) < _MOST_EXPONENT
    result: NDArray[np.float64] = values * 2.0**exponent if near else np.ldexp(values, exponent)
    return result


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
    """A map from real numbers to integers, or to elements of a field, under which sums stay exact.

    A number x becomes round(x * 2^fraction_bits). For vectors that a scheme adds up as integers halves go to even. Rows
    for a scheme over a field become elements modulo p, and halves go away from zero. A decoded sum of k numbers is off
    by at most k * 2^-(fraction_bits + 1), and a mean whose weights are not negative by 2^-(fraction_bits + 1).

    Over a field up to `terms` numbers of magnitude `bound` may be added: the set-up refuses unless
    terms * bound * 2^fraction_bits < p / 2 (rounding included). `encode` refuses numbers beyond the bound.

    Attributes:
        field: of the elements; None for integers.
        bound: largest magnitude of one number, in the numbers' own unit.
        fraction_bits: bits behind the binary point; negative only for integers, if numbers are larger than the room.
        terms: most numbers in one sum over a field.
        overflow: REFUSE, or WRAP for a replica of a published scheme that states no range; wrapping is never silent,
            because only a caller who writes WRAP gets it.
        what: the numbers are called in messages about integers.
        remedy: what a caller may do about numbers that do not fit.

    Examples:
        >>> import numpy as np
        >>> code = FixedPoint.for_values([0.5, -0.25], terms=3)
        >>> code.decode(code.encode(np.array([0.5, -0.25]))).tolist()
        [0.5, -0.25]
    """

    field: PrimeField | None
    bound: float
    fraction_bits: int
    terms: int = 1
    overflow: Overflow = Overflow.REFUSE
    what: str = dataclasses.field(default="numbers", compare=False)
    remedy: str = dataclasses.field(default="scale them, or give a larger bound", compare=False)

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        if self.field is None:
            return
        if self.terms < 1:
            raise InputError(f"terms must be at least 1; found {self.terms}")
        if not 0 <= self.fraction_bits <= MANTISSA:
            raise InputError(f"fraction_bits must lie in 0..{MANTISSA}; found {self.fraction_bits}")
        if self.overflow is Overflow.REFUSE and not _fits(self.field, self.bound, self.fraction_bits, self.terms):
            raise FieldRangeError(
                f"terms * bound * 2^fraction_bits must stay below p / 2 = {self.field.modulus / 2:g}; found "
                f"{self.terms} * {self.bound:g} * 2^{self.fraction_bits} = "
                f"{self.terms * self.bound * 2**self.fraction_bits:g}"
            )

    @classmethod
    def for_sums(
        cls,
        field: PrimeField | None = None,
        *,
        bound: float,
        terms: int,
        limit: int = 0,
        heaviest: int = 1,
        most_bits: int = FINEST,
        what: str = "numbers",
        remedy: str = "scale them",
    ) -> FixedPoint:
        """The most precise one whose weighted sums stay exact.

        Args:
            field: of the elements; None for integers.
            bound: largest magnitude of a number.
            terms: most numbers in a sum.
            limit: largest magnitude of a sum of integers.
            heaviest: largest weight of one in a sum of integers.
            most_bits: more are not taken.
            what: see the class.
            remedy: see the class.

        Raises:
            FieldRangeError: not even whole numbers fit into the field, or the limit leaves no bit behind the binary
                point; the message has the figures.
            InputError: the bound is no positive number.
        """
        if field is not None:
            bits = min(most_fraction_bits(bound, (field.modulus - 1) // 2 // max(terms, 1)), most_bits)
            return cls(field, bound, max(bits, 0), terms)
        bits = min(most_fraction_bits(bound, limit // terms // heaviest), most_bits)
        if bits < 1:
            raise FieldRangeError(
                f"terms * weight * bound * 2^1 must stay within the limit {limit:,} of the scheme's sums; "
                f"found {terms} * {heaviest:,} * {bound:g} * 2^1: take a scheme with a larger field, or "
                f"fewer or smaller summands"
            )
        return cls(None, bound, bits, what=what, remedy=remedy)

    @classmethod
    def for_values(cls, values: Any, field: PrimeField | None = None, *, terms: int = 1, degree: int = 1) -> FixedPoint:
        """Return a map for given values. Their largest magnitude becomes the bound, which all parties learn.

        It has as many bits behind the binary point as the field has room for, up to 40, and 52 in a result.

        Args:
            values: floats of any shape, an array or a tensor.
            field: of the elements; 2^31 - 1 unless given.
            terms: most numbers, or products of them, in a sum.
            degree: of what is computed on them; decode its results with `of_degree(degree)`.

        Raises:
            InputError: a value is not finite, or terms or degree are below 1.
            FieldRangeError: the field has no room for one bit behind the binary point.

        Examples:
            >>> fixed = FixedPoint.for_values(np.array([0.5, -0.75]), degree=2)
            >>> squares = fixed.field.multiply(*[fixed.encode(np.array([0.5, -0.75]))] * 2)
            >>> fixed.of_degree(2).decode(squares)
            array([0.25  , 0.5625])
        """
        if not all(isinstance(item, int | np.integer) and item >= 1 for item in (terms, degree)):
            raise InputError(f"terms and degree must be integers of at least 1; found {terms!r} and {degree!r}")
        target_field, numbers = field or PrimeField(), as_floats(values, "values")
        bound = finite(largest_magnitude(numbers), "values") or 1.0
        room = (target_field.modulus - 1) // 2
        bits = min(most_fraction_bits(bound, room), FINEST, MANTISSA // degree)
        while bits > 0 and terms * (units_of(bound, bits) + 1) ** degree > room:
            bits -= 1
        if bits >= 1 and units_of(bound, bits) < LEAST_UNITS:
            raise FieldRangeError(
                f"values must reach {LEAST_UNITS} units of 2^-{bits}, or rounding would lose them; the largest is "
                f"{bound:g}: scale them"
            )
        if bits < 1:
            raise FieldRangeError(
                f"terms * bound^degree * 2^degree must stay below p / 2 = {target_field.modulus / 2:g}; found {terms} "
                f"* {bound:g}^{degree} * 2^{degree}: scale the values, or take PrimeField(2**61 - 1)"
            )
        return cls(target_field, bound, bits, terms)

    def of_degree(self, degree: int) -> FixedPoint:
        """What results of a computation of that degree on encoded numbers stand for; see `for_values`.

        Raises:
            InputError: more than 52 bits behind the binary point.
            FieldRangeError: they do not fit into the field.
        """
        return dataclasses.replace(self, bound=self.bound**degree, fraction_bits=self.fraction_bits * degree)

    @property
    def largest(self) -> int:
        """The largest magnitude of an encoded number."""
        return units_of(self.bound, self.fraction_bits)

    @property
    def error(self) -> float:
        """How far a number may be from what it is encoded as: half a unit."""
        return math.ldexp(1.0, -self.fraction_bits - 1)

    @overload
    def encode(self, values: torch.Tensor) -> torch.Tensor: ...
    @overload
    def encode(
        self,
        values: NDArray[np.floating[Any]],
        *,
        narrow: bool = False,
        out: Integers | None = None,
        largest: float | None = None,
    ) -> Integers: ...
    def encode(
        self, values: Any, *, narrow: bool = False, out: Integers | None = None, largest: float | None = None
    ) -> Any:
        """Maps numbers to integers or elements of the same shape; tensors to tensors, over a field alone.

        Args:
            values: of any float type.
            narrow: whether integers are int32, if all of them fit.
            out: where integers go, int64 and contiguous; None for a new array.
            largest: the numbers' `largest_magnitude`, if it is known.

        Raises:
            InputError: one is NaN or infinite.
            FieldRangeError: one exceeds the bound (unless wrapping was asked for), or 2^62 after scaling; its value is
                not shown.
        """
        if self.field is not None:
            return self._elements(values, self.field)
        if finite(largest_magnitude(values) if largest is None else largest, self.what, self.remedy) > self.bound:
            raise FieldRangeError(
                f"{self.what} must not exceed the bound {self.bound:g}; at least one does: {self.remedy}"
            )
        kind = np.int32 if narrow and self.largest < 2**31 else np.int64
        return round_fixed_point(values, self.fraction_bits, kind, out)

    @overload
    def decode(self, total: torch.Tensor) -> torch.Tensor: ...
    @overload
    def decode(self, total: Integers, weight: int = 1) -> NDArray[np.float64]: ...
    def decode(self, total: Any, weight: int = 1) -> Any:
        """The numbers that sums stand for, float64 of the same shape; of integers the mean under a sum of weights.

        Elements are taken as their representatives of least magnitude.
        """
        if self.field is None:
            return scale(total / weight, -self.fraction_bits)
        return self.field.decode_fixed(total, 2.0**self.fraction_bits)

    def _elements(self, values: Any, field: PrimeField) -> Any:
        scale = 2.0**self.fraction_bits
        most = self.bound * scale if self.overflow is Overflow.REFUSE else math.nextafter(LARGEST_ENCODED, 0)
        encoded = field.encode_fixed(values, scale, most)
        if encoded is None:
            self._refuse(float(abs(values).max()), field)
        return encoded

    def _refuse(self, magnitude: float, field: PrimeField) -> NoReturn:
        """Says what is wrong with values of which the largest has a magnitude that can't be encoded."""
        if not math.isfinite(magnitude):
            raise InputError("values must be finite; found NaN or infinity")
        if self.overflow is Overflow.WRAP:
            raise FieldRangeError(
                "values * 2^fraction_bits must stay below 2^62; at least one does not: scale the values"
            )
        remedy = f"scale the values, or take a larger field, for this one has no room for sums of {self.terms} of them"
        for spare in (1, SPARE_BITS):  # the larger bound is the better advice
            bound = math.ldexp(1.0, math.frexp(magnitude)[1] + spare)
            if _fits(field, bound, 0, self.terms):
                remedy = f"give a larger bound, as in SCHEME[bound={bound:.0f}], or scale the values"
        raise FieldRangeError(f"values must not exceed the bound {self.bound:g}; at least one does: {remedy}")


def _check_bound(bound: float) -> None:
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound must be a positive number; found {bound}")


def _fits(field: PrimeField, bound: float, fraction_bits: int, terms: int) -> bool:
    scaled = bound * 2.0**fraction_bits
    if scaled >= field.modulus:  # also infinite, which has no floor
        return False
    return terms * units_of(bound, fraction_bits) <= (field.modulus - 1) // 2


STEPS = 2**53
"""A fraction of a unit is told from another one to within 2^-53."""
_SLACK = 1 + 2.0**-40
"""What rounding to double precision may add to a number at its bound."""


def rounded_stochastically(values: Floats, coins: Coins, steps: int = STEPS) -> Integers:
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
    result: Integers = low.astype(np.int64) + up
    return result


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
    def units(self) -> Floats:
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

    def round(self, reals: Floats, integers: Integers, coins: Coins) -> tuple[Integers, Floats]:
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

    def split(self, total: Integers) -> tuple[Floats, Integers]:
        """The sums of the numbers, float64 [size], and of the integers, int64 [whole], from that of the vectors."""
        reals: Floats = total[: self.size].astype(np.float64) * np.repeat(self.units, self.lengths)
        return reals, join_digits(total[self.size :], self.whole, self.bits)

    def encode(self, rows: Floats) -> Integers:
        """Int64 [k, width] of reals [k, size + whole], as recordings have them: multiples of units, and integers."""
        units = np.rint(rows[..., : self.size] / np.repeat(self.units, self.lengths)).astype(np.int64)
        integers = [self.cut(row) for row in np.rint(rows[..., self.size :]).astype(np.int64)]
        return np.concatenate([units, np.stack(integers)], axis=-1)

    def decode(self, sums: Integers) -> Floats:
        """Float64 [k, size + whole] of integers [k, width]."""
        return np.stack([np.concatenate(self.split(row)) for row in sums]).astype(np.float64)

    def _check(self, reals: Floats, integers: Integers) -> None:
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


def join_digits(digits: Integers, count: int, bits: int) -> Integers:
    """Sums of integers from those of their digits, int64 [places * whole]: int64 [whole]."""
    rows = digits.reshape(-1, count) if count else np.zeros((0, 0), dtype=np.int64)
    total = np.zeros(count, dtype=np.int64)
    for row in reversed(rows):
        total = total * 2 ** (bits - 1) + row
    return total


def check_lengths(lengths: Sequence[int], size: int) -> tuple[int, ...]:
    """Lengths of parts, if they are those of so many numbers.

    Raises:
        InputError: they are not.
    """
    result = tuple(int(length) for length in lengths)
    if min(result, default=0) < 0 or sum(result) != size:
        raise InputError(f"parts must be lengths that add up to {size}; found {sum(result)}")
    return result
