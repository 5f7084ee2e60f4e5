"""Compiled loops over messages and real numbers.

Shapes are fixed here: a leading batch axis B (coin tapes, 1 in production), then messages or rows, then coordinates.
Elements come in any integer dtype and are worked on in int64: below 2^31 a product and 2^32 sums fit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.reduction import MERSENNE_31, MERSENNE_61, canonical, compiled, multiply

__all__ = ["MERSENNE_31", "affine_rows", "decode_fixed", "encode_fixed", "segment_sums", "segment_sums_real"]

Array = NDArray[Any]


@compiled
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
                    product = multiply(factor, np.int64(rows[row, k]), modulus)
                    out[b, e, t, k] = canonical(product + np.int64(offset[b, group, t, k]), modulus)


@compiled
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
                    if modulus == MERSENNE_61:  # only three such elements fit int64
                        total[k] = canonical(total[k], modulus)
            for k in range(width):
                out[b, s, k] = canonical(total[k], modulus)


@compiled
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


@compiled
def encode_fixed(values: Array, scale: float, modulus: int, out: Array) -> None:
    """out[i] = round(values[i] * scale) modulo the modulus, halves away from zero, negatives from above."""
    for i in numba.prange(values.size):
        scaled = np.float64(values[i]) * scale
        size = abs(scaled)
        whole = np.floor(size)  # adding a half first would round twice: just below it, and beyond 2^52
        element = canonical(np.int64(whole) + np.int64(size - whole >= 0.5), modulus)
        out[i] = modulus - element if scaled < 0 and element > 0 else element


@compiled
def decode_fixed(elements: Array, scale: float, modulus: int, out: Array) -> None:
    """out[i] = the representative of elements[i] in (-modulus / 2, modulus / 2), divided by scale."""
    half = modulus // 2
    for i in numba.prange(elements.size):
        element = np.int64(elements[i])
        out[i] = (element - modulus if element > half else element) / scale
