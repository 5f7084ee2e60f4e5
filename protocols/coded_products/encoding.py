"""How real factors become integers whose sums of products are exact, and what fields hold those."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint, PrimeField
from fgl_secure.algebra.quantization import units_of
from fgl_secure.algebra.residues import BELOW_2_8
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.coded_products.layout import MOST_BITS, Layout, Product
from fgl_secure.typing import Integers

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
        for room in (*(each for each in ROOMS if each < most), most):
            for bits in range(2 * MOST_BITS, 2 * least_bits - 1, -1):  # of which right rows take the odd one
                one, other = _quantizer(left, bits // 2, "left rows"), _quantizer(right, bits - bits // 2, "right rows")
                found = cls(one, other, terms, product, primes)
                if terms * found.largest <= room:
                    return found
        bound = f"{left:g} * {right:g}" if product is None or product > left * right else f"{product:g}"
        raise FieldRangeError(
            f"terms times the largest product * 2^{2 * least_bits} must stay within {most:,}; found {terms:,} * "
            f"{bound} * 2^{2 * least_bits}: take smaller bounds"
        )

    def of(self, product: Product) -> ProductCode:
        """That of one product, whose left rows are given no more bits than everybody knows them to have."""
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

    def fields_for(self, layout: Layout) -> tuple[tuple[PrimeField, ...], int]:
        """The fields of all products of a layout, and how many of them, the first, those with static rows take."""
        found = {product: self.of(product).fields for product in layout.products}
        static = [len(fields) for product, fields in found.items() if product.static]
        return max(found.values(), key=len), max(static, default=0)

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
        found = float((lefts * rights).max(initial=0))
        if found > self.largest:
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


def _quantizer(bound: float, bits: int, what: str) -> FixedPoint:
    return FixedPoint(None, bound, bits, what=what)
