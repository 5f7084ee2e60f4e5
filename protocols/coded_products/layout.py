"""The products of a step: their shapes, and where their numbers and sums lie in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.residues import Remainders
from fgl_secure.errors import InputError
from fgl_secure.typing import Integers

MOST_BITS = 20
"""Behind the binary point of either factor."""


@dataclass(frozen=True, slots=True)
class Product:
    """The shape of one sum of products: over all devices and terms the outer product of a left row and a right one.

    Attributes:
        terms: pairs of rows that every device has.
        height: entries of a left row.
        width: entries of a right row.
        static: whether left rows are the same in all steps, so that they are shared once.
        left_bits: behind the binary point of an entry of a static left row, as everybody knows: 0 where they are
            integers; None where nobody does. Sums then are smaller, and fewer primes hold them.
    """

    terms: int
    height: int
    width: int
    static: bool = False
    left_bits: int | None = None

    def __post_init__(self) -> None:
        if min(self.terms, self.height, self.width) < 1:
            raise InputError(f"terms, height and width must be at least 1; found {self}")
        if self.left_bits is not None and not (self.static and 0 <= self.left_bits <= MOST_BITS):
            raise InputError(
                f"left_bits must lie in 0..{MOST_BITS}, of static left rows, or be None; found {self.left_bits}"
            )

    @property
    def entries(self) -> int:
        """Of the sum."""
        return self.height * self.width

    @property
    def sides(self) -> tuple[int, int]:
        """Numbers of one device: left, right."""
        return self.terms * self.height, self.terms * self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """The products of one step, which is the same in all steps: of a device's numbers the static ones come first.

    Attributes:
        products: one or more.
    """

    products: tuple[Product, ...]

    def __post_init__(self) -> None:
        if not self.products:
            raise InputError("products must be one or more; found none")

    @property
    def static(self) -> int:
        """Numbers of a device that are shared once."""
        return sum(product.sides[0] for product in self.products if product.static)

    @property
    def fresh(self) -> int:
        """Numbers of a device that are shared in every step."""
        return sum(sum(product.sides) for product in self.products) - self.static

    @property
    def entries(self) -> int:
        """Of all sums of one group; those of products whose left rows are static come first."""
        return sum(product.entries for product in self.products)

    @property
    def static_entries(self) -> int:
        """Of products whose left rows are static."""
        return sum(product.entries for product in self.products if product.static)

    @property
    def terms(self) -> int:
        """Most products of one device in one entry."""
        return max(product.terms for product in self.products)

    def rows(self, lefts: Sequence[Integers | None], rights: Sequence[Integers], *, static: bool) -> Integers:
        """What devices share: integers [n, static + fresh], or [n, fresh]; int32 where all of them are.

        Args:
            lefts: for each product integers [terms, n, height]; None for a static one that is not shared again.
            rights: for each product integers [terms, n, width].
            static: whether with what is shared once.
        """
        ordered = [each for each in self.in_order(lefts, rights, static=static) if each is not None]
        return np.concatenate([np.swapaxes(each, 0, 1).reshape(each.shape[1], -1) for each in ordered], axis=1)

    def in_order(self, lefts: Sequence[Any], rights: Sequence[Any], *, static: bool) -> list[Any]:
        """What belongs to left and right factors, product by product, as factors follow each other in a device's row.

        Args:
            lefts: one for each product; those of static ones come first, or not at all.
            rights: likewise.
            static: whether with what is shared once.
        """
        sides = list(zip(self.products, lefts, rights, strict=True))
        first = [left for product, left, _ in sides if product.static and static]
        return first + [
            side for product, left, right in sides for side in ([right] if product.static else [left, right])
        ]

    def factors(self, static: Remainders | None, fresh: Remainders) -> Iterator[tuple[slice, Remainders, Remainders]]:
        """Where the sum of each product goes, and its matrices [*batch, k * terms, height or width], where they lie.

        Args:
            static: remainders [*batch, k, static], what was shared once by the devices that count; None leaves out
                products with them, and their entries.
            fresh: the same of what was shared in this step, [*batch, k, fresh].
        """
        at = {True: 0, False: 0}

        def next_of(product: Product, columns: int, *, kept: bool) -> Remainders | None:
            start, held = at[kept], static if kept else fresh
            at[kept] = start + columns
            if held is None:
                return None
            cut = held[..., start : start + columns]
            if product.terms == 1:
                return cut
            *batch, rows, _ = cut.shape
            return cut.reshape(*batch, rows * product.terms, columns // product.terms)

        skipped = self.static_entries if static is None else 0
        for product, place in zip(self.products, self._places, strict=True):
            lefts, rights = product.sides
            left, right = next_of(product, lefts, kept=product.static), next_of(product, rights, kept=False)
            if left is not None and right is not None:
                yield slice(place.start - skipped, place.stop - skipped), left, right

    @property
    def _places(self) -> list[slice]:
        """Of each product's entries among all."""
        at, out = {True: 0, False: self.static_entries}, []
        for product in self.products:
            start = at[product.static]
            at[product.static] = start + product.entries
            out.append(slice(start, start + product.entries))
        return out

    def split(self, sums: NDArray[Any]) -> list[NDArray[Any]]:
        """The sums [..., entries] of each product: [..., height, width]."""
        return [
            sums[..., place].reshape(*sums.shape[:-1], each.height, each.width)
            for place, each in zip(self._places, self.products, strict=True)
        ]
