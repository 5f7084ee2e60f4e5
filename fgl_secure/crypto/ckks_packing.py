"""Vectors of integers as coefficients of polynomials, several balanced digits in each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ckks_parameters import Parameters
from fgl_secure.errors import FieldRangeError, InputError

Integers = NDArray[np.int64]


def checked_vector(vector: NDArray[Any], bound: int) -> Integers:
    """The vector as int64, whatever its dtype.

    Raises:
        InputError: it is empty, of another shape or dtype, or has an entry that is NaN, infinite or no integer.
        FieldRangeError: an entry's magnitude is beyond the bound. No message tells an entry.
    """
    if vector.ndim != 1 or not len(vector) or vector.dtype.kind not in "iuf":
        raise InputError(
            f"vector must be one or more integers or whole floats; found {vector.dtype} {list(vector.shape)}"
        )
    if not np.isfinite(vector).all():
        raise InputError("vector must hold finite numbers; at least one entry is NaN or infinite")
    if vector.dtype.kind == "f" and (vector != np.rint(vector)).any():
        raise InputError("vector must hold integers; at least one entry is none")
    if int(vector.max()) > bound or -int(vector.min()) > bound:
        raise FieldRangeError(f"vector must have magnitude up to bound = {bound:,}; at least one entry is beyond it")
    return vector.astype(np.int64)


def pack(vector: Integers, parameters: Parameters) -> Integers:
    """int64 [ciphertexts, N]: unscaled coefficients of the entries from first to last, then zeros."""
    padded = np.zeros(parameters.ciphertexts(len(vector)) * parameters.entries, dtype=np.int64)
    padded[: len(vector)] = vector
    powers = np.array([parameters.radix**digit for digit in range(parameters.digits)], dtype=np.int64)
    digits = padded.reshape(-1, parameters.digits, parameters.chain.degree)
    coefficients: Integers = (digits * powers[:, None]).sum(axis=1)
    return coefficients


def unpack(coefficients: Integers, length: int, parameters: Parameters) -> Integers:
    """int64 [length]: the entries of sums.

    Args:
        coefficients: int64 [ciphertexts, N], unscaled and without noise.
        length: entries of the vector.
        parameters: those that the terms were packed with.
    """
    left, radix, half = coefficients.copy(), parameters.radix, parameters.radix // 2
    entries = np.empty((len(left), parameters.digits, parameters.chain.degree), dtype=np.int64)
    for digit in range(parameters.digits):
        entries[:, digit] = (left + half) % radix - half
        left = (left - entries[:, digit]) // radix
    return entries.reshape(-1)[:length]
