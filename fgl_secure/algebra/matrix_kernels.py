"""Compiled linear combinations of rows: what encoding, decoding and error location spend their time in.

A task is one block of columns: its rows are copied side by side into a buffer that stays in cache, four rows are
multiplied at a time (four products of 31 bits add up below 2^64, so that one reduction serves four), and the sums stay
in an accumulator in cache. Inputs must be elements; every loop counts those that are not and its answer is then void,
so that a check costs no pass of its own over memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.reduction import (
    MERSENNE_31,
    MERSENNE_61,
    compiled,
    fold_31,
    inlined,
    multiply_61,
    reduce_31,
    reduce_61,
    remainder,
)
from fgl_secure.threads import Thread, range_of

Array = NDArray[Any]

BLOCK = 512
"""Columns worked on at a time: 64 rows of them fill a quarter of a typical second-level cache."""
CHUNKS = 64
"""Pieces that the tasks are cut into, so that buffers are made once a piece and a core that lags gets less."""
SMALL = 2**16
"""Below this, 2^31 products add up below 2^63."""
MIDDLE = 2**30
"""Below this, four do."""

_31, _31_BITS, _2_TO_31 = np.uint64(31), np.uint64(MERSENNE_31), np.uint64(2**31)


@compiled
def combine_pair_31(matrix: Array, first: Array, second: Array, out: Array, thread: Thread) -> int:
    """out[b, i] = matrix[i, 0] * first[b, 0] + matrix[i, 1] * second[b, 0] modulo 2^31 - 1, in one pass.

    Shapes: matrix uint64 [r, 2]; first, second [b or 1, 1, L]; out [b, r, L]. Returns how many inputs are no elements.
    """
    batch, rows, width = out.shape
    blocks = (width + BLOCK - 1) // BLOCK
    strangers = 0
    for task in range_of(batch * blocks, thread):
        b, start = task // blocks, task % blocks * BLOCK
        stop = min(start + BLOCK, width)
        x = first[b if len(first) > 1 else 0, 0, start:stop]
        y = second[b if len(second) > 1 else 0, 0, start:stop]
        strangers += _strangers(x, np.uint64(MERSENNE_31)) + _strangers(y, np.uint64(MERSENNE_31))
        for i in range(rows):
            u, v = np.uint64(np.uint32(matrix[i, 0])), np.uint64(np.uint32(matrix[i, 1]))
            result = out[b, i, start:stop]
            for k in range(stop - start):
                result[k] = reduce_31(u * np.uint64(np.uint32(x[k])) + v * np.uint64(np.uint32(y[k])))
    return strangers


@compiled
def combine(matrix: Array, first: Array, second: Array, modulus: int, out: Array, thread: Thread) -> int:
    """out[b] = matrix @ (first[b] on top of second[b]).

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


@compiled
def interpolate(
    matrix: Array, rows: Array, used: Array, checked: Array, modulus: int, out: Array, differs: Array, thread: Thread
) -> None:
    """Computes out = matrix[:n] @ rows[used], and whether matrix[n:] @ rows[checked] is what those rows hold.

    Shapes: matrix uint64 [n + e, c], c a multiple of four, columns behind those of the used rows zero; rows [m, L];
    used [c' <= c]; checked [e]; out [n, L]; differs bool [blocks]: whether a checked row differs in that block.
    """
    blocks, width = len(differs), rows.shape[1]
    chunks = min(CHUNKS, blocks)
    for chunk in range_of(chunks, thread):
        held = np.zeros((matrix.shape[1], min(width, BLOCK)), dtype=np.uint64)
        total = np.empty(min(width, BLOCK), dtype=np.uint64)
        for block in range(chunk * blocks // chunks, (chunk + 1) * blocks // chunks):
            start, stop = block * BLOCK, min((block + 1) * BLOCK, width)
            for j in range(len(used)):
                _hold(rows[used[j], start:stop], held[j], np.uint64(modulus))
            different = 0
            for i in range(len(matrix)):
                _weigh(matrix[i], held, modulus, total[: stop - start])
                if i < len(out):
                    result = out[i, start:stop]
                    for k in range(stop - start):
                        result[k] = total[k]
                else:
                    claimed = rows[checked[i - len(out)], start:stop]
                    for k in range(stop - start):
                        different += np.uint64(claimed[k]) != total[k]
            differs[block] = different > 0


@compiled
def dot(rows: Array, weights: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[chunk, i] = part of the sum over k of rows[i, k] * weights[k]; the sum over chunks is all of it.

    Shapes: rows [m, L], weights [L], out uint64 [CHUNKS, m].
    """
    count, width = rows.shape
    blocks, p = (width + BLOCK - 1) // BLOCK, np.uint64(modulus)
    for chunk in range_of(CHUNKS, thread):
        for i in range(count):
            out[chunk, i] = 0
        for block in range(chunk * blocks // CHUNKS, (chunk + 1) * blocks // CHUNKS):
            start, stop = block * BLOCK, min((block + 1) * BLOCK, width)
            w = weights[start:stop]
            for i in range(count):
                row, total = rows[i, start:stop], out[chunk, i]
                if modulus == MERSENNE_31:
                    for k in range(stop - start):
                        total += fold_31(np.uint64(np.uint32(row[k])) * np.uint64(np.uint32(w[k])))
                    total = reduce_31(total)
                elif modulus == MERSENNE_61:
                    high, low = np.uint64(0), np.uint64(0)
                    for k in range(stop - start):
                        product = multiply_61(np.uint64(row[k]), np.uint64(w[k]))
                        high, low = high + (product >> _31), low + (product & _31_BITS)
                    total = reduce_61(total + multiply_61(high, _2_TO_31) + low)
                else:
                    for k in range(stop - start):
                        total += np.uint64(row[k]) * np.uint64(w[k]) % p
                    total = total % p
                out[chunk, i] = total


@inlined
def _strangers(values: Array, modulus: Any) -> Any:
    """How many of the values are no elements; negative ones are large as unsigned."""
    count = 0
    for k in range(len(values)):
        count += np.uint64(values[k]) >= modulus
    return count


@inlined
def _hold(row: Array, place: Array, modulus: Any) -> Any:
    """Copies a row into the buffer; how many are no elements."""
    strangers = 0
    for k in range(len(row)):
        value = np.uint64(row[k])
        place[k] = value
        strangers += value >= modulus
    return strangers


@inlined
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
                total[k] += fold_31(low + a2 * (x2[k] & _31_BITS) + a3 * (x3[k] & _31_BITS))
        elif modulus == MERSENNE_61:
            for k in range(len(total)):
                low = reduce_61(multiply_61(a0, x0[k]) + multiply_61(a1, x1[k]))
                total[k] = reduce_61(total[k] + low + multiply_61(a2, x2[k]) + multiply_61(a3, x3[k]))
        elif modulus < SMALL:
            for k in range(len(total)):
                total[k] += a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]
        elif modulus < MIDDLE:
            for k in range(len(total)):
                products = a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]
                total[k] += np.uint64(remainder(np.int64(products), modulus))
        else:
            for k in range(len(total)):
                total[k] = total[k] + (a0 * x0[k] + a1 * x1[k] + a2 * x2[k] + a3 * x3[k]) % np.uint64(modulus)
    _reduce(total, modulus)


@inlined
def _reduce(total: Array, modulus: int) -> None:
    """Sums of products as elements."""
    if modulus == MERSENNE_31:
        for k in range(len(total)):
            total[k] = reduce_31(total[k])
    elif modulus != MERSENNE_61:  # there they are elements
        for k in range(len(total)):
            total[k] = np.uint64(remainder(np.int64(total[k]), modulus))
