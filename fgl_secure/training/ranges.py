"""Ranges of numbers in sums for the server, found by a sum that reveals nothing else, and rounding to few bits in them.

Schemes bound what they sum. Where features are large, or noise is added, numbers may outgrow the bounds; then all silos
divide by a power of two that they find for each sum, and multiply what they get. Division by powers of two is exact, so
that numbers keep as many bits, relative to the largest one, as numbers at the bound have.
"""

from __future__ import annotations

import hmac
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61, FixedPoint
from fgl_secure.algebra.checks import finite, largest_magnitude
from fgl_secure.algebra.levels import Levels
from fgl_secure.algebra.quantization import LowPrecision, join_digits
from fgl_secure.coins import Coins
from fgl_secure.crypto.streams import KEY_BYTES, FieldStream
from fgl_secure.errors import FieldRangeError, PrecisionWarning
from fgl_secure.protocols.coded_products import LARGEST_LEFT, LARGEST_PRODUCT, LARGEST_RIGHT
from fgl_secure.protocols.relay_coded import LARGEST_GRADIENT
from fgl_secure.protocols.scheme import LARGEST_ROW_BOUND, ROW_BOUND, Rounding
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Step
from fgl_secure.training.calls import AnswerCall, Call, CollectiveSetting
from fgl_secure.training.gradient_sums import DeviceFactors
from fgl_secure.training.server_sums import REMEDY
from fgl_secure.training.silo import Facts
from fgl_secure.typing import Array, Floats, Ids, Integers

_LOWEST = -40
"""Binary exponent of the range of a part that is zero everywhere, or nearly so."""
_LABEL = b"fgl-secure rounding/v1"


class StepCoins(Coins):
    """A silo's coins for one step, which are the same where its round is run again: no other party knows its key.

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
class RangedParts:
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
        return list(range(_LOWEST, math.ceil(math.log2(self.grid.bound * self.heaviest)) + 2))

    def levels(self, modulus: int) -> Levels:
        """By which ranges are found, to within a factor of two."""
        above = (0.0, *(2.0**e for e in self.exponents[:-1]))
        return Levels(modulus, (above,) * len(self.lengths))

    def weigh(self, values: NDArray[np.floating], weight: int = 1) -> Floats:
        """Numbers times their weight, float64.

        Raises:
            InputError: a number is not finite.
            FieldRangeError: one is beyond the bound; it is not shown.
        """
        self.grid.encode(values)
        return np.asarray(values, dtype=np.float64) * weight

    def magnitudes(self, values: Floats) -> list[float]:
        """The largest magnitude of each part of the values."""
        ends = np.cumsum((0, *self.lengths))
        return [float(np.abs(values[a:b]).max(initial=0.0)) for a, b in pairwise(ends)]

    def bounds(self, reached: Sequence[int]) -> tuple[float, ...]:
        """The range of each part, of which so many levels are reached."""
        return tuple(2.0 ** self.exponents[max(count - 1, 0)] for count in reached)


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
    def spared_entries(self) -> int:
        """By how many entries a sum is shorter when its integers are put together."""
        return self.whole * max(self.places - 1, 0)

    def together(self, total: Integers) -> Integers:
        """A sum with its integers put together."""
        if not self.whole:
            return total
        index = len(total) - self.whole * self.places
        return np.concatenate([total[:index], join_digits(total[index:], self.whole, self.bits)])


NO_DIGITS = Digits()


_FACTOR_BITS = 2
"""Levels go by factors of 2^_FACTOR_BITS: the maximum is revealed to within that."""
_LARGEST = 130
"""Numbers up to 2^_LARGEST have a level, which is every float32 and sums of some."""
_FINE_BITS = 12
"""Rounding to multiples of 2^-_FINE_BITS is as fine as training asks for, whatever rounds to zero."""
_RANGES = "ranges"
"""Name of the outputs of these sums in recordings."""


def finds_ranges(facts: Facts, code: FixedPoint | None, *, noisy: bool = False) -> bool:
    """Return whether ranges are found: features are large, rows carry noise, or a bound is given that no method takes.

    Args:
        facts: what is public of the graph.
        code: how rows for neighbours are written; None where they have no bound.
        noisy: whether they carry noise.
    """
    return facts.large_features or noisy or (code is not None and code.bound > LARGEST_ROW_BOUND)


class Ranges:
    """One silo's part in finding ranges; every exponent is 0, and nothing is summed, in runs that find none.

    Args:
        setting: what the silo knows of the run; its key for uniform elements is secret.
        next_step: of the sum that finds ranges.
        ask: makes calls.
    """

    def __init__(self, setting: CollectiveSetting, next_step: Callable[[], Step], ask: AnswerCall) -> None:
        self._setting, self._next_step, self._ask, self._warned = setting, next_step, ask, False

    def exponents(self, magnitudes: Sequence[float], bounds: Sequence[float]) -> list[int]:
        """Return for each part e, so that the numbers of every silo, over 2^e, are within the bound; 0 if they are.

        Args:
            magnitudes: the largest of this silo's numbers, part by part.
            bounds: of the parts.

        Raises:
            InputError: a number is NaN or infinite; nothing was sent.
            FieldRangeError: a number is beyond 2^_LARGEST.
        """
        if not self._setting.finds_ranges:
            return [0] * len(magnitudes)
        if max(finite(magnitude, "numbers", REMEDY) for magnitude in magnitudes) > 2.0**_LARGEST:
            raise FieldRangeError(f"numbers must not exceed 2^{_LARGEST}; at least one does: {REMEDY}")
        step, modulus = self._next_step(), self._setting.schemes[SERVER].modulus
        levels = Levels(modulus or MERSENNE_61, tuple(map(_levels, bounds)))
        reached = levels.encode(magnitudes, StepCoins(self._setting.rounding_key, step))
        if modulus is None:  # without a field, silos that reach a level are counted
            reached = (reached != 0).astype(np.int64)
        call = Call(SERVER, step, reached, bound=0 if modulus else 1, least=1, output=_RANGES)
        reached_levels: NDArray[np.bool_] = self._ask(call)
        return [_FACTOR_BITS * count for count in levels.reached_levels(reached_levels, range(len(bounds)))]

    def of_rows(self, rows: Array, code: FixedPoint) -> int:
        """Return the exponent of rows for neighbours [m, d]; negative where their bound is wider than all rows need."""
        if not self._setting.finds_ranges:
            return 0
        wider = max(math.floor(math.log2(code.bound / ROW_BOUND)), 0)
        (result,) = self.exponents([largest_magnitude(rows)], [math.ldexp(code.bound, -wider)])
        exponent = result - wider
        self._warn_of_rounding(rows, code, exponent)
        return exponent

    def of_entries(self, values: Array, lengths: Sequence[int], bound: float) -> Ids:
        """Return the exponent of each entry of values [P] whose parts have these lengths: int64 [P]."""
        parts = np.split(values, np.cumsum(lengths)[:-1])
        entries = self.exponents([largest_magnitude(part) for part in parts], [bound] * len(parts))
        return np.repeat(np.array(entries, dtype=np.int64), lengths)

    def of_columns(self, rows: Array) -> Ids:
        """Return the exponent of each column of rows [m, d] of the silo's devices: int64 [d]."""
        columns = np.abs(rows).max(axis=0, initial=0)
        if not self._setting.sums_gradients:  # silos add up in plaintext
            return np.zeros(len(columns), dtype=np.int64)
        return self.of_entries(columns, (1,) * len(columns), LARGEST_GRADIENT)

    def of_factors(self, factors: Sequence[DeviceFactors]) -> tuple[tuple[DeviceFactors, ...], list[int]]:
        """Return factors over powers of two, and for each parameter e, so that 2^e times its sum is the gradient's."""
        if not (self._setting.finds_ranges and self._setting.sums_gradients):
            return tuple(factors), [0] * len(factors)
        magnitudes = [item for one in factors for item in _magnitudes(one)]
        result = np.reshape(self.exponents(magnitudes, _FACTOR_BOUNDS * len(factors)), (-1, 3)).tolist()
        smaller = tuple(_shrunk_factors(one, item) for one, item in zip(factors, result, strict=True))
        return smaller, [left + max(right, both - left) for left, right, both in result]

    def _warn_of_rounding(self, rows: Array, code: FixedPoint, exponent: int) -> None:
        """Warns, once a run, where most of a silo's rows that are not zero round to zero.

        Args:
            rows: float [m, d], before they are divided.
            code: how they are written.
            exponent: they are divided by 2^exponent.
        """
        unit = math.ldexp(1.0, exponent - code.fraction_bits)
        if self._warned or unit <= 2.0**-_FINE_BITS or not rows.size:
            return
        largest = np.abs(rows).max(axis=1)
        nonzero, lost = int((largest > 0).sum()), int(((largest > 0) & (largest < unit / 2)).sum())
        if 2 * lost > nonzero:
            self._warned = True
            warnings.warn(
                f"rows for neighbours must not round to zero; {lost} of {nonzero} here do, as sums up to "
                f"2^{math.log2(code.bound) + exponent:.0f} leave multiples of 2^{math.log2(unit):.0f}: scale the "
                f"features, or take a larger field, as in relay-coded[p={MERSENNE_61}]",
                PrecisionWarning,
                stacklevel=2,
            )


def shrunk(values: Array, exponents: Array | int) -> Array:
    """Return values over 2^exponents, of the same type; the same array where all exponents are 0."""
    return np.ldexp(values, np.negative(exponents)).astype(values.dtype, copy=False) if np.any(exponents) else values


_FACTOR_BOUNDS = (LARGEST_LEFT, LARGEST_RIGHT, LARGEST_PRODUCT * (1 - 2.0**-_FINE_BITS))
"""Of left rows, right rows and products of one device, as coded products take them; with room for rounded factors."""


def _magnitudes(factors: DeviceFactors) -> tuple[float, float, float]:
    """The largest magnitude of left rows, of right rows, and of the product of two entries of one device."""
    sides = (factors.left, factors.right)
    left, right = (np.maximum(side.max(axis=(0, 2)), -side.min(axis=(0, 2))).astype(np.float64) for side in sides)
    return largest_magnitude(left), largest_magnitude(right), largest_magnitude(left * right)


def _shrunk_factors(factors: DeviceFactors, exponents: Sequence[int]) -> DeviceFactors:
    of_left, of_right, of_both = exponents
    bits = None if factors.left_bits is None else factors.left_bits + of_left
    left, right = shrunk(factors.left, of_left), shrunk(factors.right, max(of_right, of_both - of_left))
    return replace(factors, left=left, right=right, left_bits=bits)


def _levels(bound: float) -> tuple[float, ...]:
    steps = range(0, _LARGEST + 1 - math.floor(math.log2(bound)), _FACTOR_BITS)
    return tuple(math.ldexp(bound, step) for step in steps)


class LowSums:
    """One silo's part in sums under a scheme with a precision.

    A sum that tells nothing else finds the range of each part; then the numbers are rounded at random, right on
    average, to multiples of a unit that leaves no bit of theirs unused. Where errors are fed back, what a number is
    rounded by is added to it in the same sum of the next round, which is a sum of training; it stays with the silo.

    Args:
        setting: what the silo knows, its key for rounding among it.
    """

    def __init__(self, setting: CollectiveSetting) -> None:
        self._setting = setting
        self._errors: dict[str, Floats] = {}

    def __call__(
        self,
        values: Floats,
        integers: Ids,
        most: int,
        of: RangedParts,
        steps: tuple[Step, Step],
        ask: AnswerCall,
        *,
        mean: bool = False,
        output: str | None = None,
        exponents: Ids | int = 0,
    ) -> tuple[Floats, Ids]:
        """Sums of numbers and of integers beside them; or means, of which the first integer is the weight.

        Args:
            values: float64 [P], times their weight.
            integers: int64 [c], summed exactly.
            most: largest magnitude of one of these.
            of: the parts of the values.
            steps: of the sum that finds ranges, and of the numbers' own.
            ask: makes calls.
            mean: whether the server tells sums over the sum of the weights, and not that one.
            output: see `Call`.
            exponents: int64 [P], the values are divided by 2^exponents already; so errors that are kept are, too.

        Returns:
            float64 [P], and int64 [c], or [c - 1] beside means.

        Raises:
            InputError: a value is not finite; nothing was sent.
            FieldRangeError: a value is beyond its bound, or an integer.
        """
        scheme, key, (first, second) = self._setting.schemes[SERVER], self._setting.rounding_key, steps
        modulus, bits = scheme.modulus, scheme.precision
        assert modulus is not None, "schemes with a precision find ranges"
        assert bits is not None, "it is asked for under them only"
        feedback, name = scheme.rounding is Rounding.ERROR_FEEDBACK and not second.evaluation, str(second.part)
        values = values + shrunk(self._kept_errors(name, len(values)), exponents) if feedback else values
        levels = of.levels(modulus)
        reached = levels.encode(of.magnitudes(values), StepCoins(key, first))
        is_reached: NDArray[np.bool_] = ask(Call(SERVER, first, reached, least=1))
        bounds = of.bounds(levels.reached_levels(is_reached, range(len(of.lengths))))
        numbers = LowPrecision(bits, of.lengths, bounds, len(integers), most)
        row, errors = numbers.round(values, integers, StepCoins(key, second))
        if feedback:
            self._errors[name] = shrunk(errors, np.negative(exponents))
        parts = (len(values),) if mean else ()
        call = Call(SERVER, second, row, numbers.largest, numbers=numbers, parts=parts, output=output)
        result: Floats = ask(call)
        index = len(values)
        return result[:index] * np.repeat(numbers.units, numbers.lengths), result[index:].astype(np.int64)

    def _kept_errors(self, name: str, size: int) -> Floats:
        result = self._errors.get(name)
        return np.zeros(size) if result is None or len(result) != size else result

    def state(self) -> dict[str, Array]:
        """The errors that are kept, by name of their sum; secret."""
        return dict(self._errors)

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self._errors = dict(state)
