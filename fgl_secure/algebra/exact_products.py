"""Products of matrices over small prime fields, and integers from their remainders.

A field below 2^23 lets the fastest product there is, that of float64 matrices, be an exact one: residues of least
magnitude have 22 bits, and so 512 products of two of them add up to less than 2^53 without an error. What does not fit
one such field is worked out in several and put together by the Chinese remainder theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.algebra.reduction import compiled, remainder
from fgl_secure.errors import FieldRangeError

MOST_BITS = 23
ROWS = 2 ** (53 - 2 * (MOST_BITS - 1))
"""Rows that are added up before sums are reduced."""

_HELD, _LEAST_ROWS = 2**17, 64
"""Numbers that are multiplied at a time, so that they stay in cache; but no fewer rows."""

_COLUMNS = 64
"""Of a product that are reduced side by side."""

_WEIGHED = 2 ** (62 - 2 * MOST_BITS)
"""Products of two elements that are added up before their sum is reduced: it stays below 2^63."""

_JOINED = 2**10
"""Integers that are put together at a time."""

NEAR_2_23 = (8388593, 8388587, 8388581)
"""The three largest primes below 2^23."""

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]


def check_small(field: PrimeField) -> None:
    """Raises FieldRangeError unless products over a field are exact here."""
    if field.modulus >= 2**MOST_BITS:
        raise FieldRangeError(f"modulus must be below 2^{MOST_BITS} for exact products; found {field.modulus}")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One matrix of a product, cut from elements that stay where they are: they may be larger than memory holds twice.

    Attributes:
        elements: [*batch, n, w], of a small field.
        members: int64 [k], those of the n that count, in the order of the matrix.
        first: the column at which the matrix begins.
        width: its columns.
        terms: its rows that stand side by side in one of the elements'.
    """

    elements: NDArray[Any]
    members: Integers
    first: int
    width: int
    terms: int = 1

    @classmethod
    def whole(cls, elements: NDArray[Any]) -> Side:
        """All of the elements."""
        return cls(elements, np.arange(elements.shape[-2]), 0, elements.shape[-1])

    def __len__(self) -> int:
        """Rows of the matrix."""
        return len(self.members) * self.terms

    @property
    def laid_out(self) -> tuple[NDArray[Any], Integers, int]:
        """The elements [batch, n, w], the members and the first column."""
        batch, shape = self.elements.shape[:-2], self.elements.shape[-2:]
        return self.elements.reshape(math.prod(batch), *shape), self.members, self.first

    def centred(self, field: PrimeField, start: int, stop: int) -> Reals:
        """Rows start .. stop - 1 by their representatives of least magnitude: float64 [*batch, stop - start, width]."""
        flat, batch = self.laid_out, self.elements.shape[:-2]
        out = np.empty((*batch, stop - start, self.width))
        _centre(*flat, self.terms, start, field.modulus, out.reshape(len(flat[0]), *out.shape[-2:]))
        return out


@compiled
def _centre(
    elements: NDArray[Any], members: Integers, first: int, terms: int, start: int, modulus: int, out: Reals
) -> None:
    whole, half, width = np.int32(modulus), np.int32(modulus // 2), out.shape[2]  # narrow numbers take wide steps
    for row in numba.prange(out.shape[1]):
        source, left = members[(start + row) // terms], first + (start + row) % terms * width
        for each in range(out.shape[0]):
            line, centred = elements[each, source, left : left + width], out[each, row]
            for column in range(width):
                element = np.int32(line[column])
                centred[column] = np.int32(element - (whole if element > half else np.int32(0)))


def exact_product(field: PrimeField, left: Side, right: Side) -> Elements:
    """The sum over rows of the outer products of two rows.

    Args:
        field: a small one.
        left: [*batch, n, d].
        right: [*batch, n, h].

    Returns:
        Elements [*batch, d, h]: the product of the transposed left matrix and the right one.

    Raises:
        FieldRangeError: the field is too large.
    """
    check_small(field)
    rows, batch = len(left), left.elements.shape[:-2]
    out = np.empty((*batch, left.width, right.width), dtype=field.dtype)
    if left.width == 1:
        _weigh(*left.laid_out, *right.laid_out, right.width, left.terms, field.modulus, out.reshape(-1, right.width))
        return out
    total = np.zeros((*batch, right.width, left.width))
    parts = max(-(-rows // min(ROWS, max(_HELD // max(left.width, 1), _LEAST_ROWS))), 1)
    for part in range(parts):  # of equal size, so that none is a few rows
        here = rows * part // parts, rows * (part + 1) // parts
        product = _transposed_product(left.centred(field, *here), right.centred(field, *here))
        if part < parts - 1:
            _add_reduced(product.reshape(-1), field.modulus, total.reshape(-1))
        else:
            flat, count = (-1, *total.shape[-2:]), math.prod(batch)
            _reduce_all(product.reshape(flat), total.reshape(flat), field.modulus, out.reshape(count, *out.shape[-2:]))
    return out


@compiled
def _weigh(
    left: NDArray[Any], left_members: Integers, left_first: int, right: NDArray[Any], members: Integers, first: int,
    width: int, terms: int, modulus: int, out: NDArray[Any],
) -> None:  # fmt: skip
    """out[b, k] = the sum over rows of left[b, row] * right[b, row, k]: of a left matrix of one column."""
    for each in numba.prange(out.shape[0]):
        total = np.zeros(width, dtype=np.int64)
        for row in range(len(members) * terms):
            weight = np.int64(left[each, left_members[row // terms], left_first + row % terms])
            start = first + row % terms * width
            line = right[each, members[row // terms], start : start + width]
            for k in range(width):
                total[k] += weight * np.int64(line[k])
            if row % _WEIGHED == _WEIGHED - 1:
                for k in range(width):
                    total[k] = remainder(total[k], modulus)
        for k in range(width):
            out[each, k] = remainder(total[k], modulus)


def _transposed_product(left: Reals, right: Reals) -> Reals:
    """The product the other way round, [*batch, h, d]: long rows are what the libraries of products are fast for."""
    product: Reals = torch.matmul(torch.from_numpy(right).mT, torch.from_numpy(left)).numpy()
    return product


@compiled
def _add_reduced(product: Reals, modulus: int, total: Reals) -> None:
    """total[i] += product[i] modulo the modulus, near 0: exact, as all are integers below 2^53."""
    p, inverse = np.float64(modulus), 1 / np.float64(modulus)
    for i in numba.prange(product.size):
        total[i] += product[i] - p * np.rint(product[i] * inverse)


@compiled
def _reduce_all(product: Reals, total: Reals, modulus: int, out: NDArray[Any]) -> None:
    """out[b, i, k] = product[b, k, i] + total[b, k, i] as an element; a few columns i at a time stay in cache."""
    p, inverse, (batch, width, height) = np.float64(modulus), 1 / np.float64(modulus), out.shape
    for piece in numba.prange((width + _COLUMNS - 1) // _COLUMNS):
        first = piece * _COLUMNS
        here = min(_COLUMNS, width - first)
        rest = np.empty(_COLUMNS)
        for each in range(batch):
            for k in range(height):
                ours, others = product[each, k, first : first + here], total[each, k, first : first + here]
                for i in range(here):
                    value = ours[i] - p * np.rint(ours[i] * inverse) + others[i]
                    value -= p * np.floor(value * inverse)  # rounding may leave it one modulus off
                    value = value + p if value < 0 else value
                    rest[i] = value - p if value >= p else value
                for i in range(here):
                    out[each, first + i, k] = np.int32(rest[i])


def from_residues(fields: Sequence[PrimeField], residues: Sequence[NDArray[Any]]) -> Integers:
    """Integers from their remainders, by Garner's algorithm with digits of least magnitude.

    Args:
        fields: of different primes, two elements of each of which have a product below 2^63.
        residues: for each field elements, all of one shape.

    Returns:
        int64 of that shape: the integers of least magnitude, up to half of the product of all primes, if they are below
        2^63.
    """
    shape, stacked = residues[0].shape, np.stack([np.asarray(each).reshape(-1) for each in residues])
    weights = np.ones((len(fields), 1), dtype=np.int64)
    return from_combined(fields, weights, stacked[:, None]).reshape(shape)


def from_combined(fields: Sequence[PrimeField], weights: Integers, values: NDArray[Any]) -> Integers:
    """Integers from their remainders, each of which is a combination of some elements.

    Args:
        fields: see `from_residues`.
        weights: int64 [f, m], elements: of what is combined, in each field.
        values: elements [f, m, k] of the fields, m of them to be combined; sums of m products stay below 2^63.

    Returns:
        int64 [k]; see `from_residues`.
    """
    primes = [field.modulus for field in fields]
    inverses = [[pow(before, -1, p) if before != p else 0 for before in primes] for p in primes]
    out = np.empty(values.shape[2], dtype=np.int64)
    _join(values, weights, np.array(primes, dtype=np.int64), np.array(inverses, dtype=np.int64), out)
    return out


@compiled
def _join(values: NDArray[Any], weights: Integers, primes: Integers, inverses: Integers, out: Integers) -> None:
    """Garner's algorithm for combinations of values [f, m, k], some columns at a time, in loops of wide steps."""
    count, terms, size = values.shape
    for piece in numba.prange((size + _JOINED - 1) // _JOINED):
        first, last = piece * _JOINED, min((piece + 1) * _JOINED, size)
        digits, total, found = np.empty((count, _JOINED), dtype=np.int64), np.empty(_JOINED, np.int64), out[first:last]
        for place in range(count):
            p = primes[place]
            total[:] = 0
            for m in range(terms):
                weight, line = weights[place, m], values[place, m, first:last]
                for i in range(last - first):
                    total[i] += weight * np.int64(line[i])
            for before in range(place):  # takes away a digit, and divides by its prime
                inverse, digit = inverses[place, before], digits[before]
                for i in range(last - first):
                    total[i] = remainder(remainder(total[i] - digit[i], p) * inverse, p)
            for i in range(last - first):
                rest = remainder(total[i], p)
                digits[place, i] = rest - p if rest > p // 2 else rest
        found[:] = 0
        for place in range(count - 1, -1, -1):
            p = primes[place]
            for i in range(last - first):
                found[i] = found[i] * p + digits[place, i]  # what wraps on the way comes back: it is below 2^63
