"""Integers by their remainders of least magnitude modulo several odd primes below 2^8, a byte each.

Products of matrices of such bytes are exact in float32, or faster by instructions for bytes (`exact_product`), and an
integer of least magnitude comes back from its remainders by the Chinese remainder theorem. A number that is uniform
below a multiple of the product of all primes has remainders that are uniform and independent: one word of 64 bits
masks all remainders of a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import binding
from numpy.typing import NDArray

from fgl_secure.algebra.kernels import compile_parallel, inline
from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.errors import FieldRangeError
from fgl_secure.threads import Thread, range_of, read_only
from fgl_secure.typing import Integers

Words = NDArray[np.int64]
Remainders = NDArray[np.int8]
"""Of one field: between -p / 2 and p / 2."""
Residues = tuple[Remainders, ...]
"""Remainders in several fields, an array for each."""

BELOW_2_8 = (251, 241, 239, 233, 229, 227, 223)
"""The seven largest primes below 2^8; their product is below 2^56."""
BYTE = np.dtype(np.int8)
MOST_BITS = 7
"""Of the magnitude of a remainder."""
ROWS = 2 ** (31 - 2 * MOST_BITS)
"""Rows whose products add up to less than 2^31."""
FLOAT_ROWS = 2 ** (24 - 2 * MOST_BITS)
"""Rows whose products float32 adds up exactly."""

_PIECE = 2**10
"""Numbers that are worked out at a time, so that they stay in cache."""
_FEW = 60
"""Words whose combinations stay below 2^51 when their upper halves are lifted by 2^32 modulo a prime."""
_LOW = 2**32 - 1


def words_below(fields: Sequence[PrimeField]) -> int:
    """The range of words whose remainders are uniform and independent: the last multiple of all primes up to 2^63."""
    product = math.prod(field.modulus for field in fields)
    return 2**63 // product * product


def residues(fields: Sequence[PrimeField], integers: NDArray[np.signedinteger[Any]]) -> Residues:
    """The remainders of integers, int32 or int64, in each field: int8 of their shape."""
    return combine(fields, np.ones((len(fields), 1), dtype=np.int64), integers, ())


def combine(
    fields: Sequence[PrimeField], weights: Integers, integers: NDArray[np.signedinteger[Any]], words: Sequence[Words]
) -> Residues:
    """Combinations of integers and of words, in each field.

    Args:
        fields: of odd primes below 2^8.
        weights: int64 [f, 1 + s], elements: of the integers, then of each array of words.
        integers: int32 or int64, of a shape to which that of the words adds axes in front, if there are any.
        words: s arrays of int64 numbers of one shape, none negative; at most 511 arrays.

    Returns:
        Remainders of the words' shape, or of the integers' without words.
    """
    shape = words[0].shape if words else integers.shape
    flat = read_only(np.ascontiguousarray(np.broadcast_to(integers, shape)).reshape(-1))
    out = np.empty((len(fields), flat.size), dtype=BYTE)
    _combine(np.empty((0, 0), dtype=np.int32), flat, _stack_words(words, flat.size), *_numbers(fields, weights), out)
    return tuple(item.reshape(shape) for item in out)


def mask(
    fields: Sequence[PrimeField], values: NDArray[np.signedinteger[Any]], weights: Integers, words: Sequence[Words]
) -> Residues:
    """Remainders of integers, with combinations of words added to them.

    Args:
        fields: of odd primes below 2^8.
        values: int8, int32 or int64 [f, ...], for each field integers of one shape, of at most 46 bits.
        weights: int64 [f, s], elements.
        words: s arrays of int64 numbers of that shape, none negative; at most 512 arrays.
    """
    flat = np.ascontiguousarray(values).reshape(len(fields), -1)
    out, stacked = np.empty(flat.shape, dtype=BYTE), _stack_words(words, flat.shape[1])
    _combine(flat, read_only(np.empty(0, dtype=np.int32)), stacked, *_numbers(fields, weights), out)
    return tuple(item.reshape(values.shape[1:]) for item in out)


def from_combined(fields: Sequence[PrimeField], weights: Integers, values: Elements) -> Integers:
    """Integers of least magnitude from their remainders, each of which is a combination of some elements.

    Args:
        fields: of different primes below 2^8, at most seven.
        weights: int64 [f, m], elements: of what is combined, in each field.
        values: elements [f, m, k].

    Returns:
        int64 [k], up to half of the product of all primes.
    """
    primes = [field.modulus for field in fields]
    modulus = math.prod(primes)
    parts = np.array([modulus // p for p in primes], dtype=np.int64)  # 1 modulo p once multiplied, 0 modulo all others
    inverses = np.array([pow(modulus // p, -1, p) for p in primes], dtype=np.int64)
    moduli = np.array(primes, dtype=np.int64)
    out = np.empty(values.shape[2], dtype=np.int64)
    _join(values, weights * inverses[:, None] % moduli[:, None], moduli, parts, modulus, out)
    return out


def exact_product(left: Remainders, right: Remainders) -> NDArray[np.signedinteger[Any]]:
    """Return the sum over rows of the outer products of two rows, in integers that are not reduced.

    Args:
        left: int8 [*batch, n, d], remainders of least magnitude.
        right: int8 [*batch, n, h].

    Returns:
        [*batch, d, h], the product of the transposed left matrix and the right one: int32, or int64 beyond ROWS rows.

    Raises:
        FieldRangeError: remainders are no bytes.
    """
    for dtype in (left.dtype, right.dtype):
        if dtype != BYTE:
            raise FieldRangeError(
                f"remainders must be int8, of primes below 2^{MOST_BITS + 1}, for exact products; found {dtype}"
            )
    *batch, rows, width = left.shape
    fast = not batch and min(rows, width, right.shape[1]) > 1 and _bytes_are_fast()
    product, most = (_product_of_bytes, ROWS) if fast else (_product_of_floats, FLOAT_ROWS)
    total = np.zeros((*batch, width, right.shape[-1]), dtype=np.int32 if rows <= ROWS else np.int64)
    for start in range(0, rows, most):
        total += product(left[..., start : start + most, :], right[..., start : start + most, :])
    return total


def _product_of_floats(left: Remainders, right: Remainders) -> NDArray[np.int32]:
    one, other = left.astype(np.float32), right.astype(np.float32)
    return (one.swapaxes(-1, -2) @ other).astype(np.int32)


def _product_of_bytes(left: Remainders, right: Remainders) -> NDArray[np.int32]:
    """The product by PyTorch, which needs 0.8 times the time of floats in an epoch on Cora where bytes are fast."""
    one, other = (torch.from_numpy(side if side.flags.writeable else side.copy()) for side in (left, right))
    product: NDArray[np.int32] = torch._int_mm(one.T, other).numpy()
    return product


@cache
def _bytes_are_fast() -> bool:
    """Whether this processor multiplies bytes by instructions of its own, and PyTorch does so without saturating."""
    features = binding.get_host_cpu_features()
    if not any(features.get(feature, False) for feature in ("avx512vnni", "avxvnni", "amx-int8")):
        return False
    largest = 2**MOST_BITS - 1
    left, right = (np.full((1030, width), largest, dtype=BYTE) for width in (33, 17))
    left[:, 1::2], right[:, 1::2] = -largest, -largest
    try:
        return np.array_equal(_product_of_bytes(left, right), left.astype(np.int64).T @ right.astype(np.int64))
    except (AttributeError, RuntimeError):  # PyTorch does not promise this function
        return False


def _stack_words(words: Sequence[Words], size: int) -> Words:
    if len(words) == 1:
        return words[0].reshape(1, size)
    return np.array([word.reshape(-1) for word in words], dtype=np.int64).reshape(len(words), size)


def _numbers(fields: Sequence[PrimeField], weights: Integers) -> tuple[Integers, Integers]:
    """Weights of least magnitude, one row where all fields have the same, and the primes."""
    primes = np.array([field.modulus for field in fields], dtype=np.int64)
    least = np.where(weights > primes[:, None] // 2, weights - primes[:, None], weights)
    return np.ascontiguousarray(least[:1] if (least == least[0]).all() else least), primes


@inline
def _rest(value: Any, prime: Any, inverse: Any) -> Any:
    """The remainder of least magnitude of a float64 integer below 2^51, modulo an odd prime.

    Two roundings change the quotient by less than 1 / (2 p), and no quotient is as near to a half: so it is rounded to
    the nearest integer.
    """
    return value - np.rint(value * inverse) * prime


@compile_parallel
def _combine(
    values: NDArray[Any],
    integers: NDArray[Any],
    words: Words,
    weights: Integers,
    primes: Integers,
    out: Remainders,
    thread: Thread,
) -> None:
    """out[f, i] = values[f, i] and a combination of integers[i], whose weight is the first, and of all words[s, i].

    There are no values or no integers where they have no size. Numbers of 64 bits are two halves, and weights of least
    magnitude: 60 words, whose upper halves are lifted by a remainder, come to less than 2^51, and so do 512 before they
    are lifted.
    """
    size, first_word, few = out.shape[1], 1 if integers.size else 0, len(words) < _FEW
    for piece in range_of((size + _PIECE - 1) // _PIECE, thread):
        first, size_here = piece * _PIECE, min(_PIECE, size - piece * _PIECE)
        high, low = np.empty(_PIECE), np.empty(_PIECE)
        for group in range(len(weights)):
            high[:] = 0
            low[:] = 0
            if integers.size:
                weight, chunk = np.float64(weights[group, 0]), integers[first : first + size_here]
                for i in range(size_here):
                    number = np.int64(chunk[i])
                    high[i] += weight * np.float64(number >> 32)
                    low[i] += weight * np.float64(number & _LOW)
            for s in range(len(words)):
                weight, line = np.float64(weights[group, first_word + s]), words[s, first : first + size_here]
                for i in range(size_here):
                    high[i] += weight * np.float64(line[i] >> 32)
                    low[i] += weight * np.float64(line[i] & _LOW)
            for f in range(len(primes)) if len(weights) == 1 else range(group, group + 1):
                prime, inverse = np.float64(primes[f]), 1.0 / primes[f]
                lift = _rest(np.float64(2**32), prime, inverse)
                result = out[f, first : first + size_here]
                if values.size:
                    ours = values[f, first : first + size_here]
                    for i in range(size_here):
                        upper = high[i] if few else _rest(high[i], prime, inverse)
                        result[i] = np.int32(_rest(upper * lift + low[i] + np.float64(ours[i]), prime, inverse))
                else:
                    for i in range(size_here):
                        upper = high[i] if few else _rest(high[i], prime, inverse)
                        result[i] = np.int32(_rest(upper * lift + low[i], prime, inverse))


@compile_parallel
def _join(
    values: Elements, weights: Integers, primes: Integers, parts: Integers, modulus: int, out: Integers, thread: Thread
) -> None:
    """The Chinese remainder theorem, some columns at a time, in loops of wide steps."""
    (count, terms, size), half, over = values.shape, modulus // 2, 1.0 / modulus
    for piece in range_of((size + _PIECE - 1) // _PIECE, thread):
        first, chunk_size = piece * _PIECE, min(_PIECE, size - piece * _PIECE)
        total, result = np.empty(_PIECE), out[first : first + chunk_size]
        result[:] = 0
        for f in range(count):
            prime, inverse, part = np.float64(primes[f]), 1.0 / primes[f], parts[f]
            total[:] = 0
            for m in range(terms):
                weight, line = np.float64(weights[f, m]), values[f, m, first : first + chunk_size]
                for i in range(chunk_size):
                    total[i] += weight * np.float64(line[i])
            for i in range(chunk_size):
                result[i] += np.int64(_rest(total[i], prime, inverse)) * part
        for i in range(chunk_size):
            rest = result[i] - np.int64(np.float64(result[i]) * over) * modulus
            rest = rest + modulus if rest < -half else rest
            result[i] = rest - modulus if rest > half else rest
