"""Compiled loops over field elements; everything else in the package calls them through `PrimeField`.

Shapes are fixed here: a leading batch axis B (coin tapes, 1 in production), then messages or rows, then coordinates.
Elements come in any integer dtype and are worked on in int64: below 2^31 a product and 2^32 sums fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

MERSENNE_31 = 2**31 - 1

Array = NDArray[Any]


def _kernel(function: Callable[..., None]) -> Callable[..., None]:
    return cast("Callable[..., None]", numba.njit(parallel=True, cache=True, boundscheck=False)(function))


@numba.njit(inline="always")  # type: ignore[untyped-decorator]  # numba ships no types
def _reduce(value: int, modulus: int) -> int:
    """Brings 0 <= value < 2^62 into 0 .. modulus - 1; a shift and an add where the modulus is 2^31 - 1."""
    if modulus == MERSENNE_31:
        value = (value & MERSENNE_31) + (value >> 31)
        value = (value & MERSENNE_31) + (value >> 31)
        return value - MERSENNE_31 if value >= MERSENNE_31 else value
    return value % modulus


@_kernel
def affine_rows(
    scale: Array, offset: Array, rows: Array, row_of: Array, group_of: Array, modulus: int, out: Array
) -> None:
    """out[b, e, t, k] = scale[group, t] * rows[row, k] + offset[b, group, t, k], row and group those of message e."""
    batch, messages, shares, width = out.shape
    for e in numba.prange(messages):
        row, group = row_of[e], group_of[e]
        for b in range(batch):
            for t in range(shares):
                factor = np.int64(scale[group, t])
                for k in range(width):
                    out[b, e, t, k] = _reduce(factor * np.int64(rows[row, k]) + offset[b, group, t, k], modulus)


@_kernel
def segment_sums(values: Array, order: Array, starts: Array, modulus: int, out: Array) -> None:
    """out[b, s, k] = sum of values[b, order[i], k] over starts[s] <= i < starts[s + 1], modulo the modulus."""
    batch, segments, width = out.shape
    for s in numba.prange(segments):
        total = np.empty(width, dtype=np.int64)
        for b in range(batch):
            total[:] = 0
            for i in range(starts[s], starts[s + 1]):
                for k in range(width):
                    total[k] += values[b, order[i], k]
            for k in range(width):
                out[b, s, k] = _reduce(total[k], modulus)


@_kernel
def segment_sums_real(values: Array, order: Array, starts: Array, out: Array) -> None:
    """The same sum over real numbers, accumulated in float64: values [m, k], out [s, k]."""
    segments, width = out.shape
    for s in numba.prange(segments):
        total = np.zeros(width, dtype=np.float64)
        for i in range(starts[s], starts[s + 1]):
            for k in range(width):
                total[k] += values[order[i], k]
        for k in range(width):
            out[s, k] = total[k]


@_kernel
def encode_fixed(values: Array, scale: float, modulus: int, out: Array) -> None:
    """out[i] = round(values[i] * scale) modulo the modulus, halves away from zero, negatives from above."""
    for i in numba.prange(values.size):
        scaled = np.float64(values[i]) * scale
        whole = np.int64(scaled + 0.5) if scaled >= 0 else np.int64(scaled - 0.5)
        out[i] = whole % modulus


@_kernel
def decode_fixed(elements: Array, scale: float, modulus: int, out: Array) -> None:
    """out[i] = the representative of elements[i] in (-modulus / 2, modulus / 2), divided by scale."""
    half = modulus // 2
    for i in numba.prange(elements.size):
        element = np.int64(elements[i])
        out[i] = (element - modulus if element > half else element) / scale
