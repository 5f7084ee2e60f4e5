"""Products of matrices of remainders modulo primes below 2^8: sums of products of bytes, exact in 32 bits.

Processors multiply bytes several times as fast as floats where they have instructions for it (AVX-512 VNNI, AVX-VNNI,
AMX), and PyTorch calls them; those with AVX2 alone multiply them in pairs, about twice as fast. Elsewhere
products of float32 matrices are exact over a thousand rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import binding
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fgl_secure.algebra import pair_products
from fgl_secure.algebra.residues import Remainders
from fgl_secure.errors import FieldRangeError
from fgl_secure.jit import njit

MOST_BITS = 7
"""Of the magnitude of a remainder."""
ROWS = 2 ** (31 - 2 * MOST_BITS)
"""Rows whose products add up to less than 2^31."""

FLOAT_ROWS = 2 ** (24 - 2 * MOST_BITS)
"""Rows whose products float32 adds up exactly."""

SMALL = 2**8
"""Products of two numbers in a product of matrices, up to which many at once, as all coin tapes have, take one call."""

Products = NDArray[Any]


def exact_product(left: Remainders, right: Remainders, out: Products | None = None) -> Products:
    """The sum over rows of the outer products of two rows, in integers: it is not reduced.

    Args:
        left: int8 [*batch, n, d], remainders of least magnitude; they may lie apart.
        right: int8 [*batch, n, h].
        out: where the product goes, contiguous and of its shape, int64, or int32 where the rows are no more than ROWS;
            a new array unless given.

    Returns:
        Integers [*batch, d, h], int32 or int64: the product of the transposed left matrix and the right one.

    Raises:
        FieldRangeError: remainders are no bytes; or the product cannot go into the array.
    """
    for found in (left.dtype, right.dtype):
        if found != np.int8:
            raise FieldRangeError(
                f"remainders must be int8, of primes below 2^{MOST_BITS + 1}, for exact products; found {found}"
            )
    *batch, rows, width = left.shape
    if out is not None:
        _check_out(out, (*batch, width, right.shape[-1]), rows)
    if not batch and rows <= ROWS:
        return _product(left, right, out)
    out = np.empty((*batch, width, right.shape[-1]), dtype=np.int64) if out is None else out
    if rows * width * right.shape[-1] <= SMALL:
        np.matmul(left.astype(np.int64).swapaxes(-1, -2), right.astype(np.int64), out=out, casting="same_kind")
        return out
    out[...] = 0
    for place in np.ndindex(*batch):
        for start in range(0, rows, ROWS):
            part = slice(start, start + ROWS)
            out[place] += _product(left[(*place, part)], right[(*place, part)], None)
    return out


def _check_out(out: Products, shape: tuple[int, ...], rows: int) -> None:
    kinds = ("int32", "int64") if rows <= ROWS else ("int64",)
    usable = out.flags.c_contiguous and out.flags.writeable
    if out.dtype.name not in kinds or out.shape != shape or not usable:
        raise FieldRangeError(
            f"out must be a contiguous {' or '.join(kinds)} {list(shape)} that can be written to, for sums over "
            f"{rows:,} rows; found {out.dtype} {list(out.shape)}{'' if usable else ', which is not'}"
        )


def _product(left: Remainders, right: Remainders, out: Products | None) -> Products:
    """The product of the transposed left matrix and the right one, of bytes: int32 [d, h], or into another array."""
    fast = len(left) > 1 and min(left.shape[1], right.shape[1]) > 1 and _bytes_are_fast()
    if fast:  # strides of a single row or column are ambiguous to PyTorch
        return _product_of_bytes(left, right, out)
    if 1 in {left.shape[1], right.shape[1]}:
        found = _weighed(left, right)
    else:
        found = (pair_products.product if pair_products.available() else _product_of_floats)(left, right)
    if out is None:
        return found
    out[...] = found
    return out


def _product_of_floats(left: Remainders, right: Remainders) -> Products:
    """By float32, some rows at a time: int32 [d, h]."""
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int32)
    with _libraries().limit(limits=torch.get_num_threads(), user_api="blas"):
        for start in range(0, len(left), FLOAT_ROWS):
            one, other = (side[start : start + FLOAT_ROWS].astype(np.float32) for side in (left, right))
            total += (one.T @ other).astype(np.int32)
    return total


def _weighed(left: Remainders, right: Remainders) -> Products:
    """The product where one of the matrices is a column, by which the other's rows are weighed."""
    swapped = left.shape[1] > 1
    weights, rows = (right[:, 0], left) if swapped else (left[:, 0], right)
    out = np.zeros(rows.shape[1], dtype=np.int32)
    _weigh(weights, rows, out)
    return out[:, None] if swapped else out[None]


@njit(boundscheck=False)
def _weigh(weights: Remainders, rows: Remainders, out: NDArray[np.int32]) -> None:
    """out[k] = the sum over i of weights[i] * rows[i, k], of at most ROWS rows."""
    for i in range(len(rows)):
        weight, line = np.int32(weights[i]), rows[i]
        for k in range(len(out)):
            out[k] += np.int32(weight * np.int32(line[k]))


def _product_of_bytes(left: Remainders, right: Remainders, out: Products | None = None) -> Products:
    """By instructions for bytes: int32 [d, h], or into another array."""
    left, right = (each if each.flags.writeable else each.copy() for each in (left, right))  # as PyTorch wants it
    one, other = torch.from_numpy(left).T, torch.from_numpy(right)
    if out is not None and out.dtype == np.int32:  # a new array would have to be paged in, and copied from
        torch._int_mm(one, other, out=torch.from_numpy(out))
        return out
    found: Products = torch._int_mm(one, other).numpy()
    if out is None:
        return found
    out[...] = found
    return out


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _bytes_are_fast() -> bool:
    """Whether this processor multiplies bytes by instructions of its own, and PyTorch does so without saturating."""
    has = binding.get_host_cpu_features()
    if not any(has.get(feature, False) for feature in pair_products.FOR_BYTES):
        return False
    largest = 2**MOST_BITS - 1
    left, right = np.full((1030, 33), largest, dtype=np.int8), np.full((1030, 17), largest, dtype=np.int8)
    left[:, 1::2], right[:, 1::2] = -largest, -largest
    expected = left[0, :, None].astype(np.int32) * right[0] * 1030
    try:
        found = _product_of_bytes(left, right), _product_of_bytes(left, right, np.empty((33, 17), dtype=np.int32))
        return all(np.array_equal(each, expected) for each in found)
    except (AttributeError, RuntimeError):  # it is no promise of PyTorch's
        return False
