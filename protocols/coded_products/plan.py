"""What all parties of coded products know: what is multiplied, whose products go where, and how messages look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import BYTE, Remainders, Residues
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.protocols.relay_coded.wire import AUTHENTICATION_BYTES, Wire
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Messages
from fgl_secure.typing import Array, Ids, Integers

MOST_BITS = 20
"""Behind the binary point of either factor."""


@dataclass(frozen=True, slots=True)
class OuterProduct:
    """The shape of one sum of products: over all devices and terms the outer product of a left row and a right one.

    Attributes:
        terms: pairs of rows that every device has.
        height: entries of a left row.
        width: entries of a right row.
        static: whether left rows are the same in all steps, so that they are shared once.
        left_bits: behind the binary point of an entry of a static left row, as all parties know: 0 where they are
            integers; None where no party does. Sums then are smaller, and fewer primes hold them.
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
class ProductLayout:
    """The products of one step, which is the same in all steps: of a device's numbers the static ones come first.

    Attributes:
        products: one or more.
    """

    products: tuple[OuterProduct, ...]

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
        ordered = [item for item in self.in_order(lefts, rights, static=static) if item is not None]
        return np.concatenate([np.swapaxes(item, 0, 1).reshape(item.shape[1], -1) for item in ordered], axis=1)

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
        index = {True: 0, False: 0}

        def next_of(product: OuterProduct, columns: int, *, kept: bool) -> Remainders | None:
            start, held = index[kept], static if kept else fresh
            index[kept] = start + columns
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
        index, out = {True: 0, False: self.static_entries}, []
        for product in self.products:
            start = index[product.static]
            index[product.static] = start + product.entries
            out.append(slice(start, start + product.entries))
        return out

    def split(self, sums: NDArray[Any]) -> list[NDArray[Any]]:
        """The sums [..., entries] of each product: [..., height, width]."""
        return [
            sums[..., place].reshape(*sums.shape[:-1], product.height, product.width)
            for place, product in zip(self._places, self.products, strict=True)
        ]


WIDTH, HELD, COUNT, AGREED, SET, KEY = "width", "held", "count", "agreed", "set", "key"
COUNT_BYTES = 4 + AUTHENTICATION_BYTES
DIGEST_WORDS = 2
LARGEST_BATCH = 2**24
"""Most numbers of shares in a field that are laid out at once: devices of wide rows speak some after the others."""


@dataclass(frozen=True, slots=True, eq=False)
class ProductPlan:
    """What all parties know.

    Attributes:
        fields: of shares.
        static_fields: how many of them, the first, hold what is shared once, and what it is multiplied to.
        T: most relays that may pool their views.
        R: relays.
        k_min: least devices of a sum that is computed.
        layout: what is multiplied.
        grouping: whose products go into which sum.
        relays: int64 [R], party identifiers.
    """

    fields: tuple[PrimeField, ...]
    static_fields: int
    T: int
    R: int
    k_min: int
    layout: ProductLayout
    grouping: Grouping
    relays: Ids
    _by_group: tuple[Ids, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        g = self.grouping
        result = tuple(np.sort(g.source[g.target == group]) for group in range(len(g.group_owner)))
        object.__setattr__(self, "_by_group", result)

    def members(self, group: int) -> Ids:
        """The rows that go into one sum, ascending."""
        return self._by_group[group]

    @property
    def sizes(self) -> Ids:
        """How many rows are meant to go into each sum: int64 [g]."""
        return np.array([len(rows) for rows in self._by_group], dtype=np.int64)

    @property
    def silo_by_silo(self) -> Ids:
        """Where each row is, int64 [n], if those of a sum lie one behind the other, sum after sum, and others last."""
        n = len(self.grouping.row_owner)
        ordered = np.concatenate([*self._by_group, np.setdiff1d(np.arange(n), self.grouping.source)]).astype(np.int64)
        places = np.empty(n, dtype=np.int64)
        places[ordered] = np.arange(n)
        return places

    @property
    def required_relays(self) -> int:
        """Relays whose answers determine a sum."""
        return 2 * self.T + 1

    @property
    def _field_list(self) -> list[tuple[int, int, bool]]:
        """The number of each field, its prime, and whether it holds what is static."""
        return [(place, item.modulus, place < self.static_fields) for place, item in enumerate(self.fields)]

    @staticmethod
    def put(name: str, shares: Residues) -> dict[str, Array]:
        """Shares [*tapes, m, d] as fields of messages, one for each prime."""
        return {f"{name} {place}": share for place, share in enumerate(shares)}

    def read(self, wire: Wire, messages: Messages, name: str, width: int, static: int) -> Residues:
        """The shares in the fields of messages: by prime remainders [*tapes, m, width], or [*tapes, m, width - static].

        Args:
            wire: how messages look.
            messages: with shares.
            name: of the fields.
            width: numbers of a message.
            static: how many of them, the first, go in the first fields alone.

        Raises:
            MalformedMessageError: one is missing, holds something else, or is not as wide.
        """
        out = []
        for place, prime, is_first in self._field_list:
            result = _remainders(messages, f"{name} {place}", wire.axes + 2, prime)
            due = width if is_first else width - static
            if result.shape[-1] != due:
                raise MalformedMessageError(
                    f"{messages.phase.label} must have {due:,} numbers in field {place}; found {result.shape[-1]:,}"
                )
            out.append(result)
        return tuple(out)

    def size(self, width: int, static: int) -> int:
        """Bytes of a message with so many numbers, of which the first go in the first fields alone."""
        return sum(width if is_first else width - static for _, _, is_first in self._field_list) + AUTHENTICATION_BYTES


def _remainders(messages: Messages, name: str, axes: int, modulus: int) -> Array:
    """A field of messages with remainders of least magnitude."""
    value = messages[name]
    if value.dtype != BYTE or value.ndim != axes:
        raise MalformedMessageError(
            f"field {name} of {messages.phase.label} must hold rows of {BYTE}; found {value.dtype}"
        )
    if value.size and not -modulus < 2 * int(value.min()) <= 2 * int(value.max()) < modulus:
        raise MalformedMessageError(
            f"{messages.phase.label} must hold remainders of least magnitude; at least one is not"
        )
    return value
