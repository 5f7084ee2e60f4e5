"""Integers by their remainders modulo several primes below 2^7, a byte each.

Sums of products of such bytes are what processors are fastest at (see `exact_products`), and an integer of
least magnitude comes back from its remainders by the Chinese remainder theorem. A number that is uniform below a
multiple of the product of all primes has remainders that are uniform and independent: one word of 64 bits masks all
remainders of a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.prime_field import Elements, PrimeField
from fgl_secure.algebra.reduction import compiled, inlined

Integers = NDArray[np.int64]
Words = NDArray[np.int64]
Residues = tuple[Elements, ...]
"""Elements of one shape, one array for each field."""

BELOW_2_7 = (127, 113, 109, 107, 103, 101, 97, 89)
"""The eight largest primes below 2^7; their product is below 2^54."""

_PIECE = 2**10
"""Numbers that are worked out at a time, so that they stay in cache."""
_LOW = 2**32 - 1
_SUMMED = 64
"""Words that are added up before their sum is reduced: below 2^52, times weights of least magnitude."""


def words_below(fields: Sequence[PrimeField]) -> int:
    """The range of words whose remainders are uniform and independent: the last multiple of all primes up to 2^63."""
    product = math.prod(field.modulus for field in fields)
    return 2**63 // product * product


def residues(fields: Sequence[PrimeField], integers: NDArray[np.signedinteger[Any]]) -> Residues:
    """The remainders of integers, int32 or int64, in each field."""
    return shared(fields, np.ones((len(fields), 1), dtype=np.int64), integers, ())


def shared(
    fields: Sequence[PrimeField],
    weights: Integers,
    integers: NDArray[np.signedinteger[Any]],
    words: Sequence[Words],
) -> Residues:
    """Combinations of integers and of words, in each field.

    Args:
        fields: of primes below 2^7.
        weights: int64 [f, 1 + s], elements: of the integers, then of each array of words.
        integers: int32 or int64, of a shape to which that of the words adds axes in front, if there are any.
        words: s arrays of int64 numbers of one shape, none negative; at most 63 arrays.

    Returns:
        Elements of the words' shape, or of the integers' without words.
    """
    shape = words[0].shape if words else integers.shape
    flat = np.ascontiguousarray(np.broadcast_to(integers, shape)).reshape(-1)
    stacked = _stacked(words, flat.size)
    out = _room(fields, flat.size)
    _combine(flat, stacked, *_numbers(fields, weights), out)
    return tuple(each.reshape(shape) for each in out)


def masked(fields: Sequence[PrimeField], values: Residues, weights: Integers, words: Sequence[Words]) -> Residues:
    """Elements with combinations of words added to them.

    Args:
        fields: of primes below 2^7.
        values: elements of one shape.
        weights: int64 [f, s], elements.
        words: s arrays of int64 numbers of that shape, none negative.
    """
    shape = values[0].shape
    flat = np.array([value.reshape(-1) for value in values])
    out = _room(fields, flat.shape[1])
    _add(flat, _stacked(words, flat.shape[1]), *_numbers(fields, weights), out)
    return tuple(each.reshape(shape) for each in out)


def reduced(field: PrimeField, integers: NDArray[Any], out: Elements) -> None:
    """Writes the elements that integers stand for, of any type that holds no more than 53 bits, both C-contiguous."""
    _reduce(integers.reshape(-1), field.modulus, out.reshape(-1))


def from_residues(fields: Sequence[PrimeField], values: Sequence[Elements]) -> Integers:
    """The integers of least magnitude that have these remainders: int64 of their shape."""
    stacked = np.array([np.asarray(value).reshape(-1) for value in values])
    return from_combined(fields, np.ones((len(fields), 1), dtype=np.int64), stacked[:, None]).reshape(values[0].shape)


def from_combined(fields: Sequence[PrimeField], weights: Integers, values: Elements) -> Integers:
    """Integers of least magnitude from their remainders, each of which is a combination of some elements.

    Args:
        fields: of different primes below 2^7, at most eight.
        weights: int64 [f, m], elements: of what is combined, in each field.
        values: elements [f, m, k].

    Returns:
        int64 [k], up to half of the product of all primes.
    """
    primes = [field.modulus for field in fields]
    whole = math.prod(primes)
    parts = np.array([whole // p for p in primes], dtype=np.int64)  # 1 modulo p once multiplied, 0 modulo all others
    inverses = np.array([pow(whole // p, -1, p) if p < whole else 1 for p in primes], dtype=np.int64)
    moduli = np.array(primes, dtype=np.int64)
    out = np.empty(values.shape[2], dtype=np.int64)
    _join(values, weights * inverses[:, None] % moduli[:, None], moduli, parts, whole, out)
    return out


def _room(fields: Sequence[PrimeField], size: int) -> Elements:
    return np.empty((len(fields), size), dtype=np.result_type(*(field.dtype for field in fields)))


def _stacked(words: Sequence[Words], size: int) -> Words:
    if len(words) == 1:
        return words[0].reshape(1, size)
    return np.array([each.reshape(-1) for each in words], dtype=np.int64).reshape(len(words), size)


def _numbers(fields: Sequence[PrimeField], weights: Integers) -> tuple[Integers, Integers]:
    """Weights of least magnitude, and the primes."""
    primes = np.array([field.modulus for field in fields], dtype=np.int64)
    return np.where(weights > primes[:, None] // 2, weights - primes[:, None], weights), primes


@inlined
def _rest(value: Any, prime: Any, inverse: Any) -> Any:
    """The element that a float64 integer of up to 52 bits stands for; rounding puts its quotient off by one at most."""
    rest = value - np.floor(value * inverse) * prime
    rest = rest + prime if rest < 0 else rest
    return rest - prime if rest >= prime else rest


@compiled
def _combine(integers: NDArray[Any], words: Words, weights: Integers, primes: Integers, out: Elements) -> None:
    """out[f, i] = weights[f, 0] * integers[i] + the sum over s of weights[f, 1 + s] * words[s, i].

    Numbers of 64 bits are two halves, so that all is exact in float64.
    """
    size, count = integers.size, len(words) + 1
    for piece in numba.prange((size + _PIECE - 1) // _PIECE):
        first, here = piece * _PIECE, min(_PIECE, size - piece * _PIECE)
        high, low, total = np.empty((count, _PIECE)), np.empty((count, _PIECE)), np.empty(_PIECE)
        own = integers[first : first + here]
        for i in range(here):
            number = np.int64(own[i])
            high[0, i], low[0, i] = np.float64(number >> 32), np.float64(number & _LOW)
        for s in range(1, count):
            line, above, below = words[s - 1, first : first + here], high[s], low[s]
            for i in range(here):
                above[i], below[i] = np.float64(line[i] >> 32), np.float64(line[i] & _LOW)
        for f in range(len(primes)):
            prime, inverse, lift = np.float64(primes[f]), 1.0 / primes[f], np.float64(2**32 % primes[f])
            found = out[f, first : first + here]
            total[:] = 0
            for s in range(count):
                weight, above, below = np.float64(weights[f, s]), high[s], low[s]
                for i in range(here):
                    total[i] += weight * (above[i] * lift + below[i])
            for i in range(here):
                found[i] = np.int32(_rest(total[i], prime, inverse))


@compiled
def _add(values: Elements, words: Words, weights: Integers, primes: Integers, out: Elements) -> None:
    """out[f, i] = values[f, i] + the sum over s of weights[f, s] * words[s, i]."""
    size = values.shape[1]
    for piece in numba.prange((size + _PIECE - 1) // _PIECE):
        first, here = piece * _PIECE, min(_PIECE, size - piece * _PIECE)
        total = np.empty(_PIECE)
        for f in range(len(primes)):
            prime, inverse, lift = np.float64(primes[f]), 1.0 / primes[f], np.float64(2**32 % primes[f])
            own, found = values[f, first : first + here], out[f, first : first + here]
            for i in range(here):
                total[i] = own[i]
            for s in range(len(words)):
                weight, line = np.float64(weights[f, s]), words[s, first : first + here]
                for i in range(here):
                    total[i] += weight * (np.float64(line[i] >> 32) * lift + np.float64(line[i] & _LOW))
                if s % _SUMMED == _SUMMED - 1:
                    for i in range(here):
                        total[i] = _rest(total[i], prime, inverse)
            for i in range(here):
                found[i] = np.int32(_rest(total[i], prime, inverse))


@compiled
def _reduce(integers: NDArray[Any], modulus: int, out: Elements) -> None:
    """out[i] = integers[i]."""
    prime, inverse = np.float64(modulus), 1.0 / modulus
    for piece in numba.prange((integers.size + _PIECE - 1) // _PIECE):
        first, here = piece * _PIECE, min(_PIECE, integers.size - piece * _PIECE)
        own, found = integers[first : first + here], out[first : first + here]
        for i in range(here):
            found[i] = np.int32(_rest(np.float64(own[i]), prime, inverse))


@compiled
def _join(values: Elements, weights: Integers, primes: Integers, parts: Integers, whole: int, out: Integers) -> None:
    """The Chinese remainder theorem, some columns at a time, in loops of wide steps."""
    (count, terms, size), half, over = values.shape, whole // 2, 1.0 / whole
    for piece in numba.prange((size + _PIECE - 1) // _PIECE):
        first, here = piece * _PIECE, min(_PIECE, size - piece * _PIECE)
        total, found = np.empty(_PIECE), out[first : first + here]
        found[:] = 0
        for f in range(count):
            prime, inverse, part = np.float64(primes[f]), 1.0 / primes[f], parts[f]
            total[:] = 0
            for m in range(terms):
                weight, line = np.float64(weights[f, m]), values[f, m, first : first + here]
                for i in range(here):
                    total[i] += weight * np.float64(line[i])
            for i in range(here):
                found[i] += np.int64(_rest(total[i], prime, inverse)) * part
        for i in range(here):
            rest = found[i] - np.int64(np.float64(found[i]) * over) * whole
            rest = rest + whole if rest < 0 else rest
            rest = rest - whole if rest >= whole else rest
            found[i] = rest - whole if rest > half else rest
