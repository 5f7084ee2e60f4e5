"""Scalar arithmetic modulo a prime, inlined into the compiled loops.

Three kinds of modulus: 2^31 - 1 and 2^61 - 1, where reduction is a shift and an add because 2^k = 1 modulo 2^k - 1,
and any other prime below 2^31, by division, or by a quotient of floats where `remainder` is called. Products are
unsigned: four products of elements of 31 bits fit 64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from fgl_secure.jit import njit
from fgl_secure.threads import parallel

MERSENNE_31 = 2**31 - 1
MERSENNE_61 = 2**61 - 1

_LEAST_FAST = 2**12

_P31 = np.uint64(MERSENNE_31)
_P61 = np.uint64(MERSENNE_61)
_LOW_30 = np.uint64(2**30 - 1)
_1, _30, _31, _61 = np.uint64(1), np.uint64(30), np.uint64(31), np.uint64(61)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over the cores, compiled when first called and kept on disk (see `parallel`)."""
    return parallel(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that LLVM puts into the loops that call it; numba's own inlining takes twice as long to compile."""
    return cast("Callable[..., Any]", njit(cache=False)(function))


@inlined
def remainder(value: Any, modulus: int) -> Any:
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


@inlined
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


@inlined
def fold_31(value: Any) -> Any:
    """A uint64 below 2^34 that equals any given uint64 modulo 2^31 - 1."""
    return (value & _P31) + (value >> _31)


@inlined
def reduce_31(value: Any) -> Any:
    """The element of 2^31 - 1 that any uint64 stands for."""
    value = fold_31(fold_31(value))
    return value - _P31 if value >= _P31 else value


@inlined
def reduce_61(value: Any) -> Any:
    """The element of 2^61 - 1 that any uint64 stands for."""
    value = (value & _P61) + (value >> _61)
    return value - _P61 if value >= _P61 else value


@inlined
def multiply_61(a: Any, b: Any) -> Any:
    """The product of two elements of 2^61 - 1, all uint64, from limbs of 31 and 30 bits.

    With a = a1 2^31 + a0 and b likewise, a b = 2 a1 b1 + (a1 b0 + a0 b1) 2^31 + a0 b0, because 2^62 = 2; the middle
    sum has at most 62 bits, of which those from the 30th on come round to the bottom (2^31 2^30 = 1). The total stays
    below 2^64.
    """
    a1, a0 = (a >> _31) & _LOW_30, a & _P31
    b1, b0 = (b >> _31) & _LOW_30, b & _P31
    middle = a1 * b0 + a0 * b1
    return reduce_61(((a1 * b1) << _1) + (middle >> _30) + ((middle & _LOW_30) << _31) + a0 * b0)


@inlined
def multiply(a: Any, b: Any, modulus: int) -> Any:
    """The product of two elements, all int64."""
    if modulus == MERSENNE_61:
        return np.int64(multiply_61(np.uint64(a), np.uint64(b)))
    return canonical(a * b, modulus)
