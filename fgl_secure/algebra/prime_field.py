"""Arithmetic modulo a prime on torch tensors, and on numpy arrays, which share their memory with tensors.

Torch operations alone are the library path, on whatever device tensors are: no element leaves the device. Torch has no
wide integer product and none on matrices, so 2^61 - 1 is worked on in limbs of 31 and 30 bits, and matrix products
below 2^31 go through float64, which is exact here: 31 bits times 16 bits, added up 64 times at most, stays below 2^53.
On the CPU matrix products and sums of rows go through compiled loops (`kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fgl_secure.algebra import kernels
from fgl_secure.algebra.kernels import MERSENNE_31, MERSENNE_61
from fgl_secure.algebra.segments import Segments
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.threads import read_only
from fgl_secure.typing import Array

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

LIMB_BITS = 16
TERMS = 64
"""Columns of a matrix product that float64 adds up exactly: 31 + 16 + 6 bits."""
PIECE = 2**18
"""Columns worked on at a time, which bounds what the limbs take: a few times 2 MiB for each row."""


def element_dtype(modulus: int) -> np.dtype[np.signedinteger[Any]]:
    """The smallest signed type that holds modulus - 1."""
    return np.dtype(np.min_scalar_type(-modulus))


def _on_tensors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Serve arrays by a method of tensors: they go in as tensors, and the result comes out as an array."""

    @wraps(method)
    def run(arithmetic: Arithmetic, *operands: Any) -> Any:
        if any(isinstance(operand, torch.Tensor) for operand in operands):
            return method(arithmetic, *operands)
        result = method(arithmetic, *map(_as_tensor, operands))
        return result.numpy() if isinstance(result, torch.Tensor) else result

    return run


class Arithmetic:
    """Arithmetic modulo a prime on numpy arrays and on torch tensors.

    Inputs are integers of any signed dtype and stand for their remainders unless a method says elements; results are
    elements in the field's dtype, of the same kind and on the same device.
    """

    def integers(self, values: Any, like: Any) -> Any:
        """Return values as integers of the kind and on the device of `like`; other dtypes raise `InputError`."""
        if isinstance(like, torch.Tensor):
            tensor = torch.as_tensor(values, device=like.device)
            if tensor.dtype not in INTEGERS:
                raise InputError(f"values must be integers; found dtype {tensor.dtype}")
            return tensor
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise InputError(f"values must be integers; found dtype {array.dtype}")
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise InputError(f"values must fit int64; found {int(array.max())}")
        return array

    @_on_tensors
    def extremes(self, values: Any) -> tuple[int, int]:
        """Return the least and the greatest value of a non-empty array."""
        least, greatest = torch.aminmax(values)
        return int(least), int(greatest)

    @_on_tensors
    def all_elements(self, values: Any, modulus: int) -> bool:
        """Return whether every value lies in 0 .. modulus - 1."""
        if not values.numel():
            return True
        least, greatest = torch.aminmax(values)
        return int(least) >= 0 and int(greatest) < modulus

    @_on_tensors
    def narrowed(self, values: Any, modulus: int) -> Any:
        """Return the same elements in the field's dtype; no copy where it is that already."""
        return values.to(DTYPES[element_dtype(modulus).itemsize])

    @_on_tensors
    def reduce(self, a: Any, modulus: int) -> Any:
        """Return remainders."""
        return self.narrowed(_canonical(a, modulus), modulus)

    @_on_tensors
    def add(self, a: Any, b: Any, modulus: int) -> Any:
        """Return sums, with broadcasting."""
        return self.reduce(_canonical(a, modulus) + _canonical(b, modulus), modulus)

    @_on_tensors
    def subtract(self, a: Any, b: Any, modulus: int) -> Any:
        """Return differences, with broadcasting."""
        return self.reduce(_canonical(a, modulus) - _canonical(b, modulus), modulus)

    @_on_tensors
    def multiply(self, a: Any, b: Any, modulus: int) -> Any:
        """Return products, with broadcasting."""
        return self.narrowed(_product(_canonical(a, modulus), _canonical(b, modulus), modulus), modulus)

    @_on_tensors
    def invert(self, a: Any, modulus: int) -> Any:
        """Return inverses a^(modulus - 2); 0 for 0."""
        base = _canonical(a, modulus)
        zero, power, exponent = base == 0, torch.ones_like(base), modulus - 2
        while exponent:
            power = _product(power, base, modulus) if exponent & 1 else power
            base = _product(base, base, modulus)
            exponent >>= 1
        return self.narrowed(power.masked_fill(zero, 0), modulus)

    @_on_tensors
    def combine(self, matrix: Any, first: Any, second: Any, modulus: int) -> Any:
        """Multiply elements [r, c1 + c2] by first [b or 1, c1, L] on top of second [b or 1, c2, L].

        Returns:
            Elements [b, r, L]; None where first or second hold anything but elements.
        """
        batch = len(first) if len(second) == 1 else len(second)
        if is_compiled(first):
            out = torch.empty((batch, len(matrix), first.shape[2]), dtype=_loop_dtype(modulus))
            parts = (_loopable(part, modulus) for part in (first, second))
            outside = kernels.combine(_padded(matrix), *parts, modulus, out.numpy())
            return None if outside else self.narrowed(out, modulus)
        if not (self.all_elements(first, modulus) and self.all_elements(second, modulus)):
            return None
        stacked = [part.expand(batch, *part.shape[1:]) for part in (first, second)]
        weights = torch.as_tensor(matrix, device=first.device)
        product = _long_combination if modulus == MERSENNE_61 else _limb_combination
        out = self.narrowed(first[:0], modulus).new_empty((batch, len(matrix), first.shape[2]))
        for start in range(0, first.shape[2], PIECE):
            rows = torch.cat([part[..., start : start + PIECE].long() for part in stacked], dim=1)
            out[..., start : start + PIECE] = product(weights, rows, modulus)
        return out

    @_on_tensors
    def dot(self, rows: Any, weights: Any, modulus: int) -> Any:
        """Multiply elements rows [m, L] by weights [L]: [m]."""
        products = [_product(row.long(), weights.long(), modulus) for row in rows]
        sums = torch.stack([_total(product, modulus) for product in products]) if products else rows.new_empty(0)
        return self.narrowed(sums, modulus)

    @_on_tensors
    def grouped_sums(self, values: Any, segments: Segments, modulus: int) -> Any:
        """Sum the rows of each segment: values [b, m, w] to [b, s, w]."""
        batch, _, width = values.shape
        if is_compiled(values):
            sums = np.empty((batch, len(segments), width), dtype=element_dtype(modulus))
            kernels.segment_sums(read_only(values.contiguous().numpy()), segments.order, segments.starts, modulus, sums)
            return torch.from_numpy(sums)
        group_of = np.empty(segments.rows, dtype=np.int64)
        group_of[segments.order] = np.repeat(np.arange(len(segments)), segments.sizes)
        index = torch.as_tensor(group_of, device=values.device)
        wide = _canonical(values, modulus)
        out = torch.zeros((batch, len(segments), width), dtype=torch.int64, device=values.device)
        if modulus != MERSENNE_61:
            return self.reduce(out.index_add(1, index, wide), modulus)
        low, high = out.index_add(1, index, wide & MERSENNE_31), out.index_add(1, index, wide >> 31)
        return self.narrowed(_joined(high, low), modulus)

    @_on_tensors
    def encode_fixed(self, values: Any, scale: float, most: float, modulus: int) -> Any:
        """Return round(values * scale), halves away from zero; `most` is below 2^62.

        Returns:
            None where a value is no number, or |value * scale| is beyond `most`.
        """
        scaled = values.double() * scale
        if scaled.numel():
            least, greatest = torch.aminmax(scaled)
            if not -most <= least <= greatest <= most:
                return None
        whole = scaled.trunc()  # adding a half first would round twice: just below it, and beyond 2^52
        element = (scaled - whole).mul_(2).trunc_().add_(whole).long()
        element += (element >> 63) & modulus
        return self.narrowed(element, modulus) if most < modulus else self.reduce(element, modulus)

    @_on_tensors
    def decode_fixed(self, elements: Any, scale: float, modulus: int) -> Any:
        """Return representatives of least magnitude, divided by scale: float64."""
        wide = elements.long()
        above = (modulus // 2 - wide).bitwise_right_shift_(63).bitwise_and_(modulus)
        return (wide - above).double().div_(scale)

    @_on_tensors
    def largest_magnitude(self, values: Any) -> float:
        """Return the largest magnitude of real values, 0 for none; NaN where one is NaN."""
        return float(values.abs().max()) if values.numel() else 0.0


ARITHMETIC = Arithmetic()


def arithmetic_of(*operands: Any) -> tuple[Arithmetic, Any]:
    """Return the arithmetic, and the operand whose kind and device the answer has: a tensor if there is one."""
    return ARITHMETIC, next((operand for operand in operands if isinstance(operand, torch.Tensor)), operands[0])


def is_compiled(values: torch.Tensor) -> bool:
    """Return whether compiled loops serve a tensor: they take memory of the CPU."""
    return values.device.type == "cpu"


def _as_tensor(operand: Any) -> Any:
    """A tensor that shares an array's memory if torch takes it as it is, else one of a copy."""
    if not isinstance(operand, (np.ndarray, np.generic)):
        return operand
    dtype = operand.dtype.newbyteorder("=")
    if dtype.kind == "u" and dtype.itemsize > 1:  # tensors of these dtypes have few operations
        dtype = np.dtype(np.float64 if operand.size and operand.max() >= 2**63 else np.int64)
    array = np.asarray(operand, dtype=dtype, order="C")
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _loop_dtype(modulus: int) -> torch.dtype:
    """What the loops write: int32 for 2^31 - 1, int64 for all others, so that few variants are compiled."""
    return torch.int32 if modulus == MERSENNE_31 else torch.int64


def _loopable(values: torch.Tensor, modulus: int) -> Array:
    """The same integers, contiguous, in a dtype that the loops are compiled for."""
    dtype = torch.int32 if modulus == MERSENNE_31 and values.dtype == torch.int32 else torch.int64
    array: Array = values.to(dtype).contiguous().numpy()
    return array


def _padded(matrix: Any) -> NDArray[np.uint64]:
    """With columns of zeros up to a multiple of four."""
    out = np.zeros((len(matrix), -(-matrix.shape[1] // 4) * 4), dtype=np.uint64)
    out[:, : matrix.shape[1]] = matrix
    return out


def _canonical(a: torch.Tensor, modulus: int) -> torch.Tensor:
    """The elements that any int64 stand for, as a new int64 tensor."""
    wide, bits = a.long(), modulus.bit_length()
    if modulus not in (MERSENNE_31, MERSENNE_61):
        return torch.remainder(wide, modulus)
    for _ in range(2 if bits == 31 else 1):  # a remainder costs a division, a fold two cheap passes
        wide = (wide & modulus) + (wide >> bits)
    wide += (wide >> 63) & modulus
    wide -= modulus
    wide += (wide >> 63) & modulus
    return wide


def _product(a: torch.Tensor, b: torch.Tensor, modulus: int) -> torch.Tensor:
    """Products of elements, all int64; see `multiply_61` for the limbs."""
    if modulus != MERSENNE_61:
        return _canonical(a * b, modulus)
    a1, a0, b1, b0 = a >> 31, a & MERSENNE_31, b >> 31, b & MERSENNE_31
    middle = a1 * b0 + a0 * b1
    bottom = a0 * b0
    # Signed numbers have one bit less than the compiled loops', so the lowest product is folded first.
    folded = (bottom & MERSENNE_61) + (bottom >> 61)
    return _canonical(2 * (a1 * b1) + (middle >> 30) + ((middle & (2**30 - 1)) << 31) + folded, modulus)


def _joined(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """The number high * 2^31 + low modulo 2^61 - 1, for non-negative int64."""
    shift = torch.full_like(high, 2**31)
    return _canonical(_product(_canonical(high, MERSENNE_61), shift, MERSENNE_61) + _canonical(low, MERSENNE_61),
                      MERSENNE_61)  # fmt: skip


def _total(elements: torch.Tensor, modulus: int) -> torch.Tensor:
    """The sum of elements, all int64: fewer than 2^32 of them."""
    if modulus != MERSENNE_61:
        return _canonical(elements.sum(), modulus)
    return _joined((elements >> 31).sum(), (elements & MERSENNE_31).sum())


def _limb_combination(weights: torch.Tensor, rows: torch.Tensor, modulus: int) -> torch.Tensor:
    """Matrix product of weights [r, c] and rows [b, c, L] for moduli below 2^31."""
    total = rows.new_zeros((len(rows), len(weights), rows.shape[2]))
    for start in range(0, rows.shape[1], TERMS):
        part = rows[:, start : start + TERMS]
        left = weights[:, start : start + TERMS].double()
        low = _canonical(torch.matmul(left, (part & (2**LIMB_BITS - 1)).double()), modulus)
        high = _canonical(torch.matmul(left, (part >> LIMB_BITS).double()), modulus)
        total = _canonical(total + _canonical(high << LIMB_BITS, modulus) + low, modulus)
    return total


def _long_combination(weights: torch.Tensor, rows: torch.Tensor, modulus: int) -> torch.Tensor:
    """Matrix product of weights [r, c] and rows [b, c, L] for 2^61 - 1."""
    total = rows.new_zeros((len(rows), len(weights), rows.shape[2]))
    for j in range(rows.shape[1]):
        total = _canonical(total + _product(weights[:, j, None], rows[:, j, None], modulus), modulus)
    return total


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
