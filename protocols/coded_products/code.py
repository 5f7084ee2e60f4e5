"""What the parties of coded products compute, as pure functions.

Lagrange coded computing (Yu et al. 2019, AISTATS, section 3) of a function of degree 2: every device's two rows are on
polynomials of degree T with the rows at 0, and relay j has their values at j + 1. A product of two such values is on a
polynomial of degree 2 T, and so is the sum of all devices' products; 2 T + 1 relays determine it, two more for each one
that lies. The polynomial of a sum of products is not uniform as that of a sum of rows is: what a silo hears would tell
it more than the value at 0, unless relays add a common polynomial of degree 2 T that is uniform except for a root at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.algebra.interpolation import Word, vanishing_matrix
from fgl_secure.algebra.residues import ROWS, Remainders, Residues, Words, exact_product, from_combined, mask
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, TooManyErrors
from fgl_secure.protocols.coded_products.plan import ProductLayout
from fgl_secure.typing import Integers

Sums = NDArray[np.signedinteger[Any]]

MOST_STREAMS = 512
"""Common streams of relays, T for each set of R - T of them; their number grows fast with T."""


def relay_products(layout: ProductLayout, static: Residues, fresh: Residues) -> list[Sums]:
    """A relay's role: for each product the sum over its rows of shares, multiplied.

    Args:
        layout: the products.
        static: by field, see `ProductLayout.factors`; there may be fewer fields than of what is fresh.
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
        for result, once, other in zip(block, held, new, strict=True):
            for place, left, right in layout.factors(once, other):
                part = result[..., place]
                part[...] = exact_product(left, right).reshape(part.shape)
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
        span = slice(first, first + len(block))
        words = [item[..., item.shape[-1] - block.shape[-1] :] for _, item in streams]
        out += mask(fields[span], block, weights[span], words)
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
        by_field = [np.array(item) for item in zip(*answers, strict=True)]
        return _join_residues(fields, np.array(matrices, dtype=np.int64), by_field), ()
    result: list[Sums] = []
    errors: set[int] = set()
    for place, field in enumerate(fields):
        rows = np.stack([answer[place].reshape(-1) for answer in answers]).astype(field.dtype) % field.modulus
        word = Word(field, tuple(points), rows, 2 * T + 1, (len(points) - 2 * T - 1) // 2)
        values, liars = word.decode((0,), coins)
        result.append(np.asarray(values).reshape(1, *answers[0][place].shape))
        errors |= set(liars)
    most = (len(points) - 2 * T - 1) // 2
    if len(errors) > most:  # other ones in other fields
        raise TooManyErrors(f"at most {most} answers may be wrong; found {len(errors)}")
    return _join_residues(fields, np.ones((len(fields), 1), dtype=np.int64), result), tuple(sorted(errors))


def _join_residues(fields: Sequence[PrimeField], weights: Integers, values: Sequence[Sums]) -> Integers:
    """The integers whose remainders are combinations [f, m] of values, by field [m, ..., entries] or fewer entries."""
    (entries, rest), shape = (values[place].shape[-1] for place in (0, -1)), values[0].shape[1:-1]
    full = sum(item.shape[-1] == entries for item in values)

    def combine_counts(parts: Sequence[Sums]) -> Integers:
        stacked, count = np.array(parts), len(parts)
        flat = stacked.reshape(*stacked.shape[:2], -1)
        return from_combined(fields[:count], weights[:count], flat).reshape(*shape, -1)

    in_all = combine_counts([item[..., item.shape[-1] - rest :] for item in values])
    if rest == entries:
        return in_all
    return np.concatenate([combine_counts([item[..., : entries - rest] for item in values[:full]]), in_all], axis=-1)
