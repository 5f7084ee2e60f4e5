"""Mappings of arrays as integer vectors whose sum is the weighted mean: in fixed point, or at few bits a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arguments import number_of
from fgl_secure.aggregation.layout import (
    BOOL,
    FLOATS,
    LARGEST,
    SMALLEST,
    Arrays,
    TensorEntry,
    TensorLayout,
    Tree,
    entries_of,
    reals_of,
)
from fgl_secure.algebra.checks import check_finite, finite, largest_magnitude
from fgl_secure.algebra.quantization import UNWEIGHTED, FixedPoint, LowPrecision, Weighing, most_fraction_bits, units_of
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError
from fgl_secure.typing import Floats, Integers

_REMEDY = "give a larger bound, or clip=True, or call forget_ranges where it was found"
"""What to do about numbers beyond their bound."""
_LEAST_ROOM = 2**8
"""A tensor's numbers must have at least so many units on either side of 0 when no one names their fraction bits."""


_FLOAT64 = 2.0**-51
"""Relative error of a sum and a weight rounded to float64 and divided: below 4 units of 2^-53."""
_TWICE = 2.0**-23
"""Torch rounds to 16 bits via float32."""


class IntegerRule(StrEnum):
    """What the mean of integers is."""

    EXACT = "exact"
    """Itself; a mean that is no integer is an error. Counters of batches have none where clients' counts differ. Truth
    values must be equal."""
    ROUND = "round"
    """The nearest integer, halves up. Of truth values it is what clients with at least half of the weight have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BaseTensorEncoding(ABC):
    """Mappings of tensors as integer vectors, and the weighted mean from their sum.

    Attributes:
        layout: of the mappings.
        integer_bound: largest magnitude of an integer.
        weighing: what weights there may be.
        integers: what the mean of integers is.
        clip: whether floats beyond their bound count as the bound; else they are an error.
    """

    layout: TensorLayout
    integer_bound: int
    weighing: Weighing = UNWEIGHTED
    integers: IntegerRule = IntegerRule.ROUND
    clip: bool = False

    @abstractmethod
    def _parts(self, total: Integers) -> Iterator[tuple[TensorEntry, NDArray[Any]]]:
        """The sum of each tensor times weights, in the layout's order: floats in some unit, integers as they are."""

    @abstractmethod
    def _mean(self, entry: TensorEntry, total: NDArray[Any], weight: int) -> Floats:
        """The mean of a tensor of floats; the weight is in units."""

    @abstractmethod
    def _error(self, entry: TensorEntry, magnitude: float, clients: int, weight: int) -> float:
        """The stated bound of the error of a mean whose floats are up to a magnitude."""

    @abstractmethod
    def weight(self, total: Integers) -> int:
        """The sum of the weights in their units, from that of the vectors."""

    def decode(self, total: Integers) -> Any:
        """The weighted mean, in the kinds, types and on the devices of the layout.

        Raises:
            InputError: all weights are 0, or a mean of integers is none (names the key).
            ProtocolError: a mean is beyond the bound, which no numbers within it have: some vector was none of these.
        """
        weight, parts = positive(self.weight(total)), dict[str, NDArray[Any]]()
        for entry, part in self._parts(total):
            if entry.is_float:
                parts[entry.name] = self._mean(entry, part, weight)
            else:
                _check_within(entry, part, weight * self.integer_bound)
                parts[entry.name] = _mean_of_integers(part, weight, entry, self.integers)
        return self.layout.build(parts)

    def errors(self, total: Integers, clients: int) -> dict[str, float]:
        """The stated bound of the error of what `decode` gives, by tensor, for a sum of so many vectors."""
        weight, result = positive(self.weight(total)), {}
        for entry, part in self._parts(total):
            magnitude = largest_magnitude(self._mean(entry, part, weight)) if entry.is_float else 0.0
            result[entry.name] = self._error(entry, magnitude, clients, weight)
        return result

    def _check_total(self, total: Integers, width: int) -> Integers:
        if total.dtype != np.int64 or total.shape != (width,):
            raise InputError(f"total must be int64 [{width}]; found {total.dtype} {list(total.shape)}")
        return total

    @property
    def _whole_error(self) -> float:
        """Of a mean of integers."""
        return 0.5 if self.integers is IntegerRule.ROUND else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEncoding(_BaseTensorEncoding):
    """Fixed point for sums of weighted tensors.

    A float x under a key with f fraction bits becomes q = round(x 2^f), an integer stays itself, and a client with
    weight w hands in w q for every entry and w itself last. The sum over clients has sum w q and sum w; their quotient
    is the mean, and neither a weight nor a client's numbers show in it.

    The error of the mean. Let m = (sum w x) / (sum w), with the weights as the clients gave them.

    1. Rounding: |q 2^-f - x| <= 2^-(f + 1) for each client, and a mean with non-negative weights of errors is at most
       the largest: 2^-(f + 1), whatever the weights.
    2. Weights: with weight fraction bits g, a weight w becomes u = round(w 2^g), off by at most 1/2. The mean with
       weights u differs from m by |sum (u - w 2^g) (x - m)| / sum u, at most k/2 * 2 B / sum u for k clients and
       numbers up to B: k B / sum u. Integer weights have no such error, since 2^g w is an integer.
    3. Division in float64 and rounding to the tensor's type: `_cast_error` of the mean's magnitude.

    `errors` is the sum of the three, for the largest entry of a tensor. The sum itself is exact.

    Attributes:
        quantizers: of floats, by name.
    """

    quantizers: Mapping[str, FixedPoint]

    @classmethod
    def for_sums(
        cls,
        layout: TensorLayout,
        bounds: Mapping[str, float],
        *,
        limit: int,
        clients: int,
        weighing: Weighing = UNWEIGHTED,
        fraction_bits: int | None = None,
        integers: IntegerRule = IntegerRule.ROUND,
        clip: bool = False,
    ) -> TensorEncoding:
        """The encoding whose sums over so many clients stay within a limit.

        Args:
            layout: of the mappings.
            bounds: largest magnitude of a float, by name.
            limit: the largest magnitude of a sum.
            clients: how many vectors are added up at most.
            weighing: what weights there may be.
            fraction_bits: of every float tensor; None takes the most that fit, for each its own.
            integers: what the mean of integers is.
            clip: whether floats beyond their bound count as the bound.

        Raises:
            FieldRangeError: the limit has no room for such sums; the message has the figures.
            InputError: a bound is missing or no positive number.
        """
        room = limit // clients // weighing.most
        if room < _LEAST_ROOM:
            raise FieldRangeError(
                f"clients * weight_bound * 2^weight_fraction_bits must leave {_LEAST_ROOM} units below the scheme's "
                f"limit {limit:,}; found {clients} * {weighing.most:,}, which leaves {room}"
            )
        quantizers = {entry.name: _quantizer(entry, bounds, room, fraction_bits) for entry in layout.floats}
        return cls(
            layout=layout, integer_bound=room, weighing=weighing, integers=integers, clip=clip, quantizers=quantizers
        )

    @property
    def bounds(self) -> Mapping[str, float]:
        """Largest magnitude of a float, by name."""
        return {name: quantizer.bound for name, quantizer in self.quantizers.items()}

    @property
    def units(self) -> Mapping[str, float]:
        """What a difference of 1 stands for, by name: 2^-f."""
        return {name: math.ldexp(1.0, -quantizer.fraction_bits) for name, quantizer in self.quantizers.items()}

    @property
    def width(self) -> int:
        """P + 1."""
        return self.layout.size + 1

    @property
    def bound(self) -> int:
        """Largest magnitude of an entry of a vector: the largest weight times the largest unit."""
        largest = [quantizer.largest for quantizer in self.quantizers.values()]
        if len(largest) < len(self.layout.entries):
            largest.append(self.integer_bound)
        return self.weighing.most * max(1, *largest)

    @property
    def error(self) -> dict[str, float]:
        """The stated bound of the error before anything is known of the sum, by tensor, for integer weights."""
        return {entry.name: self._error(entry, self._most(entry), 0, 1) for entry in self.layout.entries}

    def encode(self, mapping: Tree, weight: float = 1) -> Integers:
        """The vector of a mapping.

        Args:
            mapping: of this layout.
            weight: how much it counts.

        Returns:
            int64 [P + 1], the weight last.

        Raises:
            InputError: another layout, NaN or infinity (names the key), or no such weight.
            FieldRangeError: a number beyond its bound (names the key and the bound, not the number).
        """
        arrays, units = self.layout.arrays(mapping), self.weighing.units(number_of(weight, "weight"))
        vector = np.empty(self.layout.size + 1, dtype=np.int64)
        for entry, place in self.layout.places():
            self._encode(entry, arrays, vector[place])
        vector[-1] = 1
        vector *= units
        return vector

    def weight(self, total: Integers) -> int:
        """The last entry."""
        return int(self._check_total(total, self.width)[-1])

    def _parts(self, total: Integers) -> Iterator[tuple[TensorEntry, NDArray[Any]]]:
        return ((entry, total[place]) for entry, place in self.layout.places())

    def _mean(self, entry: TensorEntry, total: NDArray[Any], weight: int) -> Floats:
        quantizer = self.quantizers[entry.name]
        _check_within(entry, total, weight * quantizer.largest)
        return quantizer.decode(total, weight)

    def _most(self, entry: TensorEntry) -> float:
        if entry.is_float:
            return self.quantizers[entry.name].bound
        return 1.0 if entry.dtype == BOOL else float(self.integer_bound)

    def _error(self, entry: TensorEntry, magnitude: float, clients: int, weight: int) -> float:
        weight_error = clients * self._most(entry) / weight if self.weighing.fraction_bits else 0.0
        if not entry.is_float:
            return self._whole_error + weight_error
        return self.quantizers[entry.name].error + _cast_error(entry.dtype, magnitude) + weight_error

    def _encode(self, entry: TensorEntry, arrays: Arrays, out: Integers) -> None:
        values = arrays.entries(entry.name)
        if not entry.is_float:
            out[:] = _checked_integers(entry, values, self.integer_bound)
            return
        quantizer, largest = self.quantizers[entry.name], arrays.largest(entry.name)
        if self.clip and finite(largest, field_name(entry), _REMEDY) > quantizer.bound:
            values, largest = values.astype(np.float64).clip(-quantizer.bound, quantizer.bound), quantizer.bound
        quantizer.encode(values, out=out, largest=largest)


@dataclass(slots=True, eq=False)
class RoundingErrors:
    """What one client's numbers were rounded by in the round before, which it adds to those of the next: secret.

    It never leaves the client but in sums. An error counts only once the round it comes from has gone through
    (`settle`), so that a round that is begun again begins from the same numbers.

    Attributes:
        of: digest of the layout that they are of; empty before the first round.
        errors: float64, of all floats in the order of their layout, times weights.
    """

    of: bytes = b""
    errors: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    _next: tuple[bytes, Floats] | None = field(default=None, repr=False)

    def errors_for(self, layout: TensorLayout) -> Floats:
        """What is added to the floats of a layout: zeros where nothing is kept of such a one."""
        size = sum(entry.size for entry in layout.floats)
        return self.errors if self.of == layout.digest else np.zeros(size)

    def note(self, layout: TensorLayout, errors: Floats) -> None:
        """Takes down the errors of a round that is under way."""
        self._next = layout.digest, errors

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for `from_arrays`; secret."""
        parts = {"now": (self.of, self.errors)} | ({} if self._next is None else {"next": self._next})
        digests = {f"{when} of": np.frombuffer(digest, dtype=np.uint8) for when, (digest, _) in parts.items()}
        return digests | {when: errors for when, (_, errors) in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RoundingErrors:
        """What was written.

        Raises:
            MalformedMessageError: it is nothing that a client keeps.
        """
        forms = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        expected_forms = {"now of": (np.dtype(np.uint8), 1), "now": (np.dtype(np.float64), 1)}
        following = {name.replace("now", "next"): form for name, form in expected_forms.items()}
        if forms not in (expected_forms, expected_forms | following):
            raise MalformedMessageError("kept errors must be numbers and the digest of their layout; they are not")
        errors = cls(arrays["now of"].tobytes(), arrays["now"])
        errors._next = (arrays["next of"].tobytes(), arrays["next"]) if "next" in arrays else None
        return errors

    def settle(self) -> None:
        """The round has gone through, as far as this client can tell."""
        if self._next is not None:
            (self.of, self.errors), self._next = self._next, None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedEncoding(_BaseTensorEncoding):
    """Numbers times weights at few bits, and integers in digits.

    A client with weight w hands in the multiple of its tensor's unit that w x is rounded to, for every float x; and
    digits of w n for every integer n, and of w itself. A number is rounded to one of the two multiples beside it, at
    random and right on average (`rounded_stochastically`).

    The error of the mean over k clients with weights that add up to W. Every number is less than a unit off, so a mean
    is less than k unit / W off from that of the numbers, and on average it is right. With weight fraction bits g, W is
    off by up to k 2^-(g + 1), and the mean by as large a part of it. Then come the division and the tensor's type, as
    in `TensorEncoding`. Where errors are fed back, the mean is that of the numbers with the errors of the round before.

    Attributes:
        numbers: how floats and integers are written: a part for each float tensor; whole are all integers in the
            layout's order, and the weight.
        largest: of a float before it is weighted; None where ranges were found.
        coins: of the client, for rounding; None where vectors are only decoded.
        kept: what the client keeps of its errors; None where they are not fed back.
    """

    numbers: LowPrecision
    largest: float | None = None
    coins: Coins | None = field(default=None, repr=False)
    kept: RoundingErrors | None = field(default=None, repr=False)

    @classmethod
    def for_sums(
        cls,
        layout: TensorLayout,
        bounds: Mapping[str, float],
        bits: int,
        *,
        limit: int,
        clients: int,
        weighing: Weighing,
        feedback: bool = False,
        **rest: Any,
    ) -> RoundedEncoding:
        """The encoding at so many bits; see `TensorEncoding.for_sums`.

        Args:
            layout: of the mappings.
            bounds: largest magnitude of a float times its client's weight, by name.
            bits: of a number.
            limit: the largest sum of integers.
            clients: how many vectors are added up at most.
            weighing: what weights there may be.
            feedback: whether errors are fed back.
            rest: see the class.
        """
        room = limit // clients // weighing.most
        if room < 1:
            raise FieldRangeError(
                f"clients * weight_bound * 2^weight_fraction_bits must stay within the limit {limit:,}; found "
                f"{clients} * {weighing.most:,}"
            )
        floats, others = layout.floats, [entry for entry in layout.entries if not entry.is_float]
        lengths = tuple(entry.size for entry in floats)
        parts = tuple(bounds.get(entry.name, math.nan) for entry in floats)
        integer_count, most = sum(entry.size for entry in others) + 1, (room if others else 1) * weighing.most
        numbers = LowPrecision(bits, lengths, parts, integer_count, most, feedback)
        return cls(layout=layout, integer_bound=room, weighing=weighing, numbers=numbers, **rest)

    @property
    def bounds(self) -> Mapping[str, float]:
        """Largest magnitude of a float times its weight, by name."""
        return {entry.name: bound for entry, bound in zip(self.layout.floats, self.numbers.bounds, strict=True)}

    @property
    def units(self) -> Mapping[str, float]:
        """What a difference of 1 stands for in a number times its weight, by float tensor."""
        return dict(zip(self.bounds, self.numbers.units.tolist(), strict=True))

    @property
    def bound(self) -> int:
        """2^(bits - 1) - 1."""
        return self.numbers.largest

    @property
    def width(self) -> int:
        """Of a vector."""
        return self.numbers.width

    def encode(self, mapping: Tree, weight: float = 1) -> Integers:
        """The vector of a mapping, int64 [width]; rounded anew each time.

        Raises:
            InputError, FieldRangeError: see `weigh_tensors`; or an integer beyond its bound.
        """
        if self.coins is None:
            raise InputError("coins must be given where numbers are rounded; found none")
        reals = weigh_tensors(self.layout, mapping, self.weighing, weight, self.kept, self.largest, clip=self.clip)
        units = self.weighing.units(number_of(weight, "weight"))
        arrays = self.layout.arrays(mapping)
        integers = [
            _checked_integers(entry, entries_of(arrays[entry.name]), self.integer_bound) * units
            for entry in self.layout.entries
            if not entry.is_float
        ]
        exact = np.concatenate([*integers, np.array([units])]).astype(np.int64)
        vector, errors = self.numbers.round(np.concatenate([np.zeros(0), *reals.values()]), exact, self.coins)
        if self.kept is not None:
            self.kept.note(self.layout, errors)
        return vector

    def weight(self, total: Integers) -> int:
        """The sum of the weights in their units."""
        return int(self.numbers.split(self._check_total(total, self.width))[1][-1])

    def _parts(self, total: Integers) -> Iterator[tuple[TensorEntry, NDArray[Any]]]:
        reals, integers = self.numbers.split(total)
        ends = {True: 0, False: 0}
        for entry in self.layout.entries:
            start = ends[entry.is_float]
            ends[entry.is_float] = start + entry.size
            yield entry, (reals if entry.is_float else integers)[start : start + entry.size]

    def _mean(self, entry: TensorEntry, total: NDArray[Any], weight: int) -> Floats:  # noqa: ARG002  # units are in the sum
        return np.asarray(total / self._weight(weight))

    def _error(self, entry: TensorEntry, magnitude: float, clients: int, weight: int) -> float:
        if not entry.is_float:
            return self._whole_error
        weight_error = magnitude * clients / (2 * weight) if self.weighing.fraction_bits else 0.0
        rounding = clients * self.units[entry.name] / self._weight(weight)
        return rounding + weight_error + _cast_error(entry.dtype, magnitude)

    def _weight(self, units: int) -> float:
        return units * 2.0**-self.weighing.fraction_bits


def _check_within(entry: TensorEntry, total: NDArray[Any], most: int) -> None:
    if total.size and max(int(total.max()), -int(total.min())) > most:
        raise ProtocolError(
            f"mean under {entry.name!r} must lie within the bound of the numbers; it does not, so that a client "
            f"must have handed in something else"
        )


def positive(weight: int) -> int:
    """A sum of weights, if there is a mean.

    Raises:
        ProtocolError: it is negative.
        InputError: it is 0.
    """
    if weight < 0:
        raise ProtocolError("sum of the weights must not be negative; it is")
    if weight == 0:
        raise InputError("weights must not all be 0; they are, so that there is no mean")
    return weight


def field_name(entry: TensorEntry) -> str:
    """What a tensor's numbers are called in messages."""
    return f"numbers under {entry.name!r}"


def _mean_of_integers(total: Integers, weight: int, entry: TensorEntry, rule: IntegerRule) -> Integers:
    """The mean of an integer tensor from its weighted sum.

    Args:
        total: int64 [size], the sum of weights times values.
        weight: the sum of the weights, positive.
        entry: whose.
        rule: what to do when it is no integer.

    Raises:
        InputError: the mean is no integer and the rule is EXACT; names the tensor.
    """
    if rule is IntegerRule.ROUND:
        quotient, rest = np.divmod(total, weight)
        return quotient + (rest >= weight - rest)  # twice a total may be beyond 64 bits
    if (total % weight).any():
        raise InputError(
            f"mean of the integers or truth values under {entry.name!r} must be an integer under IntegerRule.EXACT; it "
            f"is none: take IntegerRule.ROUND, leave the key out, or make it a float tensor"
        )
    return total // weight


def _cast_error(dtype: str, magnitude: float) -> float:
    """How far numbers of up to that magnitude move when they are divided in float64 and rounded to a float type.

    Half a unit in the last place: 2^-p |x| for significands of p bits, or half the smallest number.
    """
    twice = _TWICE if FLOATS[dtype] < 24 else 0.0
    return magnitude * (2.0 ** -FLOATS[dtype] + twice + _FLOAT64) + 2.0 ** max(SMALLEST[dtype] - 1, -1074)


def _quantizer(entry: TensorEntry, bounds: Mapping[str, float], room: int, fraction_bits: int | None) -> FixedPoint:
    bound = bounds.get(entry.name, math.nan)
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound of {entry.name!r} must be a positive number; found {bound}")
    if fraction_bits is None:
        return FixedPoint(None, bound, most_fraction_bits(bound, room), what=field_name(entry), remedy=_REMEDY)
    if fraction_bits + math.frexp(bound)[1] > 64 or units_of(bound, fraction_bits) > room:
        raise FieldRangeError(
            f"bound * 2^fraction_bits must stay within {room:,} for {entry.name!r}, which is what clients and weights "
            f"leave of the scheme's limit; found {bound:g} * 2^{fraction_bits}"
        )
    return FixedPoint(None, bound, fraction_bits, what=field_name(entry), remedy=_REMEDY)


def _checked_integers(entry: TensorEntry, values: NDArray[Any], bound: int) -> Integers:
    """Integers of a tensor as int64.

    Raises:
        FieldRangeError: one is beyond the bound; names the tensor.
    """
    if values.size and max(int(values.max()), -int(values.min())) > bound:
        raise FieldRangeError(
            f"integers under {entry.name!r} must not exceed {bound:,}, which is what clients and weights leave of the "
            f"scheme's limit; at least one does"
        )
    return values.astype(np.int64)


def bound_for(entry: TensorEntry, bound: float) -> float:
    """A bound for a tensor, or that of its type where that is smaller."""
    return min(bound, math.ldexp(1.0, min(LARGEST[entry.dtype], 1023)))


def weigh_tensors(
    layout: TensorLayout,
    mapping: Tree,
    weighing: Weighing,
    weight: float,
    rounding_errors: RoundingErrors | None = None,
    largest: float | None = None,
    *,
    clip: bool = False,
) -> dict[str, Floats]:
    """What a client brings of each float tensor before it is rounded: float64 [size], times its weight.

    Raises:
        InputError: another layout, NaN or infinity (names the key), or no such weight.
        FieldRangeError: a number beyond a bound that was given (names the key and the bound, not the number).
    """
    arrays, result, offset = layout.arrays(mapping), dict[str, Floats](), 0
    weighing.units(number_of(weight, "weight"))
    added = np.zeros(0) if rounding_errors is None else rounding_errors.errors_for(layout)
    for entry in layout.floats:
        reals = _clip(entry, reals_of(arrays[entry.name]), largest, clip=clip) * float(weight)
        if rounding_errors is not None:
            reals = reals + added[offset : offset + entry.size]
            offset += entry.size
        result[entry.name] = reals
    return result


def _clip(entry: TensorEntry, reals: Floats, largest: float | None, *, clip: bool) -> Floats:
    """Raises unless numbers are within a bound, or are clipped to it."""
    checked = check_finite(reals, field_name(entry), _REMEDY)
    if largest is None or checked <= largest:
        return reals
    if not clip:
        raise FieldRangeError(
            f"{field_name(entry)} must not exceed the bound {largest:g}; at least one does: {_REMEDY}"
        )
    return np.asarray(reals.clip(-largest, largest))
