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
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField, Quantizer, lagrange_matrix
from fgl_secure.algebra.exact_products import ROWS, exact_product
from fgl_secure.algebra.interpolation import vanishing_matrix
from fgl_secure.algebra.quantization import units_of
from fgl_secure.algebra.residues import BELOW_2_7, Residues, Words, from_combined, from_residues, masked, shared
from fgl_secure.algebra.shares import Word
from fgl_secure.coins import Coins
from fgl_secure.errors import FieldRangeError, InputError, TooManyErrors

Integers = NDArray[np.int64]

LEAST_BITS = 10
"""Fewest bits behind the binary point of either factor; another prime is taken before there are fewer."""
MOST_BITS = 20
EXACT = 2**52
"""Largest magnitude of a sum: float64 holds it exactly, and its sums on the way."""
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
    """

    terms: int
    height: int
    width: int
    static: bool = False

    def __post_init__(self) -> None:
        if min(self.terms, self.height, self.width) < 1:
            raise InputError(f"terms, height and width must be at least 1; found {self}")

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
        """Of all sums of one group."""
        return sum(product.entries for product in self.products)

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

    def factors(self, static: Elements, fresh: Elements) -> Iterator[tuple[Elements, Elements]]:
        """The two matrices of each product, [*batch, k * terms, height or width], cut from where they lie.

        Args:
            static: elements [*batch, k, static], what was shared once by the devices that count.
            fresh: the same of what was shared in this step, [*batch, k, fresh].
        """
        at = {True: 0, False: 0}

        def next_of(product: Product, columns: int, *, kept: bool) -> Elements:
            start = at[kept]
            at[kept] = start + columns
            cut = (static if kept else fresh)[..., start : start + columns]
            if product.terms == 1:
                return cut
            *batch, rows, _ = cut.shape
            return cut.reshape(*batch, rows * product.terms, columns // product.terms)

        for product in self.products:
            left, right = product.sides
            yield next_of(product, left, kept=product.static), next_of(product, right, kept=False)

    def split(self, sums: NDArray[Any]) -> list[NDArray[Any]]:
        """The sums [..., entries] of each product: [..., height, width]."""
        ends = np.cumsum([product.entries for product in self.products])[:-1]
        parts = np.split(sums, ends, axis=-1)
        return [
            part.reshape(*part.shape[:-1], each.height, each.width)
            for part, each in zip(parts, self.products, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ProductCode:
    """A map of real factors into integers whose sums of products are exact.

    Attributes:
        left: of left rows.
        right: of right rows.
        fields: those in which sums are worked out; their product is larger than twice any sum.
        product: largest magnitude of the product of two entries, of a left row and a right one of one device; None
            where only the bounds of both count.
    """

    left: Quantizer
    right: Quantizer
    fields: tuple[PrimeField, ...]
    product: float | None = None

    @classmethod
    def for_sums(
        cls,
        *,
        left: float,
        right: float,
        terms: int,
        product: float | None = None,
        primes: tuple[int, ...] = BELOW_2_7,
        least_bits: int = LEAST_BITS,
    ) -> ProductCode:
        """The one with the fewest primes that leaves both factors enough bits, and the most bits that they leave.

        Args:
            left: largest magnitude of an entry of a left row.
            right: of a right row.
            terms: most products in one sum.
            product: see the class.
            primes: among which to take the first ones.
            least_bits: behind the binary point of either factor.

        Raises:
            FieldRangeError: all primes together hold no such sums; the message has the figures.
            InputError: a bound is no positive number.
        """
        check_bounds(left, right, product)
        room = 0
        for count in range(1, len(primes) + 1):
            room = min((math.prod(primes[:count]) - 1) // 2, EXACT)
            fields = tuple(PrimeField(prime) for prime in primes[:count])
            for bits in range(2 * MOST_BITS, 2 * least_bits - 1, -1):  # of which right rows take the odd one
                one, other = _quantizer(left, bits // 2, "left rows"), _quantizer(right, bits - bits // 2, "right rows")
                found = cls(one, other, fields, product)
                if terms * found.largest <= room:
                    return found
        bound = f"{left:g} * {right:g}" if product is None or product > left * right else f"{product:g}"
        raise FieldRangeError(
            f"terms times the largest product * 2^{2 * least_bits} must stay within {room:,}; found {terms:,} * "
            f"{bound} * 2^{2 * least_bits}: take smaller bounds"
        )

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
        Elements [*batch, n, d] by field.
    """
    nodes = tuple(range(len(masks) + 1))
    if j < len(masks):
        return shared(fields, np.tile([int(node == j + 1) for node in nodes], (len(fields), 1)), rows, masks)
    return shared(fields, np.array([lagrange_matrix(f, nodes, (j + 1,))[0] for f in fields]), rows, masks)


def relay_products(layout: Layout, static: Residues, fresh: Residues) -> Integers | NDArray[np.int32]:
    """A relay's role: for each product the sum over its rows of shares, multiplied.

    Args:
        layout: the products.
        static: by field, see `Layout.factors`.
        fresh: likewise.

    Returns:
        Integers [f, *batch, entries], not reduced: int32, or int64 where they do not fit.
    """
    *batch, rows, _ = fresh[0].shape
    kind = np.int32 if rows * layout.terms <= ROWS else np.int64
    out = np.empty((len(fresh), *batch, layout.entries), dtype=kind)
    for found, *sides in zip(out, static, fresh, strict=True):
        start = 0
        for left, right in layout.factors(*sides):
            shape = (left.shape[-1], right.shape[-1])
            stop = start + math.prod(shape)
            part = found[..., start:stop]
            if batch:  # whose parts lie apart
                part[...] = exact_product(left, right).reshape(part.shape)
            else:
                exact_product(left, right, part.reshape(shape))
            start = stop
    return out


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
    fields: Sequence[PrimeField], sums: NDArray[np.signedinteger[Any]], streams: Sequence[tuple[Integers, Words]]
) -> Residues:
    """A relay's role: its sums of products, plus its value of the common polynomials with a root at 0.

    Args:
        fields: of the sums.
        sums: integers [f, *batch, entries], see `relay_products`.
        streams: the weights that are this relay's, int64 [f], each with words [*batch, entries].

    Returns:
        Elements [*batch, entries] by field.
    """
    weights = np.array([weight for weight, _ in streams], dtype=np.int64).reshape(-1, len(fields)).T
    return masked(fields, sums, weights, [words for _, words in streams])


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
        answers: of each of them, by field, elements of one shape.
        coins: for the random combination in which errors are located; they never change the answer.

    Returns:
        int64 of that shape, and the positions of the relays whose answers are wrong.

    Raises:
        TooManyErrors: the answers lie on no such polynomials and the wrong ones cannot be told.
    """
    if len(points) == 2 * T + 1:  # nothing that could be checked: decoded in one pass
        return _joined(fields, points, answers), ()
    found: list[Elements] = []
    wrong: set[int] = set()
    for place, field in enumerate(fields):
        rows = np.stack([answer[place].reshape(-1) for answer in answers])
        word = Word(field, tuple(points), rows, 2 * T + 1, (len(points) - 2 * T - 1) // 2)
        values, liars = word.decode((0,), coins)
        found.append(np.asarray(values).reshape(answers[0][place].shape))
        wrong |= set(liars)
    most = (len(points) - 2 * T - 1) // 2
    if len(wrong) > most:  # other ones in other fields
        raise TooManyErrors(f"at most {most} answers may be wrong; found {len(wrong)}")
    return from_residues(fields, found), tuple(sorted(wrong))


def _joined(fields: Sequence[PrimeField], points: Sequence[int], answers: Sequence[Residues]) -> Integers:
    """The integers at 0 of the polynomials through all answers."""
    matrices = [lagrange_matrix(field, points, (0,))[0] for field in fields]
    values = [[np.asarray(answer[place]).reshape(-1) for answer in answers] for place in range(len(fields))]
    return from_combined(fields, np.array(matrices, dtype=np.int64), np.array(values)).reshape(answers[0][0].shape)
