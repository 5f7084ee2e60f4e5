"""What the parties of coded products compute, as pure functions, and how real numbers go in and come out.

Lagrange coded computing (Yu et al. 2019, AISTATS, section 3) of a function of degree 2: every device's two rows are on
polynomials of degree T with the rows at 0, and relay j has their values at j + 1. A product of two such values is on a
polynomial of degree 2 T, and so is the sum of all devices' products; 2 T + 1 relays determine it, two more for each one
that lies. The polynomial of a sum of products is not uniform as that of a sum of rows is: what a silo hears would tell
it more than the value at 0, unless relays add a common polynomial of degree 2 T that is uniform but for a root at 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, Quantizer, lagrange_matrix
from fgl_secure.algebra.exact_products import ROWS, exact_product
from fgl_secure.algebra.interpolation import vanishing_matrix
from fgl_secure.algebra.quantization import units_of
from fgl_secure.algebra.residues import (
    BELOW_2_8,
    Remainders,
    Residues,
    Words,
    from_combined,
    masked,
    shared,
)
from fgl_secure.algebra.shares import Word
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, TooManyErrors

Integers = NDArray[np.int64]
Sums = NDArray[np.signedinteger[Any]]

LEAST_BITS = 10
"""Fewest bits behind the binary point of either factor; another prime is taken before there are fewer."""
MOST_BITS = 20
EXACT = 2**52
"""Largest magnitude of a sum: float64 holds it exactly, and its sums on the way."""
ROOMS = (63, 7_175, 782_129, 83_687_856, 8_619_849_219, 870_604_771_169, 84_448_662_803_441)
"""Largest magnitudes among which sums take the least that will do, about seven bits apart.

They are halves of the products of the primes that sums were worked out with before; so runs of then repeat to the bit.
"""
LARGEST_BOUND = 2.0**64
"""No field holds products of anything as large."""

MOST_STREAMS = 512
"""Common streams of relays, T for each set of R - T of them; their number grows fast with T."""


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
            left, right = (next_of(product, n, kept=kept)
                           for n, kept in zip(product.sides, (product.static, False), strict=True))  # fmt: skip
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

    left: Quantizer
    right: Quantizer
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


def _quantizer(bound: float, bits: int, what: str) -> Quantizer:
    return Quantizer(bound, bits, what, "scale them, or give a larger bound")


def device_shares(
    fields: Sequence[PrimeField], j: int, rows: NDArray[np.signedinteger[Any]], masks: Sequence[Words]
) -> Residues:
    """A device's role: relay j's values of the polynomials through its rows at 0 and its masks at 1 .. T.

    Args:
        fields: of shares.
        j: number of the relay, from 0; those below T hold masks.
        rows: integers [n, d].
        masks: T arrays of words [*batch, n, d], see `words_below`: uniform, secret and never used before.

    Returns:
        Remainders [*batch, n, d] by field.
    """
    nodes = tuple(range(len(masks) + 1))
    if j < len(masks):
        return shared(fields, np.tile([int(node == j + 1) for node in nodes], (len(fields), 1)), rows, masks)
    return shared(fields, np.array([lagrange_matrix(f, nodes, (j + 1,))[0] for f in fields]), rows, masks)


def relay_products(layout: Layout, static: Residues, fresh: Residues) -> list[Sums]:
    """A relay's role: for each product the sum over its rows of shares, multiplied.

    Args:
        layout: the products.
        static: by field, see `Layout.factors`; there may be fewer fields than of what is fresh.
        fresh: likewise.

    Returns:
        Integers [f, *batch, entries] of the first fields, not reduced: int32, or int64 where they do not fit; then,
        where static rows are in no more fields, those of the others without static entries.
    """
    *batch, rows, _ = fresh[0].shape
    kind, out = np.int32 if rows * layout.terms <= ROWS else np.int64, list[Sums]()
    common = len(static) or len(fresh)
    for held, new, lacking in (
        (static or [None] * common, fresh[:common], 0),
        ([None] * (len(fresh) - common), fresh[common:], layout.static_entries),
    ):
        block: Sums = np.empty((len(new), *batch, layout.entries - lacking), dtype=kind)
        for found, once, other in zip(block, held, new, strict=True):
            for place, left, right in layout.factors(once, other):
                shape, part = (left.shape[-1], right.shape[-1]), found[..., place]
                if batch:  # whose parts lie apart
                    part[...] = exact_product(left, right).reshape(part.shape)
                else:
                    exact_product(left, right, part.reshape(shape))
        out.append(block)
    return [block for block in out if block.size]


def zero_sets(T: int, R: int) -> tuple[tuple[int, ...], ...]:
    """The sets of relays, from 0, that share a key: all of R - T. Whichever T collude, one set has none of them."""
    if math.comb(R, T) * T > MOST_STREAMS:
        raise InputError(
            f"T times the number of sets of R - T relays must be at most {MOST_STREAMS}; found {math.comb(R, T) * T} "
            f"for T={T}, R={R}"
        )
    return tuple(combinations(range(R), R - T))


@lru_cache(maxsize=2**12)
def zero_weights(field: PrimeField, T: int, R: int, members: tuple[int, ...]) -> Integers:
    """Values of T polynomials of degree 2 T or less at each relay's point: int64 [R, T].

    They vanish at 0 and at the T relays outside the set, and span all such polynomials (Cramer, Damgard and Ishai 2005,
    TCC, section 4: pseudo-random zero sharing).
    """
    outside = [0, *(j + 1 for j in range(R) if j not in members)]
    return vanishing_matrix(field, outside, range(1, R + 1), T)


def with_zero(
    fields: Sequence[PrimeField], sums: Sequence[Sums], streams: Sequence[tuple[Integers, Words]]
) -> Residues:
    """A relay's role: its sums of products, plus its value of the common polynomials with a root at 0.

    Args:
        fields: of the sums.
        sums: see `relay_products`.
        streams: the weights that are this relay's, int64 [f], each with words [*batch, entries].

    Returns:
        Remainders of the sums' shapes, by field.
    """
    weights = np.array([weight for weight, _ in streams], dtype=np.int64).reshape(-1, len(fields)).T
    out, first = list[Remainders](), 0
    for block in sums:
        here = slice(first, first + len(block))
        words = [each[..., each.shape[-1] - block.shape[-1] :] for _, each in streams]
        out += masked(fields[here], block, weights[here], words)
        first += len(block)
    return tuple(out)


def silo_decode(
    fields: Sequence[PrimeField], T: int, points: Sequence[int], answers: Sequence[Residues], coins: Coins
) -> tuple[Integers, tuple[int, ...]]:
    """A silo's role: the integers at 0 of the polynomials through the relays' answers, correcting wrong ones.

    With m relays up to (m - 2 T - 1) // 2 wrong ones are corrected and named. More of them are noticed unless their
    errors lie on one such polynomial with other answers, as they can make them if they work together.

    Args:
        fields: of the answers.
        T: half the degree of the polynomials.
        points: of the m relays that answered.
        answers: of each of them, by field, remainders [..., entries]; those in the last fields may lack the first
            entries, of which the first fields are enough.
        coins: for the random combination in which errors are located; they never change the answer.

    Returns:
        int64 [..., entries], and the positions of the relays whose answers are wrong.

    Raises:
        TooManyErrors: the answers lie on no such polynomials and the wrong ones cannot be told.
    """
    if len(points) == 2 * T + 1:  # nothing that could be checked: decoded in one pass
        matrices = [lagrange_matrix(field, points, (0,))[0] for field in fields]
        by_field = [np.array(each) for each in zip(*answers, strict=True)]
        return _joined(fields, np.array(matrices, dtype=np.int64), by_field), ()
    found: list[Sums] = []
    wrong: set[int] = set()
    for place, field in enumerate(fields):
        rows = np.stack([answer[place].reshape(-1) for answer in answers]).astype(field.dtype) % field.modulus
        word = Word(field, tuple(points), rows, 2 * T + 1, (len(points) - 2 * T - 1) // 2)
        values, liars = word.decode((0,), coins)
        found.append(np.asarray(values).reshape(1, *answers[0][place].shape))
        wrong |= set(liars)
    most = (len(points) - 2 * T - 1) // 2
    if len(wrong) > most:  # other ones in other fields
        raise TooManyErrors(f"at most {most} answers may be wrong; found {len(wrong)}")
    return _joined(fields, np.ones((len(fields), 1), dtype=np.int64), found), tuple(sorted(wrong))


def _joined(fields: Sequence[PrimeField], weights: Integers, values: Sequence[Sums]) -> Integers:
    """The integers whose remainders are combinations [f, m] of values, by field [m, ..., entries] or fewer entries."""
    entries, lacking = values[0].shape[-1], values[0].shape[-1] - values[-1].shape[-1]
    out, common = [], sum(each.shape[-1] == entries for each in values)
    for count, first, last in ((common, 0, lacking), (len(fields), lacking, entries)):
        if first < last:
            cut = np.array([each[..., first - entries : last - entries or None] for each in values[:count]])
            flat = cut.reshape(*cut.shape[:2], -1)
            out.append(from_combined(fields[:count], weights[:count], flat).reshape(*values[0].shape[1:-1], -1))
    return out[0] if len(out) == 1 else np.concatenate(out, axis=-1)
