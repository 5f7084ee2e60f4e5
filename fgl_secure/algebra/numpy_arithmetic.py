"""Arithmetic on numpy arrays, by the compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import elementwise_kernels, kernels, matrix_kernels
from fgl_secure.algebra.arithmetic import Arithmetic, element_dtype
from fgl_secure.algebra.reduction import MERSENNE_31
from fgl_secure.algebra.segments import Segments
from fgl_secure.errors import InputError
from fgl_secure.threads import read_only

Array = NDArray[Any]
Loop = Callable[..., None]


class _NumpyArithmetic(Arithmetic):
    """Arithmetic on numpy arrays, on all cores."""

    def integers(self, values: Any, like: Any) -> Array:  # noqa: ARG002  # numpy has one device
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise InputError(f"values must be integers; found dtype {array.dtype}")
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise InputError(f"values must fit int64; found {int(array.max())}")
        return array

    def extremes(self, array: Array) -> tuple[int, int]:
        return int(array.min()), int(array.max())

    def all_elements(self, array: Array, modulus: int) -> bool:
        flat = _loopable(array, modulus).reshape(-1)
        return not elementwise_kernels.count_outside(flat, modulus)

    def narrowed(self, array: Array, modulus: int) -> Array:
        return array.astype(element_dtype(modulus), copy=False)

    def reduce(self, a: Array, modulus: int) -> Array:
        return _each(elementwise_kernels.reduce_each, (a,), modulus)

    def add(self, a: Array, b: Array, modulus: int) -> Array:
        return _each(elementwise_kernels.add_each, (a, b), modulus)

    def subtract(self, a: Array, b: Array, modulus: int) -> Array:
        return _each(elementwise_kernels.subtract_each, (a, b), modulus)

    def multiply(self, a: Array, b: Array, modulus: int) -> Array:
        return _each(elementwise_kernels.multiply_each, (a, b), modulus)

    def invert(self, a: Array, modulus: int) -> Array:
        return _each(elementwise_kernels.invert_each, (a,), modulus)

    def combine(self, matrix: NDArray[np.int64], first: Any, second: Any, modulus: int) -> Any:
        first, second = _loopable(first, modulus), _loopable(second, modulus)
        batch = len(first) if len(second) == 1 else len(second)
        out = np.empty((batch, len(matrix), first.shape[2]), dtype=_worked_in(modulus))
        if modulus == MERSENNE_31 and first.shape[1] == second.shape[1] == 1:
            outside = matrix_kernels.combine_pair_31(matrix.astype(np.uint64), first, second, out)
        else:
            outside = matrix_kernels.combine(_padded(matrix), first, second, modulus, out)
        return None if outside else self.narrowed(out, modulus)

    def interpolate(
        self, matrix: NDArray[np.int64], rows: Any, used: list[int], checked: list[int], modulus: int
    ) -> tuple[Any, int]:
        rows = _loopable(rows, modulus)
        out = np.empty((len(matrix) - len(checked), rows.shape[1]), dtype=_worked_in(modulus))
        differs = np.empty(-(-rows.shape[1] // matrix_kernels.BLOCK), dtype=np.bool_)
        picked = (np.array(which, dtype=np.int64) for which in (used, checked))
        matrix_kernels.interpolate(_padded(matrix), rows, *picked, modulus, out, differs)
        values = self.narrowed(out, modulus)
        if not differs.any():
            return values, rows.shape[1]
        start = int(differs.argmax()) * matrix_kernels.BLOCK
        piece = rows[:, start : start + matrix_kernels.BLOCK]
        expected = self.combine(matrix[len(out) :], piece[None, used], piece[None, :0], modulus)[0]
        return values, start + int((expected != piece[checked]).any(axis=0).argmax())

    def dot(self, rows: Array, weights: Array, modulus: int) -> Array:
        rows, weights = _loopable(rows, modulus), _loopable(weights, modulus)
        parts = np.empty((matrix_kernels.CHUNKS, len(rows)), dtype=np.uint64)
        matrix_kernels.dot(rows, weights, modulus, parts)
        ones, stack = np.ones((1, len(parts)), dtype=np.int64), parts.astype(np.int64)[None]
        total: Array = self.combine(ones, stack, stack[:, :0], modulus)[0, 0]
        return total

    def grouped_sums(self, values: Array, segments: Segments, modulus: int) -> Array:
        out = np.empty((len(values), len(segments), values.shape[2]), dtype=element_dtype(modulus))
        kernels.segment_sums(read_only(np.ascontiguousarray(values)), segments.order, segments.starts, modulus, out)
        return out

    def encode_fixed(self, values: Any, scale: float, most: float, modulus: int) -> Array | None:
        out = np.empty(values.shape, dtype=element_dtype(modulus))
        flat = _native(values).reshape(-1)
        return None if kernels.encode_fixed(flat, scale, most, modulus, out.reshape(-1)) else out

    def decode_fixed(self, elements: Any, scale: float, modulus: int) -> NDArray[np.float64]:
        out = np.empty(elements.shape, dtype=np.float64)
        kernels.decode_fixed(_native(elements).reshape(-1), scale, modulus, out.reshape(-1))
        return out

    def largest_magnitude(self, values: Any) -> float:
        return float(np.abs(values).max()) if values.size else 0.0


NUMPY: Arithmetic = _NumpyArithmetic()


def _worked_in(modulus: int) -> type[np.signedinteger[Any]]:
    """What the loops write: int32 for 2^31 - 1, int64 for all others, so that few variants are compiled."""
    return np.int32 if modulus == MERSENNE_31 else np.int64


def _native(array: Array) -> Array:
    """Return the same numbers, contiguous and in a type that kernels are compiled for: of this machine's byte order."""
    dtype = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, dtype=np.float32 if dtype == np.float16 else dtype)


def _loopable(array: Array, modulus: int) -> Array:
    """The same integers, contiguous, in a dtype that the loops are compiled for."""
    dtype = np.int32 if modulus == MERSENNE_31 and array.dtype == np.int32 else np.int64
    ready = np.ascontiguousarray(array, dtype=dtype)
    return ready if ready.flags.writeable else ready.copy()  # a read-only array would be a variant of its own


def _padded(matrix: NDArray[np.int64]) -> NDArray[np.uint64]:
    """With columns of zeros up to a multiple of four."""
    out = np.zeros((len(matrix), -(-matrix.shape[1] // 4) * 4), dtype=np.uint64)
    out[:, : matrix.shape[1]] = matrix
    return out


def _each(loop: Loop, operands: tuple[Array, ...], modulus: int) -> Array:
    """Runs an elementwise loop over broadcast operands of one dtype."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    spread = [operand if operand.shape == shape else np.broadcast_to(operand, shape) for operand in operands]
    ready = [_loopable(operand, modulus) for operand in spread]
    if len({operand.dtype for operand in ready}) > 1:
        ready = [operand.astype(np.int64, copy=False) for operand in ready]
    out = np.empty(shape, dtype=_worked_in(modulus))
    loop(*(operand.reshape(-1) for operand in ready), modulus, out.reshape(-1))
    return out.astype(element_dtype(modulus), copy=False)
