"""Arithmetic modulo a prime on integer arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fgl_secure.algebra.array_kinds import Arithmetic, arithmetic_of, element_dtype
from fgl_secure.algebra.reduction import MERSENNE_31, MERSENNE_61
from fgl_secure.algebra.segments import Segments
from fgl_secure.errors import FieldRangeError, InputError

Elements = NDArray[np.signedinteger[Any]]
ElementsT = TypeVar("ElementsT", NDArray[np.signedinteger[Any]], torch.Tensor)


@dataclass(frozen=True, slots=True)
class PrimeField:
    """The integers modulo a prime, on numpy arrays and on torch tensors.

    Elements are integer arrays with values 0 .. modulus - 1; results come in `dtype`, the smallest signed type that
    holds an element, so that an array's size in bytes is its size on the wire. Any integers that fit int64 may go in
    and stand for their remainders. Where a tensor goes in a tensor comes out, on the same device and equal bit for
    bit to what arrays give; numpy arrays are worked on by all cores.

    Attributes:
        modulus: a prime up to 2^31 - 1 (the default), or 2^61 - 1.

    Examples:
        >>> import numpy as np
        >>> PrimeField(11).add(np.array([3, 10]), np.array([-1, 5])).tolist()
        [2, 4]
    """

    modulus: int = MERSENNE_31

    def __post_init__(self) -> None:
        if not 2 <= self.modulus <= MERSENNE_31 and self.modulus != MERSENNE_61:
            raise FieldRangeError(f"modulus must lie in 2..2^31 - 1 or be 2^61 - 1; found {self.modulus}")
        if not _is_prime(self.modulus):
            raise FieldRangeError(f"modulus must be a prime; found {self.modulus}")

    @property
    def dtype(self) -> np.dtype[np.signedinteger[Any]]:
        """int8, int16, int32 or int64: the smallest that holds modulus - 1."""
        return element_dtype(self.modulus)

    @overload
    def elements(self, values: torch.Tensor) -> torch.Tensor: ...
    @overload
    def elements(self, values: ArrayLike) -> Elements: ...
    def elements(self, values: Any) -> Any:
        """Takes integers that must already lie in 0 .. modulus - 1; nothing is reduced in silence.

        Raises:
            FieldRangeError: a value lies outside, and the message has the extremes.
        """
        arithmetic, like = arithmetic_of(values)
        array = arithmetic.integers(values, like)
        if not arithmetic.all_elements(array, self.modulus):
            least, greatest = arithmetic.extremes(array)
            raise FieldRangeError(f"values must lie in 0..{self.modulus - 1}; found {least}..{greatest}")
        return arithmetic.narrowed(array, self.modulus)

    @overload
    def add(self, a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor: ...
    @overload
    def add(self, a: ArrayLike, b: ArrayLike) -> Elements: ...
    def add(self, a: Any, b: Any) -> Any:
        """Sum, with broadcasting."""
        arithmetic, like = arithmetic_of(a, b)
        return arithmetic.add(arithmetic.integers(a, like), arithmetic.integers(b, like), self.modulus)

    @overload
    def subtract(self, a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor: ...
    @overload
    def subtract(self, a: ArrayLike, b: ArrayLike) -> Elements: ...
    def subtract(self, a: Any, b: Any) -> Any:
        """Difference, with broadcasting."""
        arithmetic, like = arithmetic_of(a, b)
        return arithmetic.subtract(arithmetic.integers(a, like), arithmetic.integers(b, like), self.modulus)

    @overload
    def negate(self, a: torch.Tensor) -> torch.Tensor: ...
    @overload
    def negate(self, a: ArrayLike) -> Elements: ...
    def negate(self, a: Any) -> Any:
        """Additive inverse."""
        arithmetic, like = arithmetic_of(a)
        return arithmetic.subtract(arithmetic.integers(0, like), arithmetic.integers(a, like), self.modulus)

    @overload
    def multiply(self, a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor: ...
    @overload
    def multiply(self, a: ArrayLike, b: ArrayLike) -> Elements: ...
    def multiply(self, a: Any, b: Any) -> Any:
        """Product of corresponding elements, with broadcasting."""
        arithmetic, like = arithmetic_of(a, b)
        return arithmetic.multiply(arithmetic.integers(a, like), arithmetic.integers(b, like), self.modulus)

    @overload
    def inverse(self, a: torch.Tensor) -> torch.Tensor: ...
    @overload
    def inverse(self, a: ArrayLike) -> Elements: ...
    def inverse(self, a: Any) -> Any:
        """Multiplicative inverse a^(modulus - 2); zero raises."""
        arithmetic, like = arithmetic_of(a)
        base = arithmetic.reduce(arithmetic.integers(a, like), self.modulus)
        if bool((base == 0).any()):
            raise InputError("a must not contain 0, which has no inverse")
        return arithmetic.invert(base, self.modulus)

    @overload
    def combine(self, matrix: ArrayLike, blocks: torch.Tensor, *, axis: int = 0) -> torch.Tensor: ...
    @overload
    def combine(self, matrix: ArrayLike, blocks: ArrayLike, *, axis: int = 0) -> Elements: ...
    def combine(self, matrix: ArrayLike, blocks: Any, *, axis: int = 0) -> Any:
        """Linear combinations of blocks: the matrix product along one axis.

        Args:
            matrix: integers [r, c], in ordinary memory.
            blocks: integers with length c on `axis`; the other axes are batch axes.
            axis: the axis of `blocks` that the matrix acts on.

        Returns:
            Elements of the shape of `blocks`, with length r on `axis`.
        """
        arithmetic, like = arithmetic_of(blocks)
        array = arithmetic.integers(blocks, like)
        none = array[(slice(None),) * (axis % array.ndim) + (slice(0, 0),)]
        return self.combine_two(matrix, array, none, axis=axis)

    @overload
    def combine_two(
        self, matrix: ArrayLike, first: torch.Tensor, second: torch.Tensor, *, axis: int = 0
    ) -> torch.Tensor: ...
    @overload
    def combine_two(self, matrix: ArrayLike, first: ArrayLike, second: ArrayLike, *, axis: int = 0) -> Elements: ...
    def combine_two(self, matrix: ArrayLike, first: Any, second: Any, *, axis: int = 0) -> Any:
        """Linear combinations of two stacks of blocks, as `combine` of one on top of the other without building that.

        Args:
            matrix: integers [r, c1 + c2], in ordinary memory.
            first: integers with length c1 on `axis`.
            second: integers with length c2 on `axis`; batch axes of one of the two may all have length 1.
            axis: the axis of both that the matrix acts on.

        Returns:
            Elements with length r on `axis`.
        """
        arithmetic, like = arithmetic_of(first, second)
        parts = [arithmetic.integers(part, like) for part in (first, second)]
        weights = self._weights(matrix)
        combined = self._combined(arithmetic, weights, parts, axis)
        if combined is None:
            reduced = [arithmetic.reduce(part, self.modulus) for part in parts]
            combined = self._combined(arithmetic, weights, reduced, axis)
        return combined

    def combine_elements(
        self, matrix: NDArray[np.int64], first: ElementsT, second: ElementsT, *, axis: int = 0
    ) -> ElementsT:
        """`combine_two` of a matrix of elements with stacks that must hold elements; nothing is reduced in silence.

        Raises:
            FieldRangeError: a value lies outside 0 .. modulus - 1.
        """
        arithmetic, like = arithmetic_of(first, second)
        parts = [arithmetic.integers(part, like) for part in (first, second)]
        combined: ElementsT | None = self._combined(arithmetic, matrix, parts, axis)
        if combined is None:
            raise FieldRangeError(f"blocks must hold elements, 0..{self.modulus - 1}; found others")
        return combined

    def _combined(self, arithmetic: Arithmetic, matrix: NDArray[np.int64], parts: list[Any], axis: int) -> Any:
        axis %= parts[0].ndim
        shapes = [tuple(part.shape) for part in parts]
        batch, item = np.broadcast_shapes(*(shape[:axis] for shape in shapes)), shapes[0][axis + 1 :]
        sizes = [math.prod(shape[:axis]) for shape in shapes]
        if shapes[1][axis + 1 :] != item or not set(sizes) <= {1, math.prod(batch)}:
            raise InputError(
                f"first and second must agree but for axis {axis}; found {list(shapes[0])} and {list(shapes[1])}"
            )
        rows = [shape[axis] for shape in shapes]
        if matrix.ndim != 2 or matrix.shape[1] != sum(rows):
            raise InputError(f"matrix must be [r, {sum(rows)}] for these blocks; found {list(matrix.shape)}")
        flat = [part.reshape(size, c, math.prod(item)) for part, size, c in zip(parts, sizes, rows, strict=True)]
        combined = arithmetic.combine(matrix, flat[0], flat[1], self.modulus)
        return None if combined is None else combined.reshape(*batch, len(matrix), *item)

    @overload
    def dot(self, rows: torch.Tensor, weights: torch.Tensor | ArrayLike) -> torch.Tensor: ...
    @overload
    def dot(self, rows: ArrayLike, weights: ArrayLike) -> Elements: ...
    def dot(self, rows: Any, weights: Any) -> Any:
        """Weighted row sums: the sum over the last axis of rows[..., k] * weights[k].

        Args:
            rows: integers [..., L].
            weights: integers [L].

        Returns:
            Elements [...].
        """
        arithmetic, like = arithmetic_of(rows)
        rows = self._remainders(arithmetic, arithmetic.integers(rows, like))
        weights = self._remainders(arithmetic, arithmetic.integers(weights, like))
        if weights.ndim != 1 or tuple(rows.shape[-1:]) != tuple(weights.shape):
            raise InputError(
                f"weights must be [L] for rows [..., L]; found {list(weights.shape)} and {list(rows.shape)}"
            )
        flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
        return arithmetic.dot(flat, weights, self.modulus).reshape(tuple(rows.shape[:-1]))

    @overload
    def grouped_sums(self, values: torch.Tensor, segments: Segments, *, batch_axes: int = 0) -> torch.Tensor: ...
    @overload
    def grouped_sums(self, values: Elements, segments: Segments, *, batch_axes: int = 0) -> Elements: ...
    def grouped_sums(self, values: Any, segments: Segments, *, batch_axes: int = 0) -> Any:
        """Sums the rows of each segment.

        Args:
            values: elements [*batch, m, *item].
            segments: which rows belong together, over m rows.
            batch_axes: how many leading axes are batch axes.

        Returns:
            Elements [*batch, s, *item]; an empty segment sums to zero.
        """
        arithmetic, like = arithmetic_of(values)
        values = arithmetic.integers(values, like)
        batch, item = tuple(values.shape[:batch_axes]), tuple(values.shape[batch_axes + 1 :])
        segments.check_rows(values.shape[batch_axes])
        flat = values.reshape(math.prod(batch), segments.rows, math.prod(item))
        return arithmetic.grouped_sums(flat, segments, self.modulus).reshape(*batch, len(segments), *item)

    def _weights(self, matrix: ArrayLike) -> NDArray[np.int64]:
        arithmetic, like = arithmetic_of(np.asarray(matrix))
        reduced: Elements = arithmetic.reduce(arithmetic.integers(matrix, like), self.modulus)
        return reduced.astype(np.int64)

    def _remainders(self, arithmetic: Arithmetic, array: Any) -> Any:
        """The same array where it holds elements already, which is what the fast loops take."""
        return array if arithmetic.all_elements(array, self.modulus) else arithmetic.reduce(array, self.modulus)


@cache
def _is_prime(modulus: int) -> bool:
    if modulus in (MERSENNE_31, MERSENNE_61):
        return True
    from sympy import isprime  # noqa: PLC0415  # half a second, and the two fields in use do without

    return bool(isprime(modulus))
