"""What happens to means of integers, and how far a mean in floats may be from the exact one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.arrays import BOOL, FLOATS, SMALLEST
from fgl_secure.aggregation.layout import Entry
from fgl_secure.errors import InputError

Integers = NDArray[np.int64]

_FLOAT64 = 2.0**-51
"""Relative error of a sum and a weight rounded to float64 and divided: below 4 units of 2^-53."""
_TWICE = 2.0**-23
"""Torch rounds to 16 bits by way of float32."""


class IntegerRule(StrEnum):
    """What the mean of integers is."""

    EXACT = "exact"
    """Itself; a mean that is no integer is an error."""
    ROUND = "round"
    """The nearest integer, halves up."""


def mean_of_integers(total: Integers, weight: int, entry: Entry, rule: IntegerRule) -> Integers:
    """The mean of an integer tensor from its weighted sum.

    Args:
        total: int64 [size], the sum of weights times values.
        weight: the sum of the weights, positive.
        entry: whose.
        rule: what to do when it is no integer; truth values must be equal under any rule.

    Raises:
        InputError: the mean is no integer and the rule is EXACT, or truth values differ; names the tensor.
    """
    if entry.dtype == BOOL and not ((total == 0) | (total == weight)).all():
        raise InputError(
            f"truth values under {entry.name!r} must be equal at all clients, for they have no mean; they are not: "
            f"leave the key out, or make it a float tensor"
        )
    if rule is IntegerRule.ROUND:
        whole, rest = np.divmod(total, weight)
        return whole + (rest >= weight - rest)  # twice a total may be beyond 64 bits
    if (total % weight).any():
        raise InputError(
            f"mean of the integers under {entry.name!r} must be an integer under IntegerRule.EXACT; it is none: take "
            f"IntegerRule.ROUND, leave the key out, or make it a float tensor"
        )
    return total // weight


def cast_error(dtype: str, magnitude: float) -> float:
    """How far numbers of up to that magnitude move when they are divided in float64 and rounded to a float type.

    Half a unit in the last place: 2^-p |x| for significands of p bits, or half the smallest number.
    """
    twice = _TWICE if FLOATS[dtype] < 24 else 0.0
    return magnitude * (2.0 ** -FLOATS[dtype] + twice + _FLOAT64) + 2.0 ** max(SMALLEST[dtype] - 1, -1074)


def largest_magnitude(values: NDArray[Any]) -> float:
    """Of a vector; 0 for an empty one, NaN where there is one."""
    if not values.size:
        return 0.0
    return float(max(-float(values.min()), float(values.max())))  # a NaN is both
