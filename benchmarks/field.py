"""Field arithmetic: throughput of every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.pieces import COPY, BenchPart, Piece, measure_copy
from benchmarks.timing import Timing, galois_field, measure, on_devices, random_elements
from fgl_secure.algebra import MERSENNE_31, MERSENNE_61, FixedPoint, PrimeField, Segments
from fgl_secure.coins import SystemCoins

LENGTH = 2**22
"""Elements of one operand."""
SLOW = 16
"""Inversion and galois get this part of the elements."""
MODULI = {MERSENNE_31: "2^31-1", MERSENNE_61: "2^61-1"}

Binary = Callable[[Any, Any], Any]


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Both production fields on every device, and galois on the CPU."""
    return {COPY: measure_copy(3 * 4 * LENGTH)} | {MODULI[modulus]: partial(_field, modulus) for modulus in MODULI}


def _field(modulus: int) -> Piece:
    return Piece((*_ours(PrimeField(modulus)), *_theirs(modulus)))


def _ours(field: PrimeField) -> Iterator[Timing]:
    label, size = MODULI[field.modulus], field.dtype.itemsize
    elements = random_elements(field, (2, LENGTH))
    elements[elements == 0] = 1
    operations: dict[str, Binary] = {"add": field.add, "subtract": field.subtract, "multiply": field.multiply}
    for device, (a, b) in on_devices(elements):
        for name, operation in operations.items():
            work = _call(operation, a, b)
            yield measure(work, f"{label} {name}", device=device, items=LENGTH, moved=3 * size * LENGTH)
        few = a[: LENGTH // SLOW]
        yield measure(_call(field.inverse, few), f"{label} inverse", device=device, repeats=3, items=len(few))
        yield from _reductions(field, device, a, b)
    coins = SystemCoins()
    draw = _call(coins.uniform, field.modulus, (LENGTH,))
    yield measure(draw, f"{label} SystemCoins", items=LENGTH, moved=8 * LENGTH)


def _reductions(field: PrimeField, device: str, a: Any, b: Any) -> Iterator[Timing]:
    label, size = MODULI[field.modulus], field.dtype.itemsize
    rows, wide = a.reshape(64, -1), a.reshape(-1, 64)
    segments = Segments.by_group(np.arange(len(wide)) % (len(wide) // 8), len(wide) // 8)
    matrix = random_elements(field, (64, 64)).astype(np.int64)
    fixed = FixedPoint.for_sums(field, bound=4.0, terms=64)
    values = fixed.decode(field.multiply(a, 0))
    read = size * LENGTH
    work = _call(field.combine, matrix, rows)
    yield measure(work, f"{label} 64 x 64 matrix product", device=device, repeats=5, items=LENGTH, moved=2 * read,
                  multiply_adds=64 * LENGTH)  # fmt: skip
    work = _call(field.dot, rows, b[: rows.shape[1]])
    yield measure(work, f"{label} weighted row sums, 64 rows", device=device, moved=read, multiply_adds=LENGTH)
    work = _call(field.grouped_sums, wide, segments)
    yield measure(work, f"{label} grouped sums, 8 rows of 64 a group", device=device, items=LENGTH, moved=read * 9 // 8)
    work = _call(fixed.encode, values)
    yield measure(work, f"{label} fixed point to field", device=device, items=LENGTH, moved=read + 8 * LENGTH)
    work = _call(fixed.decode, a)
    yield measure(work, f"{label} field to fixed point", device=device, items=LENGTH, moved=read + 8 * LENGTH)


def _theirs(modulus: int) -> Iterator[Timing]:
    GF = galois_field(modulus)
    if GF is None or modulus != MERSENNE_31:  # beyond 2^31 galois works on python integers
        return
    a, b = (GF(row) for row in random_elements(PrimeField(modulus), (2, LENGTH // SLOW)))
    operations: dict[str, Binary] = {
        "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    }  # fmt: skip
    for name, operation in operations.items():
        yield measure(_call(operation, a, b), f"{MODULI[modulus]} {name}, galois", repeats=3, items=a.size)


def _call(function: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    return lambda: function(*operands)


PART = BenchPart(_pieces)
