"""Terms of FedStruct's exchange (App. D) as vectors of integers: what sender and receiver compute, whoever adds up.

Entries in fixed point go into a linear sketch whose size the receiver asks for, or into a dense vector where that is
smaller; the receiver reads the sum of all terms from the sum of the vectors, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fgl_secure.algebra.linear_sketch import LinearSketch
from fgl_secure.algebra.quantization import Integers, most_fraction_bits, rounded
from fgl_secure.errors import InputError

MOST_FRACTION_BITS = 24
FEWEST_FRACTION_BITS = 16
"""Bits for which positions are not split yet, where the number of bits is not given."""

FIRST_ENTRIES, FIRST_GROWTH = 50, 5
"""Entries a row that a receiver expects of its first sum, and by how much it expects the second to be larger."""

LEAST_GROWTH, DAMPING = 1.15, 0.75
"""A receiver asks for at least so much more than it had last time; and rows fill up, so that growth slows down."""


@dataclass(frozen=True, slots=True)
class TermRange:
    """How large sums may become and still be exact.

    Attributes:
        limit: largest magnitude of an entry of a sum of vectors.
        terms: vectors in a sum.
        largest_degree: a public bound on the row sums of A + I, and so on the entries of the sum of terms.
    """

    limit: int
    terms: int
    largest_degree: int

    def splits(self, shape: tuple[int, int], asked: int | None) -> bool:
        """Whether positions are sent in two parts: where one number would leave too few bits for the values."""
        whole = 2 * self.terms * self.largest_degree * shape[0] * shape[1]
        return bool(self.limit // whole < 2 ** (asked or FEWEST_FRACTION_BITS))

    def bits(self, shape: tuple[int, int], asked: int | None, scheme: str) -> int:
        """Bits behind the binary point for terms of a shape: those asked for, or as many as fit.

        Raises:
            InputError: not one bit fits, or fewer than were asked for.
        """
        widest = LinearSketch(shape, 1, 0, self.splits(shape, asked)).largest_factor()
        room = self.limit // (2 * self.terms * self.largest_degree * widest)
        most = min(most_fraction_bits(1.0, room), MOST_FRACTION_BITS)
        if most < (asked or 1):
            raise InputError(
                f"fraction_bits must be at most {most} for terms of shape {list(shape)} under {scheme}; "
                f"found {asked or 1}"
            )
        return asked or most


def room_for(before: tuple[int, int] | None, rows: int, most_a_row: int | None) -> int:
    """Entries that a receiver asks room for: as many as the last growth leads to, with a quarter to spare.

    Args:
        before: entries of its last two sums; None before the first.
        rows: of its own.
        most_a_row: a public bound on the entries of a row of the sum; None for none.
    """
    if before is None:
        return FIRST_ENTRIES * rows
    growth = max(LEAST_GROWTH, 1.1 * (before[1] / max(before[0], 1)) ** DAMPING)
    room = max(int(before[1] * growth), 16)
    return room if most_a_row is None else min(room, most_a_row * rows)


def after_sum(before: tuple[int, int] | None, entries: int) -> tuple[int, int]:
    """The entries of the last two sums after another one of so many."""
    return (entries // FIRST_GROWTH if before is None else before[1], entries)


def in_fixed_point(term: sparse.csr_array, bits: int) -> sparse.coo_array:
    """Entries as whole units of 2^-bits; those that round to nothing are left out."""
    units = term.tocoo()
    values = rounded(units.data, bits)
    kept = values > 0
    return sparse.coo_array((values[kept], (units.row[kept], units.col[kept])), shape=term.shape)


def packed_term(term: sparse.coo_array, plan: LinearSketch | None) -> Integers:
    """A sender's vector, int64; without a plan all entries one after the other."""
    if plan is None:
        return np.asarray(term.toarray(), dtype=np.int64).reshape(-1)
    return plan.encode(term.row.astype(np.int64), term.col.astype(np.int64), term.data)


def unpacked_sum(total: Integers, shape: tuple[int, int], plan: LinearSketch | None) -> sparse.csr_array:
    """What a receiver reads from the sum of vectors, in units.

    Raises:
        SketchOverfullError: it has more entries than the plan has room for.
    """
    if plan is None:
        return sparse.csr_array(total.reshape(shape))
    rows, columns, values = plan.decode(total)
    return sparse.csr_array((values, (rows, columns)), shape=shape)
