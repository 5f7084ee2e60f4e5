"""How real factors become integers whose sums of products are exact, encoded some devices at a time when they are sent.

Features of many devices fill much of the memory there is, so a copy of all of them is made only where one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.checks import check_bits
from fgl_secure.algebra.quantization import FixedPoint, units_of
from fgl_secure.algebra.residues import BELOW_2_8
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.coded_products.plan import MOST_BITS, OuterProduct, ProductLayout
from fgl_secure.typing import Ids, Integers

LEAST_BITS = 10
"""Fewest bits behind the binary point of either factor; another prime is taken before there are fewer."""
EXACT = 2**52
"""Largest magnitude of a sum: float64 holds it exactly, and its sums on the way."""
ROOMS = (63, 7_175, 782_129, 83_687_856, 8_619_849_219, 870_604_771_169, 84_448_662_803_441)
"""Largest magnitudes among which sums take the least that will do, about seven bits apart.

They are halves of the products of the primes that sums were worked out with before; so runs of then repeat to the bit.
"""
LARGEST_BOUND = 2.0**64
"""No field holds products of anything as large."""


@dataclass(frozen=True, slots=True)
class ProductCode:
    """A map of real factors into integers whose sums of products are exact.

    Attributes:
        left: of left rows.
        right: of right rows.
        terms: most products in one sum.
        product: largest magnitude of the product of two entries, of a left row and a right one of one device; None
            where only the bounds of both count.
        primes: of fields; the first are taken, as many as hold the sums.
    """

    left: FixedPoint
    right: FixedPoint
    terms: int
    product: float | None = None
    primes: tuple[int, ...] = BELOW_2_8

    @classmethod
    def for_sums(
        cls,
        *,
        left: float,
        right: float,
        terms: int,
        product: float | None = None,
        primes: tuple[int, ...] = BELOW_2_8,
        least_bits: int = LEAST_BITS,
    ) -> ProductCode:
        """The one with the least room for sums that leaves both factors enough bits, and the most bits that it leaves.

        Args:
            left: largest magnitude of an entry of a left row.
            right: of a right row.
            terms: see the class.
            product: see the class.
            primes: see the class.
            least_bits: behind the binary point of either factor.

        Raises:
            FieldRangeError: all primes together hold no such sums; the message has the figures.
            InputError: a bound is no positive number.
        """
        check_bounds(left, right, product)
        most = min((math.prod(primes) - 1) // 2, EXACT)
        for room in (*(item for item in ROOMS if item < most), most):
            for bits in range(2 * MOST_BITS, 2 * least_bits - 1, -1):  # of which right rows take the odd one
                one, other = _quantizer(left, bits // 2, "left rows"), _quantizer(right, bits - bits // 2, "right rows")
                sums = cls(one, other, terms, product, primes)
                if terms * sums.largest <= room:
                    return sums
        bound = f"{left:g} * {right:g}" if product is None or product > left * right else f"{product:g}"
        raise FieldRangeError(
            f"terms times the largest product * 2^{2 * least_bits} must stay within {most:,}; found {terms:,} * "
            f"{bound} * 2^{2 * least_bits}: take smaller bounds"
        )

    def of(self, product: OuterProduct) -> ProductCode:
        """That of one product, whose left rows are given no more bits than all parties know them to have."""
        bits = product.left_bits
        if bits is None or bits >= self.left.fraction_bits:
            return self
        return replace(self, left=replace(self.left, fraction_bits=bits))

    @property
    def fields(self) -> tuple[PrimeField, ...]:
        """Those in which sums are worked out: as few as have a product larger than twice any sum.

        Raises:
            FieldRangeError: all of them have none.
        """
        for count in range(1, len(self.primes) + 1):
            if self.terms * self.largest <= (math.prod(self.primes[:count]) - 1) // 2:
                return tuple(PrimeField(prime) for prime in self.primes[:count])
        raise FieldRangeError(f"primes must hold sums of up to {self.terms * self.largest:,}; found {self.primes}")

    def fields_for(self, layout: ProductLayout) -> tuple[tuple[PrimeField, ...], int]:
        """The fields of all products of a layout, and how many of them, the first, those with static rows take."""
        result = {product: self.of(product).fields for product in layout.products}
        static = [len(fields) for product, fields in result.items() if product.static]
        return max(result.values(), key=len), max(static, default=0)

    @property
    def largest(self) -> int:
        """Of the magnitude of a product of two encoded entries of one device."""
        both = self.left.largest * self.right.largest
        return both if self.product is None else min(both, units_of(self.product, self.fraction_bits))

    def check_products(self, lefts: NDArray[np.float64], rights: NDArray[np.float64], number: int) -> None:
        """Refuses products that are too large.

        Args:
            lefts: float64 [n], the largest magnitude of an encoded entry of each device's left rows.
            rights: of its right rows.
            number: of the product, for the message.

        Raises:
            FieldRangeError: one is beyond the bound; how large it is is the device's own.
        """
        result = float((lefts * rights).max(initial=0))
        if result > self.largest:
            raise FieldRangeError(
                f"an entry of a device's left row times one of its right row must not exceed "
                f"{math.ldexp(self.largest, -self.fraction_bits):g} in magnitude; in product {number} at least one "
                f"does: scale them, or give a larger bound"
            )

    @property
    def fraction_bits(self) -> int:
        """Of a sum."""
        return self.left.fraction_bits + self.right.fraction_bits

    def decode(self, sums: Integers) -> NDArray[np.float64]:
        """The reals that sums of products stand for."""
        return np.ldexp(sums.astype(np.float64), -self.fraction_bits)


def check_bounds(left: float, right: float, product: float | None) -> None:
    """Raises unless bounds are positive numbers; none is needed for products."""
    for name, bound in (("left", left), ("right", right), ("product", product)):
        if bound is not None and not 0 < bound <= LARGEST_BOUND:
            raise InputError(f"{name} must be a positive number of at most 2^64; found {bound}")


def _quantizer(bound: float, bits: int, name: str) -> FixedPoint:
    return FixedPoint(None, bound, bits, what=name)


Floats = NDArray[np.floating[Any]]

NOTHING_SHARED: Mapping[int, NDArray[np.float64]] = MappingProxyType({})

_HASHED = 2**20
"""Numbers that are hashed, or looked at, at a time."""


class FactorParts:
    """One factor of all devices, in parts that stay where they are.

    Args:
        parts: float [terms, m, d], of some devices each, of n in all.
        order: int64 [n], the position of each device when parts stand one after the other; as they stand unless given.

    Attributes:
        shape: (terms, n, d).

    Raises:
        InputError: parts are none or of different shapes, or the order names places that they have not.
    """

    __slots__ = ("_ends", "_order", "_parts", "shape")

    def __init__(self, parts: Sequence[Floats], order: Ids | None = None) -> None:
        shapes = [part.shape for part in parts]
        if len({(len(shape), shape[:1], shape[2:]) for shape in shapes}) != 1 or len(shapes[0]) != 3:
            raise InputError(f"parts must be one or more of shapes [terms, m, d], terms and d alike; found {shapes}")
        self._parts, self._ends = tuple(parts), np.cumsum([0, *(shape[1] for shape in shapes)]).tolist()
        places = np.arange(self._ends[-1]) if order is None else np.asarray(order)
        if places.ndim != 1 or places.dtype != np.int64 or (places.view(np.uint64) >= self._ends[-1]).any():
            result = f"{places.dtype} {list(places.shape)}"
            raise InputError(f"order must be int64 [n], of places 0 to {self._ends[-1] - 1}; found {result}")
        self._order = places
        self.shape = (shapes[0][0], len(places), shapes[0][2])

    def largest(self) -> NDArray[np.float64]:
        """Float64 [n], the largest magnitude of each device's numbers; NaN where there is one."""
        result = [np.maximum(part.max(axis=(0, 2)), -part.min(axis=(0, 2))) for part in self._parts]
        return np.concatenate(result).astype(np.float64)[self._order]

    def check_bits(self, bits: int, name: str) -> None:
        """Raises InputError unless all numbers are multiples of 2^-bits; some are looked at at a time."""
        several = max(_HASHED // self.shape[2], 1)
        for part in self._parts:
            for row in part:
                for start in range(0, len(row), several):
                    check_bits(row[start : start + several], bits, name)

    def digest(self) -> bytes:
        """Of the numbers, in whatever parts and order: they must not change, and may be too many to keep for that."""
        hashed, several = sha256(repr(self.shape).encode()), max(_HASHED // (self.shape[0] * self.shape[2]), 1)
        for start in range(0, self.shape[1], several):
            devices = np.arange(start, min(start + several, self.shape[1]))
            rows = np.empty((len(devices), self.shape[0], self.shape[2]))
            for rows_here, part in self._of(devices):
                rows[rows_here] = np.swapaxes(part, 0, 1)
            hashed.update(rows.data)
        return hashed.digest()

    def _of(self, devices: Ids) -> Iterator[tuple[Ids, Floats]]:
        """Which of some devices are in each part, and their rows [terms, k, d]."""
        places = self._order[devices]
        for part, first, last in zip(self._parts, self._ends, self._ends[1:], strict=False):
            members = np.flatnonzero((places >= first) & (places < last))
            if len(members):
                yield members, part[:, places[members] - first]

    def encode(self, quantizer: FixedPoint, largest: float, devices: Ids, out: NDArray[np.signedinteger[Any]]) -> None:
        """Encodes the rows of some devices.

        Args:
            quantizer: of the factor.
            largest: magnitude of all of it.
            devices: int64 [k].
            out: integers [k, terms, d], where they go.
        """
        for members, rows in self._of(devices):
            out[members] = np.swapaxes(quantizer.encode(rows, narrow=True, largest=largest), 0, 1)


class _Side:
    """One factor and how it is encoded; refuses what does not fit, and what is encoded exactly and cannot be.

    Attributes:
        largest: magnitude of all of it.
        largest_units: float64 [n], of each device's encoded numbers.
    """

    def __init__(self, quantizer: FixedPoint, factor: FactorParts, number: int, exact_bits: int | None = None) -> None:
        largest = factor.largest()
        self.quantizer, self.factor, self.largest = quantizer, factor, float(np.max(largest))
        quantizer.encode(np.empty(0), largest=self.largest)
        if exact_bits is not None:
            factor.check_bits(exact_bits, f"left factors of product {number}")
        self.largest_units = np.rint(np.ldexp(largest, quantizer.fraction_bits))


class EncodedFactors:
    """What devices share in one step, [n, static + fresh] or [n, fresh]; an array of integers where one is asked for.

    Args:
        code: how factors become integers.
        layout: the products.
        lefts: for each product its left factor; None for a static one that is not shared again.
        rights: for each product its right factor.
        static: whether with what is shared once.
        shared: by product, `largest_lefts` of static factors that were shared before.

    Attributes:
        shape: (n, numbers of a device).
        dtype: int32 where all units fit, else int64.
        largest_lefts: for each product float64 [n], the largest magnitude of an encoded entry of a device's left rows.

    Raises:
        InputError: a number is NaN or infinite, or of a left row that has more bits than was stated.
        FieldRangeError: one, or the product of two of one device, is beyond its bound; nothing is shared then.
    """

    __slots__ = ("_sides", "dtype", "largest_lefts", "shape")

    def __init__(
        self,
        code: ProductCode,
        layout: ProductLayout,
        lefts: Sequence[FactorParts | None],
        rights: Sequence[FactorParts],
        *,
        static: bool,
        shared: Mapping[int, NDArray[np.float64]] = NOTHING_SHARED,
    ) -> None:
        codes = [code.of(product) for product in layout.products]
        one = [None if largest_left is None else _Side(codes[n].left, largest_left, n, layout.products[n].left_bits)
               for n, largest_left in enumerate(lefts)]  # fmt: skip
        other = [_Side(codes[n].right, right, n) for n, right in enumerate(rights)]
        self.largest_lefts = [
            shared[n] if largest_left is None else largest_left.largest_units for n, largest_left in enumerate(one)
        ]
        for n, (largest_left, right) in enumerate(zip(self.largest_lefts, other, strict=True)):
            codes[n].check_products(largest_left, right.largest_units, n)
        result = [side for side in layout.in_order(one, other, static=static) if side is not None]
        self._sides = [(side.quantizer, side.factor, side.largest) for side in result]
        narrow = max(code.left.largest, code.right.largest) < 2**31
        self.dtype = np.dtype(np.int32 if narrow else np.int64)
        self.shape = (rights[0].shape[1], sum(factor.shape[0] * factor.shape[2] for _, factor, _ in self._sides))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, devices: Ids) -> NDArray[np.signedinteger[Any]]:
        """The rows of some devices [k]: integers [k, numbers of a device]."""
        out, start = np.empty((len(devices), self.shape[1]), dtype=self.dtype), 0
        for quantizer, factor, largest in self._sides:
            terms, _, width = factor.shape
            stop = start + terms * width
            factor.encode(quantizer, largest, devices, out[:, start:stop].reshape(len(devices), terms, width))
            start = stop
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("copy must not be False: rows are encoded anew each time")
        return self[np.arange(len(self))].astype(dtype or self.dtype, copy=False)
