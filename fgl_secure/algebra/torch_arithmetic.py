"""Arithmetic on torch tensors, on whatever device they are: torch operations only, no element leaves the device.

Torch has no wide integer product and none on matrices, so 2^61 - 1 is worked on in limbs of 31 and 30 bits, and
matrix products below 2^31 go through float64, which is exact here: 31 bits times 16 bits, added up 64 times at most,
stays below 2^53.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra.arithmetic import Arithmetic, element_dtype
from fgl_secure.algebra.reduction import MERSENNE_31, MERSENNE_61
from fgl_secure.algebra.segments import Segments
from fgl_secure.errors import InputError

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

LIMB_BITS = 16
TERMS = 64
"""Columns of a matrix product that float64 adds up exactly: 31 + 16 + 6 bits."""
PIECE = 2**18
"""Columns worked on at a time, which bounds what the limbs take: a few times 2 MiB for each row."""


class _TorchArithmetic(Arithmetic):
    """Arithmetic on torch tensors, on the CPU or a GPU."""

    def integers(self, values: Any, like: Any) -> torch.Tensor:
        tensor = torch.as_tensor(values, device=like.device)
        if tensor.dtype not in INTEGERS:
            raise InputError(f"values must be integers; found dtype {tensor.dtype}")
        return tensor

    def extremes(self, array: torch.Tensor) -> tuple[int, int]:
        return int(array.min()), int(array.max())

    def all_elements(self, array: torch.Tensor, modulus: int) -> bool:
        if not array.numel():
            return True
        least, greatest = self.extremes(array)
        return least >= 0 and greatest < modulus

    def narrowed(self, array: torch.Tensor, modulus: int) -> torch.Tensor:
        return array.to(DTYPES[element_dtype(modulus).itemsize])

    def reduce(self, a: torch.Tensor, modulus: int) -> torch.Tensor:
        return self.narrowed(_canonical(a, modulus), modulus)

    def add(self, a: torch.Tensor, b: torch.Tensor, modulus: int) -> torch.Tensor:
        return self.reduce(_canonical(a, modulus) + _canonical(b, modulus), modulus)

    def subtract(self, a: torch.Tensor, b: torch.Tensor, modulus: int) -> torch.Tensor:
        return self.reduce(_canonical(a, modulus) - _canonical(b, modulus), modulus)

    def multiply(self, a: torch.Tensor, b: torch.Tensor, modulus: int) -> torch.Tensor:
        return self.narrowed(_product(_canonical(a, modulus), _canonical(b, modulus), modulus), modulus)

    def invert(self, a: torch.Tensor, modulus: int) -> torch.Tensor:
        base = _canonical(a, modulus)
        zero, power, exponent = base == 0, torch.ones_like(base), modulus - 2
        while exponent:
            power = _product(power, base, modulus) if exponent & 1 else power
            base = _product(base, base, modulus)
            exponent >>= 1
        return self.narrowed(power.masked_fill(zero, 0), modulus)

    def combine(self, matrix: NDArray[np.int64], first: torch.Tensor, second: torch.Tensor, modulus: int) -> Any:
        if not (self.all_elements(first, modulus) and self.all_elements(second, modulus)):
            return None
        batch = len(first) if len(second) == 1 else len(second)
        stacked = [part.expand(batch, *part.shape[1:]) for part in (first, second)]
        weights = torch.as_tensor(matrix, device=first.device)
        product = _long_combination if modulus == MERSENNE_61 else _limb_combination
        out = self.narrowed(first[:0], modulus).new_empty((batch, len(matrix), first.shape[2]))
        for start in range(0, first.shape[2], PIECE):
            rows = torch.cat([part[..., start : start + PIECE].long() for part in stacked], dim=1)
            out[..., start : start + PIECE] = product(weights, rows, modulus)
        return out

    def interpolate(
        self, matrix: NDArray[np.int64], rows: torch.Tensor, used: list[int], checked: list[int], modulus: int
    ) -> tuple[Any, int]:
        width, wanted = rows.shape[1], len(matrix) - len(checked)
        product = _long_combination if modulus == MERSENNE_61 else _limb_combination
        weights = torch.as_tensor(matrix, device=rows.device)
        values = self.narrowed(rows[:0], modulus).new_empty((wanted, width))
        for start in range(0, width, PIECE):
            piece = rows[:, start : start + PIECE].long()
            found = product(weights, piece[None, used], modulus)[0]
            values[:, start : start + PIECE] = found[:wanted]
            differs = (found[wanted:] != piece[checked]).any(dim=0)
            if bool(differs.any()):
                return values, start + int(differs.nonzero()[0])
        return values, width

    def dot(self, rows: torch.Tensor, weights: torch.Tensor, modulus: int) -> torch.Tensor:
        products = [_product(row.long(), weights.long(), modulus) for row in rows]
        sums = torch.stack([_total(product, modulus) for product in products]) if products else rows.new_empty(0)
        return self.narrowed(sums, modulus)

    def grouped_sums(self, values: torch.Tensor, segments: Segments, modulus: int) -> torch.Tensor:
        group_of = np.empty(segments.rows, dtype=np.int64)
        group_of[segments.order] = np.repeat(np.arange(len(segments)), segments.sizes)
        index = torch.as_tensor(group_of, device=values.device)
        wide = _canonical(values, modulus)
        out = torch.zeros((len(values), len(segments), values.shape[2]), dtype=torch.int64, device=values.device)
        if modulus != MERSENNE_61:
            return self.reduce(out.index_add(1, index, wide), modulus)
        low, high = out.index_add(1, index, wide & MERSENNE_31), out.index_add(1, index, wide >> 31)
        return self.narrowed(_joined(high, low), modulus)

    def encode_fixed(self, values: torch.Tensor, scale: float, most: float, modulus: int) -> torch.Tensor | None:
        scaled = values.double() * scale
        size = scaled.abs()
        if not bool((size <= most).all()):
            return None
        whole = size.floor()
        element = whole.long() + (size - whole >= 0.5).long()
        return self.reduce(torch.where(scaled < 0, -element, element), modulus)

    def decode_fixed(self, elements: torch.Tensor, scale: float, modulus: int) -> torch.Tensor:
        wide = elements.long()
        return torch.where(wide > modulus // 2, wide - modulus, wide).double() / scale

    def largest_magnitude(self, values: torch.Tensor) -> float:
        return float(values.abs().max()) if values.numel() else 0.0


TORCH: Arithmetic = _TorchArithmetic()


def _canonical(a: torch.Tensor, modulus: int) -> torch.Tensor:
    """The elements that any int64 stand for, as int64."""
    wide = a.long()
    if modulus == MERSENNE_61:
        wide = (wide & MERSENNE_61) + (wide >> 61)
        wide = torch.where(wide < 0, wide + MERSENNE_61, wide)
        return torch.where(wide >= MERSENNE_61, wide - MERSENNE_61, wide)
    if modulus == MERSENNE_31:  # a remainder costs a division, a fold two cheap passes
        wide = (wide & MERSENNE_31) + (wide >> 31)
    return torch.remainder(wide, modulus)


def _product(a: torch.Tensor, b: torch.Tensor, modulus: int) -> torch.Tensor:
    """Products of elements, all int64; see `reduction.multiply_61` for the limbs."""
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
