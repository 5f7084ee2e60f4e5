"""Arithmetic modulo a prime on torch tensors, and on numpy arrays, which share their memory with tensors.

Torch operations alone are the library path, on whatever device tensors are: no element leaves the device. Torch has no
wide integer product and none on matrices, so 2^61 - 1 is worked on in limbs of 31 and 30 bits, and matrix products
below 2^31 go through float64, which is exact here: 31 bits times 16 bits, added up 64 times at most, stays below 2^53.
On the CPU remainders, matrix products and sums of rows go through compiled loops (`kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fgl_secure.algebra import kernels
from fgl_secure.algebra.kernels import MERSENNE_31, MERSENNE_61
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.threads import read_only
from fgl_secure.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """A partition of rows into consecutive segments of a permutation; sorted once, summed many times.

    Attributes:
        order: int64 [m], a permutation that puts the rows of one segment side by side.
        starts: int64 [s + 1], where each segment begins in `order`, and the end.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def by_group(cls, group_of: NDArray[np.int64], groups: int) -> Segments:
        """Segment s holds the rows whose group is s.

        Args:
            group_of: int64 [m], the group of each row, 0 .. groups - 1.
            groups: how many groups there are; some may be empty.
        """
        if len(group_of) and not (int(group_of.min()) >= 0 and int(group_of.max()) < groups):
            raise InputError(
                f"group_of must lie in 0..{groups - 1}; found {int(group_of.min())}..{int(group_of.max())}"
            )
        counts = np.bincount(group_of, minlength=groups)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(np.argsort(group_of, kind="stable").astype(np.int64), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> int:
        """How many rows the segments are made of."""
        return len(self.order)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [s]: rows in each segment."""
        return np.diff(self.starts)

    def real_sums(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sums the rows of each segment over real numbers: values [m, d] to float64 [s, d]."""
        self.check_rows(len(values))
        members = sparse.csr_array((np.ones(self.rows), self.order, self.starts), shape=(len(self), self.rows))
        return np.asarray(members @ values.astype(np.float64))

    def check_rows(self, rows: int) -> None:
        """Raises unless there are as many rows as the segments are made of; compiled loops check no bounds."""
        if rows != self.rows:
            raise InputError(f"values must have the segments' {self.rows} rows; found {rows}")


INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

LIMB_BITS = 16
TERMS = 64
"""Columns of a matrix product that float64 adds up exactly: 31 + 16 + 6 bits."""
PIECE = 2**18
"""Columns worked on at a time, which bounds what the limbs take: a few times 2 MiB for each row."""

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
        return np.dtype(np.min_scalar_type(-self.modulus))

    def contains(self, values: Any) -> bool:
        """Whether every one of some integers, an array or a tensor, lies in 0 .. modulus - 1."""
        (tensor,), _ = _integers(values)
        return self._all_elements(tensor)

    def elements(self, values: ElementsT) -> ElementsT:
        """Takes integers that must already lie in 0 .. modulus - 1; nothing is reduced in silence.

        Raises:
            FieldRangeError: a value lies outside, and the message has the extremes.
        """
        (tensor,), back = _integers(values)
        if not self._all_elements(tensor):
            least, greatest = map(int, torch.aminmax(tensor))
            raise FieldRangeError(f"values must lie in 0..{self.modulus - 1}; found {least}..{greatest}")
        return back(self._as_dtype(tensor))

    def to_galois(self, values: ElementsT) -> Any:
        """The elements as an array of `galois.GF(modulus)`, of the same shape; needs the extra `galois`.

        Arrays of galois go in wherever integers do.

        Raises:
            InputError: galois is not installed.
        """
        try:
            galois = import_module("galois")  # an extra
        except ImportError:
            raise InputError("galois must be installed; it is not: pip install 'fgl-secure[galois]'") from None
        return galois.GF(self.modulus)(np.asarray(self.elements(values), dtype=np.int64))

    def add(self, a: ElementsT, b: ElementsT | int) -> ElementsT:
        """Sum, with broadcasting."""
        (one, other), back = _integers(a, b)
        return back(self._reduce(_canonical(one, self.modulus) + _canonical(other, self.modulus)))

    def subtract(self, a: ElementsT, b: ElementsT | int) -> ElementsT:
        """Difference, with broadcasting."""
        (one, other), back = _integers(a, b)
        return back(self._reduce(_canonical(one, self.modulus) - _canonical(other, self.modulus)))

    def negate(self, a: ElementsT) -> ElementsT:
        """Additive inverse."""
        (tensor,), back = _integers(a)
        return back(self._reduce(-_canonical(tensor, self.modulus)))

    def multiply(self, a: ElementsT, b: ElementsT | int) -> ElementsT:
        """Product of corresponding elements, with broadcasting."""
        (one, other), back = _integers(a, b)
        p = self.modulus
        return back(self._as_dtype(_product(_canonical(one, p), _canonical(other, p), p)))

    def inverse(self, a: ElementsT) -> ElementsT:
        """Multiplicative inverse a^(modulus - 2); zero raises."""
        (tensor,), back = _integers(a)
        base = _canonical(tensor, self.modulus)
        if bool((base == 0).any()):
            raise InputError("a must not contain 0, which has no inverse")
        power, exponent = torch.ones_like(base), self.modulus - 2
        while exponent:
            power = _product(power, base, self.modulus) if exponent & 1 else power
            base = _product(base, base, self.modulus)
            exponent >>= 1
        return back(self._as_dtype(power))

    def combine(self, matrix: ArrayLike, blocks: ElementsT, *, axis: int = 0) -> ElementsT:
        """Linear combinations of blocks: the matrix product along one axis.

        Args:
            matrix: integers [r, c], in ordinary memory.
            blocks: integers with length c on `axis`; the other axes are batch axes.
            axis: the axis of `blocks` that the matrix acts on.

        Returns:
            Elements of the shape of `blocks`, with length r on `axis`.
        """
        (tensor,), back = _integers(blocks)
        return back(self.combine_two(matrix, tensor, tensor.narrow(axis, 0, 0), axis=axis))

    def combine_two(self, matrix: ArrayLike, first: ElementsT, second: ElementsT, *, axis: int = 0) -> ElementsT:
        """Linear combinations of two stacks of blocks, as `combine` of one on top of the other without building that.

        Args:
            matrix: integers [r, c1 + c2], in ordinary memory.
            first: integers with length c1 on `axis`.
            second: integers with length c2 on `axis`; batch axes of one of the two may all have length 1.
            axis: the axis of both that the matrix acts on.

        Returns:
            Elements with length r on `axis`.
        """
        parts, back = _integers(first, second)
        (weights,), _ = _integers(np.asarray(matrix))
        reduced = self._reduce(weights).long().numpy()
        combined = self._combine_tensors(reduced, parts, axis)
        if combined is None:
            combined = self._combine_tensors(reduced, [self._reduce(part) for part in parts], axis)
        return back(combined)

    def combine_elements(self, matrix: NDArray[np.int64], first: ElementsT, second: Any, *, axis: int = 0) -> ElementsT:
        """`combine_two` of a matrix of elements with stacks that must hold elements; nothing is reduced in silence.

        Raises:
            FieldRangeError: a value lies outside 0 .. modulus - 1.
        """
        parts, back = _integers(first, second)
        combined = self._combine_tensors(matrix, parts, axis)
        if combined is None:
            raise FieldRangeError(f"blocks must hold elements, 0..{self.modulus - 1}; found others")
        return back(combined)

    def _combine_tensors(self, matrix: NDArray[np.int64], parts: list[torch.Tensor], axis: int) -> Any:
        """The same, of tensors; None where one holds anything but elements."""
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
        combined = self._stacked_product(matrix, *flat)
        return None if combined is None else combined.reshape(*batch, len(matrix), *item)

    def _stacked_product(self, matrix: NDArray[np.int64], first: torch.Tensor, second: torch.Tensor) -> Any:
        """Elements [r, c1 + c2] times first [b or 1, c1, L] on top of second [b or 1, c2, L]: [b, r, L]; or None."""
        batch, modulus = len(first) if len(second) == 1 else len(second), self.modulus
        if is_compiled(first):
            out = torch.empty((batch, len(matrix), first.shape[2]), dtype=_loop_dtype(modulus))
            parts = (_loopable(part, modulus) for part in (first, second))
            outside = kernels.combine(_pad_columns(matrix), *parts, modulus, out.numpy())
            return None if outside else self._as_dtype(out)
        if not (self._all_elements(first) and self._all_elements(second)):
            return None
        stacked = [part.expand(batch, *part.shape[1:]) for part in (first, second)]
        weights = torch.as_tensor(matrix, device=first.device)
        product = _long_combination if modulus == MERSENNE_61 else _limb_combination
        out = self._as_dtype(first[:0]).new_empty((batch, len(matrix), first.shape[2]))
        for start in range(0, first.shape[2], PIECE):
            rows = torch.cat([part[..., start : start + PIECE].long() for part in stacked], dim=1)
            out[..., start : start + PIECE] = product(weights, rows, modulus)
        return out

    def dot(self, rows: ElementsT, weights: Any) -> ElementsT:
        """Weighted row sums: the sum over the last axis of rows[..., k] * weights[k].

        Args:
            rows: integers [..., L].
            weights: integers [L].

        Returns:
            Elements [...].
        """
        (left, right), back = _integers(rows, weights)
        if right.ndim != 1 or left.shape[-1:] != right.shape:
            raise InputError(f"weights must be [L] for rows [..., L]; found {list(right.shape)} and {list(left.shape)}")
        right = _canonical(right, self.modulus)
        flat = left.reshape(math.prod(left.shape[:-1]), left.shape[-1])
        sums = flat.new_empty(len(flat), dtype=torch.int64)
        chunk_size = max(PIECE // max(len(right), 1), 1)
        for start in range(0, len(flat), chunk_size):
            products = _product(_canonical(flat[start : start + chunk_size], self.modulus), right, self.modulus)
            sums[start : start + chunk_size] = _total(products, self.modulus)
        return back(self._as_dtype(sums.reshape(left.shape[:-1])))

    def grouped_sums(self, values: ElementsT, segments: Segments, *, batch_axes: int = 0) -> ElementsT:
        """Sums the rows of each segment.

        Args:
            values: elements [*batch, m, *item].
            segments: which rows belong together, over m rows.
            batch_axes: how many leading axes are batch axes.

        Returns:
            Elements [*batch, s, *item]; an empty segment sums to zero.
        """
        (tensor,), back = _integers(values)
        batch, item = tuple(tensor.shape[:batch_axes]), tuple(tensor.shape[batch_axes + 1 :])
        segments.check_rows(tensor.shape[batch_axes])
        flat = tensor.reshape(math.prod(batch), segments.rows, math.prod(item))
        return back(self._sum_segments(flat, segments).reshape(*batch, len(segments), *item))

    def _sum_segments(self, values: torch.Tensor, segments: Segments) -> torch.Tensor:
        """Values [b, m, w] to [b, s, w]."""
        batch, _, width = values.shape
        if is_compiled(values):
            sums = np.empty((batch, len(segments), width), dtype=self.dtype)
            rows = read_only(values.contiguous().numpy())
            kernels.segment_sums(rows, segments.order, segments.starts, self.modulus, sums)
            return torch.from_numpy(sums)
        group_of = np.empty(segments.rows, dtype=np.int64)
        group_of[segments.order] = np.repeat(np.arange(len(segments)), segments.sizes)
        index = torch.as_tensor(group_of, device=values.device)
        wide = _canonical(values, self.modulus)
        out = torch.zeros((batch, len(segments), width), dtype=torch.int64, device=values.device)
        if self.modulus != MERSENNE_61:
            return self._reduce(out.index_add(1, index, wide))
        low, high = out.index_add(1, index, wide & MERSENNE_31), out.index_add(1, index, wide >> 31)
        return self._as_dtype(_join_words(high, low))

    def encode_fixed(self, values: Any, scale: float, most: float) -> Any:
        """Return round(values * scale), halves away from zero, as elements; `most` is below 2^62.

        Args:
            values: reals, an array or a tensor.
            scale: a power of two.
            most: largest magnitude of a scaled value.

        Returns:
            None where a value is no number, or |value * scale| is beyond `most`.
        """
        scaled = (values if isinstance(values, torch.Tensor) else _as_tensor(np.asarray(values))).double() * scale
        if scaled.numel():
            least, greatest = torch.aminmax(scaled)
            if not -most <= least <= greatest <= most:
                return None
        integral = scaled.trunc()  # adding a half first would round twice: just below it, and beyond 2^52
        element = (scaled - integral).mul_(2).trunc_().add_(integral).long()
        element += (element >> 63) & self.modulus
        result = self._as_dtype(element) if most < self.modulus else self._reduce(element)
        return result if isinstance(values, torch.Tensor) else result.numpy()

    def decode_fixed(self, elements: Any, scale: float) -> Any:
        """Return representatives of least magnitude, divided by scale: float64."""
        (tensor,), back = _integers(elements)
        wide = tensor.long()
        above = (self.modulus // 2 - wide).bitwise_right_shift_(63).bitwise_and_(self.modulus)
        return back((wide - above).double().div_(scale))

    def _all_elements(self, tensor: torch.Tensor) -> bool:
        if not tensor.numel():
            return True
        least, greatest = torch.aminmax(tensor)
        return int(least) >= 0 and int(greatest) < self.modulus

    def _as_dtype(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same elements in the field's dtype; no copy where it is that already."""
        return tensor.to(DTYPES[self.dtype.itemsize])

    def _reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Remainders."""
        return self._as_dtype(_canonical(tensor, self.modulus))


def _integers(first: ElementsT, *others: Any) -> tuple[list[torch.Tensor], Callable[[torch.Tensor], ElementsT]]:
    """Integers as tensors on one device, and what turns a result into their kind: a tensor where one of them is.

    Raises:
        InputError: one has another dtype, or does not fit int64.
    """
    operands: tuple[Any, ...] = (first, *others)
    like = next((item for item in operands if isinstance(item, torch.Tensor)), None)
    back: Any = torch.Tensor.numpy if like is None else lambda result: result
    if like is not None:
        tensors = [torch.as_tensor(item, device=like.device) for item in operands]
        rejected = [tensor.dtype for tensor in tensors if tensor.dtype not in INTEGERS]
        if rejected:
            raise InputError(f"values must be integers; found dtype {rejected[0]}")
        return tensors, back
    arrays = [np.asarray(item) for item in operands]
    for array in arrays:
        if array.dtype.kind not in "iu":
            raise InputError(f"values must be integers; found dtype {array.dtype}")
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise InputError(f"values must fit int64; found {int(array.max())}")
    return [_as_tensor(array) for array in arrays], back


def is_compiled(values: torch.Tensor) -> bool:
    """Return whether compiled loops serve a tensor: they take memory of the CPU."""
    return values.device.type == "cpu"


def _as_tensor(operand: Array) -> torch.Tensor:
    """A tensor that shares an array's memory if torch takes it as it is, else one of a copy."""
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


def _pad_columns(matrix: Any) -> NDArray[np.uint64]:
    """With columns of zeros up to a multiple of four."""
    out = np.zeros((len(matrix), -(-matrix.shape[1] // 4) * 4), dtype=np.uint64)
    out[:, : matrix.shape[1]] = matrix
    return out


def _canonical(a: torch.Tensor, modulus: int) -> torch.Tensor:
    """The elements that any int64 stand for, as a new int64 tensor."""
    wide, bits = a.long(), modulus.bit_length()
    if modulus not in (MERSENNE_31, MERSENNE_61):
        return torch.remainder(wide, modulus)
    if is_compiled(wide):
        out = torch.empty(wide.shape, dtype=torch.int64)
        kernels.reduce_each(wide.contiguous().numpy().reshape(-1), modulus, out.numpy().reshape(-1))
        return out
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


def _join_words(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """The number high * 2^31 + low modulo 2^61 - 1, for non-negative int64."""
    shift = torch.full_like(high, 2**31)
    return _canonical(_product(_canonical(high, MERSENNE_61), shift, MERSENNE_61) + _canonical(low, MERSENNE_61),
                      MERSENNE_61)  # fmt: skip


def _total(elements: torch.Tensor, modulus: int) -> torch.Tensor:
    """The sums of elements over the last axis, all int64: fewer than 2^32 of them."""
    if modulus != MERSENNE_61:
        return _canonical(elements.sum(-1), modulus)
    return _join_words((elements >> 31).sum(-1), (elements & MERSENNE_31).sum(-1))


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


@cache
def _is_prime(modulus: int) -> bool:
    if modulus in (MERSENNE_31, MERSENNE_61):
        return True
    from sympy import isprime  # noqa: PLC0415  # half a second, and the two fields in use do without

    return bool(isprime(modulus))
