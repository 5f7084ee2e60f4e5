"""Tables for drawing symmetric integer noise by inversion.

The weights are worked out with 60 decimal digits and the distribution function is cut to 63 bits, so the table's
distribution is known exactly; its total variation from the true one is part of the table.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.jit import njit

UNIFORM_BITS = 63
_CONTEXT = decimal.Context(prec=60)
_SCALE = 2**UNIFORM_BITS


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """A symmetric distribution on -largest .. largest, with probabilities that are multiples of 2^-63.

    Attributes:
        cumulative: uint64 [2^k], 2^63 times P[X <= -largest + j] at j, then 2^63 where nothing follows.
        largest: largest magnitude that is ever drawn.
        total_variation: distance from the distribution that the table stands for, its cut tails included.
    """

    cumulative: NDArray[np.uint64]
    largest: int
    total_variation: float

    def invert(self, uniform: NDArray[np.int64]) -> NDArray[np.int64]:
        """Maps elements uniform on 0 .. 2^63 - 1 to noise of the same shape, in the same steps for every element."""
        out = np.empty(uniform.size, dtype=np.int64)
        _count_below(np.ascontiguousarray(uniform).ravel(), self.cumulative, out)
        return out.reshape(uniform.shape) - self.largest


@lru_cache(maxsize=32)
def discrete_gaussian_table(sigma: float) -> NoiseTable:
    """The table of P[X = x] proportional to exp(-x^2 / (2 sigma^2)) (Canonne, Kamath, Steinke 2020, Def. 1)."""
    with decimal.localcontext(_CONTEXT):
        exponent = 1 / (2 * Decimal(sigma) ** 2)
        weight, ratio, step = Decimal(1), (-exponent).exp(), (-2 * exponent).exp()
        weights = []
        for _ in range(_reach(sigma) + 1):
            weights.append(weight)
            weight, ratio = weight * ratio, ratio * step
        return _table(weights)


@lru_cache(maxsize=32)
def skellam_table(variance: float) -> NoiseTable:
    """The table of the difference of two Poisson variables of mean variance / 2 each.

    P[X = x] is proportional to the Bessel function I_|x|(variance). The recurrence I_(k-1) = I_(k+1) + 2 k I_k / z is
    stable downwards and may start from any values far beyond the support (Miller's algorithm).
    """
    with decimal.localcontext(_CONTEXT):
        z, above, here = Decimal(variance), Decimal(0), Decimal(1)
        downwards = [here]
        for k in range(_reach(math.sqrt(variance)), 0, -1):
            above, here = here, above + 2 * k / z * here
            downwards.append(here)
        return _table(downwards[::-1])


def _reach(deviation: float) -> int:
    """Beyond this magnitude less than 10^-40 of the probability lies."""
    return math.ceil(14 * deviation) + 60


def _table(weights: Sequence[Decimal]) -> NoiseTable:
    """Cuts the symmetric distribution with these weights at 0, 1, 2 .. to 63 bits."""
    total = weights[0] + 2 * sum(weights[1:], Decimal(0))
    tails, tail = [], Decimal(0)
    for weight in reversed(weights[1:]):
        tail += weight
        tails.append(int(_SCALE * tail / total))
    tails.reverse()  # tails[k - 1] is 2^63 P[X <= -k]; the upper half mirrors it
    largest = sum(tail > 0 for tail in tails)
    lower = tails[:largest][::-1]
    steps = [*lower, *(_SCALE - tail for tail in tails[:largest])]
    cumulative = np.full(2 ** len(steps).bit_length(), _SCALE, dtype=np.uint64)
    cumulative[: len(steps)] = np.array(steps, dtype=np.uint64)
    return NoiseTable(cumulative, largest, _total_variation(tails, weights, total))


def _total_variation(tails: Sequence[int], weights: Sequence[Decimal], total: Decimal) -> float:
    ends = [*tails, 0]
    off = abs((_SCALE - 2 * ends[0]) / Decimal(_SCALE) - weights[0] / total)
    for k in range(1, len(weights)):
        off += 2 * abs((ends[k - 1] - ends[k]) / Decimal(_SCALE) - weights[k] / total)
    return float(off / 2)


@njit(boundscheck=False)
def _count_below(uniform: NDArray[Any], cumulative: NDArray[Any], out: NDArray[Any]) -> None:
    """How many entries of the table, a power of two long, do not exceed each element: log2 of it steps, always."""
    for i in range(len(uniform)):
        element, position, half = np.uint64(uniform[i]), 0, len(cumulative) >> 1
        while half:
            position += half * (cumulative[position + half - 1] <= element)
            half >>= 1
        out[i] = position
