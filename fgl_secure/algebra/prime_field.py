"""Arithmetic modulo a prime on integer arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sympy import isprime

from fgl_secure.algebra import kernels
from fgl_secure.algebra.segments import Segments
from fgl_secure.errors import FieldRangeError, InputError

MERSENNE_31 = kernels.MERSENNE_31

Elements = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class PrimeField:
    """The integers modulo a prime.

    Elements are integer arrays with values 0 .. modulus - 1; results come in `dtype`, the smallest signed type that
    holds an element, so that an array's size in bytes is its size on the wire.

    Attributes:
        modulus: a prime up to 2^31 - 1 (the default), so that a product of two elements fits int64.
    """

    modulus: int = MERSENNE_31

    def __post_init__(self) -> None:
        if not 2 <= self.modulus <= MERSENNE_31:
            raise FieldRangeError(f"modulus must lie in 2..2^31 - 1; found {self.modulus}")
        if not isprime(self.modulus):
            raise FieldRangeError(f"modulus must be a prime; found {self.modulus}")

    @property
    def dtype(self) -> np.dtype[np.signedinteger[Any]]:
        """int8, int16 or int32: the smallest that holds modulus - 1."""
        return np.dtype(np.min_scalar_type(-self.modulus))

    def elements(self, values: ArrayLike) -> Elements:
        """Takes integers that must already lie in 0 .. modulus - 1; nothing is reduced in silence."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise InputError(f"values must be integers; found dtype {array.dtype}")
        if array.size and (int(array.min()) < 0 or int(array.max()) >= self.modulus):
            raise FieldRangeError(
                f"values must lie in 0..{self.modulus - 1}; found {int(array.min())}..{int(array.max())}"
            )
        return array.astype(self.dtype, copy=False)

    def add(self, a: ArrayLike, b: ArrayLike) -> Elements:
        """Sum, with numpy's broadcasting."""
        return self._reduced(np.asarray(a, dtype=np.int64) + np.asarray(b, dtype=np.int64))

    def subtract(self, a: ArrayLike, b: ArrayLike) -> Elements:
        """Difference, with numpy's broadcasting."""
        return self._reduced(np.asarray(a, dtype=np.int64) - np.asarray(b, dtype=np.int64))

    def multiply(self, a: ArrayLike, b: ArrayLike) -> Elements:
        """Product, with numpy's broadcasting."""
        return self._reduced(np.asarray(a, dtype=np.int64) * np.asarray(b, dtype=np.int64))

    def inverse(self, a: ArrayLike) -> Elements:
        """Multiplicative inverse a^(modulus - 2); zero raises."""
        base = np.asarray(a, dtype=np.int64)
        if np.any(base % self.modulus == 0):
            raise InputError("a must not contain 0, which has no inverse")
        result, exponent = np.ones_like(base), self.modulus - 2
        while exponent:
            if exponent & 1:
                result = result * base % self.modulus
            base = base * base % self.modulus
            exponent >>= 1
        return result.astype(self.dtype)

    def combine(self, matrix: ArrayLike, blocks: ArrayLike, *, axis: int = 0) -> Elements:
        """Linear combinations of blocks: the matrix product along one axis.

        Args:
            matrix: elements [r, c].
            blocks: elements with length c on `axis`.
            axis: the axis of `blocks` that the matrix acts on.

        Returns:
            Elements of the shape of `blocks`, with length r on `axis`.
        """
        weights = np.asarray(matrix, dtype=np.int64)
        moved = np.moveaxis(np.asarray(blocks, dtype=np.int64), axis, 0)
        if weights.ndim != 2 or weights.shape[1] != len(moved):
            raise InputError(f"matrix must be [r, {len(moved)}] for these blocks; found {list(weights.shape)}")
        out = np.zeros((len(weights), *moved.shape[1:]), dtype=np.int64)
        for column, block in zip(weights.T, moved, strict=True):
            out += column.reshape(-1, *[1] * (moved.ndim - 1)) * block % self.modulus
            out %= self.modulus
        return np.moveaxis(out, 0, axis).astype(self.dtype)

    def grouped_sums(self, values: Elements, segments: Segments, *, batch_axes: int = 0) -> Elements:
        """Sums the rows of each segment.

        Args:
            values: elements [*batch, m, *item].
            segments: which rows belong together, over m rows.
            batch_axes: how many leading axes are batch axes.

        Returns:
            Elements [*batch, s, *item]; an empty segment sums to zero.
        """
        batch, item = values.shape[:batch_axes], values.shape[batch_axes + 1 :]
        segments.check_rows(values.shape[batch_axes])
        flat = np.ascontiguousarray(values).reshape(math.prod(batch), segments.rows, math.prod(item))
        out = np.empty((len(flat), len(segments), flat.shape[2]), dtype=self.dtype)
        kernels.segment_sums(flat, segments.order, segments.starts, self.modulus, out)
        return out.reshape(*batch, len(segments), *item)

    def _reduced(self, values: NDArray[np.int64]) -> Elements:
        return np.asarray(values % self.modulus, dtype=self.dtype)
