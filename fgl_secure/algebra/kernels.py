"""Compiled loops over messages and real numbers, and the scalar arithmetic modulo a prime that is inlined into them.

Shapes are fixed here: a leading batch axis B (coin tapes, 1 in production), then messages or rows, then coordinates.
Elements come in any integer dtype and are worked on in int64: below 2^31 a product and 2^32 sums fit.

Processor time with library calls in place of a loop, on an Intel Xeon: a round of `python -m benchmarks secagg` under
lightsecagg of 20 clients takes 13.8 times as long without `combine`. Of `python -m benchmarks secmp` on Cora, an epoch
under secmp takes 5.0 times as long without `affine_rows`, and one under relay-coded 2.5 times as long without
`masked_rows`. Scipy's sparse product in place of `segment_sums` costs 1.13 times under secmp.
`rounded_outer_sums` bounds memory: a dense array of its terms would hold every entry of every row's gradient.

Three kinds of modulus: 2^31 - 1 and 2^61 - 1, where reduction is a shift and an add because 2^k = 1 modulo 2^k - 1,
and any other prime below 2^31, by division, or by a quotient of floats where `remainder` is called. Products are
unsigned: four products of elements of 31 bits fit 64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from fgl_secure.threads import Thread, njit, parallel, range_of, slice_of
from fgl_secure.typing import Array

MERSENNE_31 = 2**31 - 1
MERSENNE_61 = 2**61 - 1

_LEAST_FAST = 2**12

_P31 = np.uint64(MERSENNE_31)
_P61 = np.uint64(MERSENNE_61)
_LOW_30 = np.uint64(2**30 - 1)
_1, _30, _31, _61 = np.uint64(1), np.uint64(30), np.uint64(31), np.uint64(61)


def compile_parallel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over the cores, compiled when first called and kept on disk (see `parallel`)."""
    return parallel(function)


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that LLVM puts into the loops that call it; numba's own inlining takes twice as long to compile."""
    return cast("Callable[..., Any]", njit(cache=False)(function))


@inline
def _remainder(value: Any, modulus: int) -> Any:
    """The element of a modulus below 2^31 that any int64 stands for; in loops over arrays without a division.

    The quotient comes from float64: for a modulus of 2^12 or more three roundings change it by less than .75, and
    cutting its fraction off by less than 1, so the rest lies within 1.75 of the modulus. Smaller moduli are divided by.
    """
    if modulus < _LEAST_FAST:
        return value % modulus
    rest = value - np.int64(np.float64(value) * (1.0 / modulus)) * modulus
    rest = rest + modulus if rest < 0 else rest
    rest = rest + modulus if rest < 0 else rest
    return rest - modulus if rest >= modulus else rest


@inline
def canonical(value: Any, modulus: int) -> Any:
    """The element 0 .. modulus - 1 that any int64 stands for, negatives from above."""
    if modulus == MERSENNE_31:
        value = (value & MERSENNE_31) + (value >> 31)
        value = (value & MERSENNE_31) + (value >> 31)
        value = value + MERSENNE_31 if value < 0 else value
        return value - MERSENNE_31 if value >= MERSENNE_31 else value
    if modulus == MERSENNE_61:
        value = (value & MERSENNE_61) + (value >> 61)
        value = value + MERSENNE_61 if value < 0 else value
        return value - MERSENNE_61 if value >= MERSENNE_61 else value
    return value % modulus


@inline
def _fold_31(value: Any) -> Any:
    """A uint64 below 2^34 that equals any given uint64 modulo 2^31 - 1."""
    return (value & _P31) + (value >> _31)


@inline
def _reduce_31(value: Any) -> Any:
    """The element of 2^31 - 1 that any uint64 stands for."""
    value = _fold_31(_fold_31(value))
    return value - _P31 if value >= _P31 else value


@inline
def _reduce_61(value: Any) -> Any:
    """The element of 2^61 - 1 that any uint64 stands for."""
    value = (value & _P61) + (value >> _61)
    return value - _P61 if value >= _P61 else value


@inline
def _multiply_61(a: Any, b: Any) -> Any:
    """The product of two elements of 2^61 - 1, all uint64, from limbs of 31 and 30 bits.

    With a = a1 2^31 + a0 and b likewise, a b = 2 a1 b1 + (a1 b0 + a0 b1) 2^31 + a0 b0, because 2^62 = 2; the middle
    sum has at most 62 bits, of which those from the 30th on come round to the bottom (2^31 2^30 = 1). The total stays
    below 2^64.
    """
    a1, a0 = (a >> _31) & _LOW_30, a & _P31
    b1, b0 = (b >> _31) & _LOW_30, b & _P31
    middle = a1 * b0 + a0 * b1
    return _reduce_61(((a1 * b1) << _1) + (middle >> _30) + ((middle & _LOW_30) << _31) + a0 * b0)


@inline
def multiply(a: Any, b: Any, modulus: int) -> Any:
    """The product of two elements, all int64."""
    if modulus == MERSENNE_61:
        return np.int64(_multiply_61(np.uint64(a), np.uint64(b)))
    return canonical(a * b, modulus)


BLOCK = 512
"""Columns of a matrix product worked on at a time: 64 rows of them fill a quarter of a typical second-level cache."""
CHUNKS = 64
"""Pieces that the tasks are cut into, so that buffers are made once a piece and a core that lags gets less."""
SMALL = 2**16
"""Below this, 2^31 products add up below 2^63."""
MIDDLE = 2**30
"""Below this, four do."""

_31_BITS = np.uint64(MERSENNE_31)


@compile_parallel
def reduce_each(values: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = values[i] as an element; torch takes ten times as long, and a round of LightSecAgg twice."""
    span = slice_of(out.size, thread)
    values, out = values[span], out[span]
    for i in range(out.size):
        out[i] = canonical(values[i], modulus)


@compile_parallel
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
        scale = np.int64(weights[0]) if row >= 0 else np.int64(0)
        row = max(row, 0)
        for b in range(batch):
            if lazy and len(masks) == 1 and modulus == MERSENNE_31:
                weight, values, mask, share = np.int64(weights[1]), rows[row], masks[0][b, e], out[b, e]
                for k in range(width):
                    total = scale * np.int64(values[k]) + weight * np.int64(mask[k])
                    total = (total & MERSENNE_31) + (total >> 31)  # small weights: within twice the modulus
                    total = total + MERSENNE_31 if total < 0 else total
                    share[k] = total - MERSENNE_31 if total >= MERSENNE_31 else total
            elif lazy and len(masks) == 1:
                weight, mask = np.int64(weights[1]), masks[0]
                for k in range(width):
                    out[b, e, k] = _remainder(
                        scale * np.int64(rows[row, k]) + weight * np.int64(mask[b, e, k]), modulus
                    )
            else:
                for k in range(width):
                    total = multiply(canonical(scale, modulus), np.int64(rows[row, k]), modulus)
                    for t in range(len(masks)):
                        weight = canonical(np.int64(weights[1 + t]), modulus)
                        total = canonical(total + multiply(weight, np.int64(masks[t][b, e, k]), modulus), modulus)
                    out[b, e, k] = total


@compile_parallel
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


@compile_parallel
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


@compile_parallel
def combine(matrix: Array, first: Array, second: Array, modulus: int, out: Array, thread: Thread) -> int:
    """out[b] = matrix @ (first[b] on top of second[b]).

    A task is one block of columns: its rows are copied side by side into a buffer that stays in cache, four rows are
    multiplied at a time (four products of 31 bits add up below 2^64, so that one reduction serves four), and the sums
    stay in an accumulator in cache. Inputs must be elements; the loop counts those that are not and its answer is then
    void, so that a check costs no pass of its own over memory.

    Shapes: matrix uint64 [r, c], c a multiple of four; first [b or 1, c1, L], second [b or 1, c2, L], c1 + c2 <= c,
    where columns from c1 + c2 on must be zero; out [b, r, L]. Returns how
    many inputs are no elements.
    """
    batch, rows, width = out.shape
    blocks = (width + BLOCK - 1) // BLOCK
    tasks, size, p = batch * blocks, min(width, BLOCK), np.uint64(modulus)
    chunks, strangers = min(CHUNKS, tasks), 0
    for chunk in range_of(chunks, thread):
        held = np.zeros((matrix.shape[1], size), dtype=np.uint64)
        total = np.empty(size, dtype=np.uint64)
        for task in range(chunk * tasks // chunks, (chunk + 1) * tasks // chunks):
            b, start = task // blocks, task % blocks * BLOCK
            stop = min(start + BLOCK, width)
            upper, lower = first[b if len(first) > 1 else 0], second[b if len(second) > 1 else 0]
            for j in range(upper.shape[0]):
                strangers += _hold(upper[j, start:stop], held[j], p)
            for j in range(lower.shape[0]):
                strangers += _hold(lower[j, start:stop], held[upper.shape[0] + j], p)
            for i in range(rows):
                _weigh(matrix[i], held, modulus, total[: stop - start])
                result = out[b, i, start:stop]
                for k in range(stop - start):
                    result[k] = total[k]
    return strangers


@inline
def _hold(row: Array, place: Array, modulus: Any) -> Any:
    """Copies a row into the buffer; how many are no elements."""
    strangers = 0
    for k in range(len(row)):
        value = np.uint64(row[k])
        place[k] = value
        strangers += value >= modulus
    return strangers


@inline
def _weigh(weights: Array, held: Array, modulus: int, total: Array) -> None:
    """total[k] = sum over j of weights[j] * held[j, k], as elements; four rows at a time."""
    total[:] = 0
    for j in range(0, len(weights), 4):
        a0, a1, a2, a3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        x0, x1, x2, x3 = held[j], held[j + 1], held[j + 2], held[j + 3]
        if modulus == MERSENNE_31:
            a0, a1, a2, a3 = a0 & _31_BITS, a1 & _31_BITS, a2 & _31_BITS, a3 & _31_BITS
            for k in range(len(total)):
                # The masks change nothing: they tell the compiler that 32-bit products do.
                low = a0 * (x0[k] & _31_BITS) + a1 * (x1[k] & _31_BITS)
                total[k] += _fold_31(low + a2 * (x2[k] & _31_BITS) + a3 * (x3[k] & _31_BITS))
        elif modulus == MERSENNE_61:
            for k in range(len(total)):
                low = _reduce_61(_multiply_61(a0, x0[k]) + _multiply_61(a1, x1[k]))
                total[k] = _reduce_61(total[k] + low + _multiply_61(a2, x2[k]) + _multiply_61(a3, x3[k]))
        elif modulus < SMALL:
            for k in range(len(total)):
                total[k] += a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]
        elif modulus < MIDDLE:
            for k in range(len(total)):
                products = a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]
                total[k] += np.uint64(_remainder(np.int64(products), modulus))
        else:
            for k in range(len(total)):
                total[k] = total[k] + (a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]) % np.uint64(modulus)
    _reduce(total, modulus)


@inline
def _reduce(total: Array, modulus: int) -> None:
    """Sums of products as elements."""
    if modulus == MERSENNE_31:
        for k in range(len(total)):
            total[k] = _reduce_31(total[k])
    elif modulus != MERSENNE_61:  # there they are elements
        for k in range(len(total)):
            total[k] = np.uint64(_remainder(np.int64(total[k]), modulus))
