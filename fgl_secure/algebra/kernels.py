"""Compiled loops over messages and real numbers.

Shapes are fixed here: a leading batch axis B (coin tapes, 1 in production), then messages or rows, then coordinates.
Elements come in any integer dtype and are worked on in int64: below 2^31 a product and 2^32 sums fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.reduction import MERSENNE_31, MERSENNE_61, canonical, compiled, multiply, remainder
from fgl_secure.threads import Thread, range_of, slice_of

__all__ = [
    "MERSENNE_31",
    "add_rows",
    "affine_rows",
    "decode_fixed",
    "encode_fixed",
    "masked_rows",
    "rounded_outer_sums",
    "segment_sums",
    "segment_sums_real",
]

Array = NDArray[Any]


@compiled
def affine_rows(
    scale: Array, offset: Array, rows: Array, row_of: Array, group_of: Array, modulus: int, out: Array, thread: Thread
) -> None:
    """out[b, e, t, k] = scale[group, t] * rows[row, k] + offset[b, group, t, k], row and group those of message e."""
    batch, messages, shares, width = out.shape
    for e in range_of(messages, thread):
        row, group = row_of[e], group_of[e]
        for b in range(batch):
            for t in range(shares):
                factor = np.int64(scale[group, t])
                for k in range(width):
                    product = multiply(factor, np.int64(rows[row, k]), modulus)
                    out[b, e, t, k] = canonical(product + np.int64(offset[b, group, t, k]), modulus)


@compiled
def masked_rows(
    weights: Array, rows: Array, row_of: Array, masks: Any, modulus: int, out: Array, thread: Thread
) -> None:
    """out[b, e, k] = weights[0] * rows[row_of[e], k] + sum of weights[1 + t] * masks[t][b, e, k]; row -1 is zero.

    Weights may be negative; where their magnitudes add up to less than 2^31 and elements have 31 bits, one reduction
    is enough.
    """
    batch, messages, width = out.shape
    size = np.int64(0)
    for w in weights:
        size += abs(w)
    lazy = modulus <= MERSENNE_31 and size < MERSENNE_31
    for e in range_of(messages, thread):
        row = row_of[e]
        own = np.int64(weights[0]) if row >= 0 else np.int64(0)
        row = max(row, 0)
        for b in range(batch):
            if lazy and len(masks) == 1 and modulus == MERSENNE_31:
                weight, values, mask, share = np.int64(weights[1]), rows[row], masks[0][b, e], out[b, e]
                for k in range(width):
                    total = own * np.int64(values[k]) + weight * np.int64(mask[k])
                    total = (total & MERSENNE_31) + (total >> 31)  # small weights: within twice the modulus
                    total = total + MERSENNE_31 if total < 0 else total
                    share[k] = total - MERSENNE_31 if total >= MERSENNE_31 else total
            elif lazy and len(masks) == 1:
                weight, mask = np.int64(weights[1]), masks[0]
                for k in range(width):
                    out[b, e, k] = remainder(own * np.int64(rows[row, k]) + weight * np.int64(mask[b, e, k]), modulus)
            else:
                for k in range(width):
                    total = multiply(canonical(own, modulus), np.int64(rows[row, k]), modulus)
                    for t in range(len(masks)):
                        weight = canonical(np.int64(weights[1 + t]), modulus)
                        total = canonical(total + multiply(weight, np.int64(masks[t][b, e, k]), modulus), modulus)
                    out[b, e, k] = total


@compiled
def segment_sums(values: Array, order: Array, starts: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[b, s, k] = sum of values[b, order[i], k] over starts[s] <= i < starts[s + 1], modulo the modulus."""
    batch, segments, width = out.shape
    wide = modulus == MERSENNE_61  # only three such elements fit int64
    for s in range_of(segments, thread):
        total = np.empty(width, dtype=np.int64)
        for b in range(batch):
            total[:] = 0
            for i in range(starts[s], starts[s + 1]):
                row = values[b, order[i]]
                if wide:
                    for k in range(width):
                        total[k] = canonical(total[k] + row[k], modulus)
                else:  # a loop of its own, without a branch, takes wide steps
                    for k in range(width):
                        total[k] += row[k]
            for k in range(width):
                out[b, s, k] = canonical(total[k], modulus)


STRIP = 16
"""Columns that one thread adds up."""


@compiled
def add_rows(values: Array, group_of: Array, modulus: int, totals: Array, thread: Thread) -> None:
    """totals[group_of[e], k] += values[e, k], modulo the modulus where it has more than 31 bits; rows in their order.

    Totals are int64: below 2^31 they hold 2^32 terms, and are reduced by whoever has added the last.
    """
    messages, width = values.shape
    wide = modulus > MERSENNE_31
    for strip in range_of(-(-width // STRIP), thread):
        first, stop = strip * STRIP, min(strip * STRIP + STRIP, width)
        for e in range(messages):
            row, total = values[e, first:stop], totals[group_of[e], first:stop]
            if wide:
                for k in range(stop - first):
                    total[k] = canonical(total[k] + np.int64(row[k]), modulus)
            else:
                for k in range(stop - first):
                    total[k] += row[k]


@compiled
def segment_sums_real(values: Array, order: Array, starts: Array, out: Array, thread: Thread) -> None:
    """The same sum over real numbers, accumulated in float64: values [m, k], out [s, k]."""
    segments, width = out.shape
    for s in range_of(segments, thread):
        total = np.zeros(width, dtype=np.float64)
        first, stop = starts[s], starts[s + 1]
        while first + 3 < stop:  # four rows at a time, added one after the other: the order of float sums counts
            row, second = values[order[first]], values[order[first + 1]]
            third, fourth = values[order[first + 2]], values[order[first + 3]]
            for k in range(width):
                total[k] = (((total[k] + row[k]) + second[k]) + third[k]) + fourth[k]
            first += 4
        for i in range(first, stop):
            for k in range(width):
                total[k] += values[order[i], k]
        for k in range(width):
            out[s, k] = total[k]


@compiled
def rounded_outer_sums(left: Array, right: Array, scale: float, out: Array, thread: Thread) -> None:
    """out[i, k] += sum over v of round(scale * sum over t of left[t, v, i] * right[t, v, k]), as `encode_fixed` rounds.

    Factors are float32, and so are products and their sum, as a dense array of them would be; then adding a half in
    float64 is exact. The sums are integers and stay below 2^53, so float64 holds them exactly and wide steps work.
    """
    terms, rows, height = left.shape
    for i in range_of(height, thread):
        total = np.zeros(right.shape[2], dtype=np.float64)
        for v in range(rows):
            empty = True
            for t in range(terms):
                empty = empty and left[t, v, i] == 0
            if not empty and terms == 1:
                factor = left[0, v, i]
                for k in range(right.shape[2]):
                    scaled = np.float64(factor * right[0, v, k]) * scale
                    total[k] += np.copysign(np.floor(abs(scaled) + 0.5), scaled)
            elif not empty:
                for k in range(right.shape[2]):
                    element = left[0, v, i] * right[0, v, k]
                    for t in range(1, terms):
                        element += left[t, v, i] * right[t, v, k]
                    scaled = np.float64(element) * scale
                    total[k] += np.copysign(np.floor(abs(scaled) + 0.5), scaled)
        for k in range(right.shape[2]):
            out[i, k] += np.int64(total[k])


@compiled
def encode_fixed(values: Array, scale: float, most: float, modulus: int, out: Array, thread: Thread) -> int:
    """out[i] = round(values[i] * scale) modulo the modulus, halves away from zero, negatives from above.

    Returns:
        How many of values * scale are beyond `most`, or no numbers: what stands for them in `out` means nothing.
    """
    own = slice_of(values.size, thread)
    values, out, outside = values[own], out[own], 0
    for i in range(values.size):
        scaled = np.float64(values[i]) * scale
        size = abs(scaled)
        if not size <= most:
            outside += 1
            size = np.float64(0)
        whole = np.floor(size)  # adding a half first would round twice: just below it, and beyond 2^52
        element = canonical(np.int64(whole) + np.int64(size - whole >= 0.5), modulus)
        out[i] = modulus - element if scaled < 0 and element > 0 else element
    return outside


@compiled
def decode_fixed(elements: Array, scale: float, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = the representative of elements[i] in (-modulus / 2, modulus / 2), divided by scale."""
    half, own = modulus // 2, slice_of(elements.size, thread)
    elements, out = elements[own], out[own]
    for i in range(elements.size):
        element = np.int64(elements[i])
        out[i] = (element - modulus if element > half else element) / scale
