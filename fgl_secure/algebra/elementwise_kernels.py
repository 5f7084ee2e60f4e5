"""Compiled loops over elements, one result each; flat arrays of equal length, any int64 for an input.

An input stands for its remainder. What is written to `out` is an element, 0 .. modulus - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.reduction import MERSENNE_31, canonical, compiled, multiply, remainder
from fgl_secure.threads import Thread, slice_of

Array = NDArray[Any]


@compiled
def reduce_each(a: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = a[i]."""
    own = slice_of(out.size, thread)
    a, out = a[own], out[own]
    if modulus < MERSENNE_31:
        for i in range(out.size):
            out[i] = remainder(np.int64(a[i]), modulus)
    else:
        for i in range(out.size):
            out[i] = canonical(np.int64(a[i]), modulus)


@compiled
def add_each(a: Array, b: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = a[i] + b[i]."""
    own = slice_of(out.size, thread)
    a, b, out = a[own], b[own], out[own]
    for i in range(out.size):
        out[i] = canonical(canonical(np.int64(a[i]), modulus) + canonical(np.int64(b[i]), modulus), modulus)


@compiled
def subtract_each(a: Array, b: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = a[i] - b[i]."""
    own = slice_of(out.size, thread)
    a, b, out = a[own], b[own], out[own]
    for i in range(out.size):
        out[i] = canonical(canonical(np.int64(a[i]), modulus) - canonical(np.int64(b[i]), modulus), modulus)


@compiled
def multiply_each(a: Array, b: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = a[i] * b[i]."""
    own = slice_of(out.size, thread)
    a, b, out = a[own], b[own], out[own]
    for i in range(out.size):
        out[i] = multiply(canonical(np.int64(a[i]), modulus), canonical(np.int64(b[i]), modulus), modulus)


@compiled
def invert_each(a: Array, modulus: int, out: Array, thread: Thread) -> None:
    """out[i] = a[i]^(modulus - 2), the inverse by Fermat's little theorem; 0 for 0."""
    own = slice_of(out.size, thread)
    a, out = a[own], out[own]
    for i in range(out.size):
        base, exponent = canonical(np.int64(a[i]), modulus), modulus - 2
        power: Any = np.int64(1)
        while exponent > 0:
            if exponent & 1:
                power = multiply(power, base, modulus)
            base = multiply(base, base, modulus)
            exponent >>= 1
        out[i] = power if base != 0 else 0


@compiled
def count_outside(a: Array, modulus: int, thread: Thread) -> int:
    """How many of a lie outside 0 .. modulus - 1."""
    outside, a = 0, a[slice_of(a.size, thread)]
    for i in range(a.size):
        outside += (a[i] < 0) | (a[i] >= modulus)
    return outside
