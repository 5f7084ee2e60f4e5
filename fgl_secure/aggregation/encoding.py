"""Mappings of arrays as integer vectors whose sum tells the weighted mean, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arguments import number_of
from fgl_secure.aggregation.layout import BOOL, FLOATS, LARGEST, SMALLEST, Arrays, Entry, Layout, Tree
from fgl_secure.algebra.quantization import (
    UNWEIGHTED,
    Integers,
    Quantizer,
    Weighing,
    finite,
    largest_magnitude,
    most_fraction_bits,
    units_of,
)
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError

REMEDY = "give a larger bound, or clip=True, or call forget_ranges where it was found"
"""What to do about numbers beyond their bound."""
LEAST_ROOM = 2**8
"""A tensor's numbers must have at least so many units on either side of 0 when no one names their fraction bits."""


_FLOAT64 = 2.0**-51
"""Relative error of a sum and a weight rounded to float64 and divided: below 4 units of 2^-53."""
_TWICE = 2.0**-23
"""Torch rounds to 16 bits by way of float32."""


class IntegerRule(StrEnum):
    """What the mean of integers is."""

    EXACT = "exact"
    """Itself; a mean that is no integer is an error. Counters of batches have none where clients' counts differ. Truth
    values must be equal."""
    ROUND = "round"
    """The nearest integer, halves up. Of truth values it is what clients with at least half of the weight have."""


class Code(Protocol):
    """A way to write mappings as vectors that are added up."""

    @property
    def layout(self) -> Layout:
        """Of the mappings."""

    @property
    def bounds(self) -> Mapping[str, float]:
        """Largest magnitude of a float, by tensor, where there is one."""

    @property
    def units(self) -> Mapping[str, float]:
        """What a difference of 1 in a vector stands for, by float tensor."""

    @property
    def bound(self) -> int:
        """Largest magnitude of an entry of a vector."""

    @property
    def width(self) -> int:
        """Entries of a vector."""

    def encode(self, mapping: Tree, weight: float = 1) -> Integers:
        """The vector of a mapping, int64 [width]."""

    def decode(self, total: Integers) -> Any:
        """The weighted mean, from the sum of the vectors, int64 [width]."""

    def weight(self, total: Integers) -> int:
        """The sum of the weights in their units, from that of the vectors."""

    def errors(self, total: Integers, clients: int) -> dict[str, float]:
        """The stated bound of the error of what `decode` gives, by tensor, for a sum of so many vectors."""


@dataclass(frozen=True, slots=True)
class Encoding:
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
    3. Division in float64 and rounding to the tensor's type: `cast_error` of the mean's magnitude.

    `errors` is the sum of the three, for the largest entry of a tensor. The sum itself is exact.

    Attributes:
        layout: of the mappings.
        quantizers: of floats, by name.
        integer_bound: largest magnitude of an integer.
        weighing: what weights there may be.
        integers: what the mean of integers is.
        clip: whether floats beyond their bound count as the bound; else they are an error.
    """

    layout: Layout
    quantizers: Mapping[str, Quantizer]
    integer_bound: int
    weighing: Weighing = UNWEIGHTED
    integers: IntegerRule = IntegerRule.ROUND
    clip: bool = False

    @classmethod
    def for_sums(
        cls,
        layout: Layout,
        bounds: Mapping[str, float],
        *,
        limit: int,
        clients: int,
        weighing: Weighing = UNWEIGHTED,
        fraction_bits: int | None = None,
        integers: IntegerRule = IntegerRule.ROUND,
        clip: bool = False,
    ) -> Encoding:
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
        if room < LEAST_ROOM:
            raise FieldRangeError(
                f"clients * weight_bound * 2^weight_fraction_bits must leave {LEAST_ROOM} units below the scheme's "
                f"limit {limit:,}; found {clients} * {weighing.most:,}, which leaves {room}"
            )
        quantizers = {entry.name: _quantizer(entry, bounds, room, fraction_bits) for entry in layout.floats}
        return cls(layout, quantizers, room, weighing, integers, clip)

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
        return {entry.name: self._error(entry, self._most(entry)) for entry in self.layout.entries}

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

    def decode(self, total: Integers) -> Any:
        """The weighted mean, in the kinds, types and on the devices of the layout.

        Raises:
            InputError: all weights are 0, or a mean of integers is none (names the key).
            ProtocolError: a mean is beyond the bound, which no numbers within it have: some vector was none of these.
        """
        weight = positive(self.weight(total))
        parts: dict[str, NDArray[Any]] = {}
        for entry, place in self.layout.places():
            self._check_within(entry, total[place], weight)
            if entry.is_float:
                parts[entry.name] = self.quantizers[entry.name].decode(total[place], weight)
            else:
                parts[entry.name] = mean_of_integers(total[place], weight, entry, self.integers)
        return self.layout.built(parts)

    def errors(self, total: Integers, clients: int) -> dict[str, float]:
        """The stated bound of the error, by tensor, for this sum of so many vectors; see the class."""
        weight, found = positive(self.weight(total)), {}
        for entry, place in self.layout.places():
            magnitude = 0.0
            if entry.is_float:
                largest = largest_magnitude(total[place]) / weight
                magnitude = math.ldexp(largest, -self.quantizers[entry.name].fraction_bits)
            off = clients * self._most(entry) / weight if self.weighing.fraction_bits else 0.0
            found[entry.name] = self._error(entry, magnitude) + off
        return found

    def weight(self, total: Integers) -> int:
        """The last entry."""
        if total.dtype != np.int64 or total.shape != (self.width,):
            raise InputError(f"total must be int64 [{self.width}]; found {total.dtype} {list(total.shape)}")
        return int(total[-1])

    def _check_within(self, entry: Entry, total: Integers, weight: int) -> None:
        most = self.quantizers[entry.name].largest if entry.is_float else self.integer_bound
        if total.size and max(int(total.max()), -int(total.min())) > weight * most:
            raise ProtocolError(
                f"mean under {entry.name!r} must lie within the bound of the numbers; it does not, so that a client "
                f"must have handed in something else"
            )

    def _most(self, entry: Entry) -> float:
        if entry.is_float:
            return self.quantizers[entry.name].bound
        return 1.0 if entry.dtype == BOOL else float(self.integer_bound)

    def _error(self, entry: Entry, magnitude: float) -> float:
        if not entry.is_float:
            return 0.5 if self.integers is IntegerRule.ROUND else 0.0
        return self.quantizers[entry.name].error + cast_error(entry.dtype, magnitude)

    def _encode(self, entry: Entry, arrays: Arrays, out: Integers) -> None:
        values = arrays.entries(entry.name)
        if not entry.is_float:
            out[:] = checked_integers(entry, values, self.integer_bound)
            return
        quantizer, largest = self.quantizers[entry.name], arrays.largest(entry.name)
        if self.clip and finite(largest, named(entry), REMEDY) > quantizer.bound:
            values, largest = values.astype(np.float64).clip(-quantizer.bound, quantizer.bound), quantizer.bound
        quantizer.encode(values, out=out, largest=largest)


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


def named(entry: Entry) -> str:
    """What a tensor's numbers are called in messages."""
    return f"numbers under {entry.name!r}"


def mean_of_integers(total: Integers, weight: int, entry: Entry, rule: IntegerRule) -> Integers:
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
        whole, rest = np.divmod(total, weight)
        return whole + (rest >= weight - rest)  # twice a total may be beyond 64 bits
    if (total % weight).any():
        raise InputError(
            f"mean of the integers or truth values under {entry.name!r} must be an integer under IntegerRule.EXACT; it "
            f"is none: take IntegerRule.ROUND, leave the key out, or make it a float tensor"
        )
    return total // weight


def cast_error(dtype: str, magnitude: float) -> float:
    """How far numbers of up to that magnitude move when they are divided in float64 and rounded to a float type.

    Half a unit in the last place: 2^-p |x| for significands of p bits, or half the smallest number.
    """
    twice = _TWICE if FLOATS[dtype] < 24 else 0.0
    return magnitude * (2.0 ** -FLOATS[dtype] + twice + _FLOAT64) + 2.0 ** max(SMALLEST[dtype] - 1, -1074)


def _quantizer(entry: Entry, bounds: Mapping[str, float], room: int, asked: int | None) -> Quantizer:
    bound = bounds.get(entry.name, math.nan)
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound of {entry.name!r} must be a positive number; found {bound}")
    if asked is None:
        return Quantizer(bound, most_fraction_bits(bound, room), named(entry), REMEDY)
    if asked + math.frexp(bound)[1] > 64 or units_of(bound, asked) > room:
        raise FieldRangeError(
            f"bound * 2^fraction_bits must stay within {room:,} for {entry.name!r}, which is what clients and weights "
            f"leave of the scheme's limit; found {bound:g} * 2^{asked}"
        )
    return Quantizer(bound, asked, named(entry), REMEDY)


def checked_integers(entry: Entry, values: NDArray[Any], bound: int) -> Integers:
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


def bound_for(entry: Entry, bound: float) -> float:
    """A bound for a tensor, or that of its type where that is smaller."""
    return min(bound, math.ldexp(1.0, min(LARGEST[entry.dtype], 1023)))
