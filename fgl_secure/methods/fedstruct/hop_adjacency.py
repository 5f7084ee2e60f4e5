"""FedStruct's powers of the adjacency, of which each client computes and holds a part (ICLR 2025, App. D, Algorithm 3).

`Search` finds the value that the n p largest entries of all clients have in common, from sums of histograms alone.
Clients exchange their parts as `fgl_secure.methods.fedstruct.row_exchange` describes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.typing import Ids

UNIT_BITS = 36
"""Entries of a power lie in 0..1 and are compared in units of 2^-36."""

DIGIT_BITS = 12
"""Each histogram settles so many bits of the threshold."""

DIGITS = UNIT_BITS // DIGIT_BITS
BINS = 2**DIGIT_BITS

MOST_ENTRIES = 2**31
"""Entries that a client may have in one bin."""


class Pruning(StrEnum):
    """Which entries of a power are kept."""

    NONE = "none"
    SHARES = "shares"
    """As the paper: client k sends the ceil(p / K) n_i largest entries of each B_ijk (App. D.1)."""
    MATRIX = "matrix"
    """As the public code: the n p largest entries of the whole matrix are kept after every multiplication."""


@dataclass(frozen=True, slots=True)
class HopSettings:
    """What is exchanged.

    Attributes:
        hops: the highest power L_s, at least 1.
        pruning: which entries are kept.
        kept: entries for each node p, at least 1.
        betas: weights of the powers 0 to L_s in the sum that clients train with; None takes the last power alone.
    """

    hops: int
    pruning: Pruning = Pruning.NONE
    kept: int = 30
    betas: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise InputError(f"hops must be at least 1; found {self.hops}")
        if self.kept < 1:
            raise InputError(f"kept must be at least 1 entry a node; found {self.kept}")
        check_betas(self.betas, self.hops)

    def most_a_row(self, clients: int) -> int | None:
        """Most entries, on average, of a row of the sum of the other clients' terms; None where nothing bounds them."""
        if self.pruning is not Pruning.SHARES:
            return None
        return (clients - 1) * clients * -(-self.kept // clients)


def check_betas(betas: tuple[float, ...] | None, hops: int) -> None:
    """Raises unless there is a finite weight for each of the powers 0 to `hops`, and not 0 for all beyond power 0."""
    if betas is None:
        return
    if len(betas) != hops + 1:
        raise InputError(f"betas must be {hops + 1}, for the powers 0 to {hops}; found {len(betas)}")
    if not np.isfinite(betas).all() or not np.any(betas[1:]):
        raise InputError(f"betas must be finite and not 0 for all beyond power 0; found {betas}")


def term(
    edges: sparse.csr_array, power: sparse.csr_array, client_of: Ids | None = None, most_a_client: int | None = None
) -> sparse.csr_array:
    """What client k computes for client i: B_ik, pruned (Eq. 35).

    Args:
        edges: A~_k^[i], CSR [n_i, n_k], from i's nodes to k's.
        power: k's rows of the power before, CSR [n_k, n].
        client_of: int64 [n], whose node each column is; where entries of each B_ijk are counted.
        most_a_client: entries kept of each B_ijk; None keeps all.

    Returns:
        float64 CSR [n_i, n].
    """
    whole = sparse.csr_array(edges @ power)
    if client_of is None or most_a_client is None:
        return whole
    entries = whole.tocoo()
    order = np.lexsort((entries.col, entries.row, -entries.data, client_of[entries.col]))
    owner = client_of[entries.col][order]
    rank = np.arange(len(order)) - np.searchsorted(owner, owner)
    chosen = order[rank < most_a_client]
    return sparse.csr_array((entries.data[chosen], (entries.row[chosen], entries.col[chosen])), shape=whole.shape)


def next_rows(own: sparse.csr_array, others: sparse.csr_array, degrees: NDArray[np.float64]) -> sparse.csr_array:
    """What client i makes of its own term and the sum of the others: its rows of the next power (Eq. 36)."""
    return sparse.csr_array(sparse.diags_array(1 / degrees) @ (own + others))


def in_units(values: NDArray[np.float64]) -> Ids:
    """Entries of a power in units of 2^-36, below 2^36."""
    units: Ids = np.minimum(np.rint(values * 2.0**UNIT_BITS).astype(np.int64), 2**UNIT_BITS - 1)
    return units


@dataclass(frozen=True, slots=True)
class Search:
    """What is known of the threshold above which entries are kept.

    Attributes:
        digit: how many digits are settled.
        prefix: those digits.
        above: entries of all clients that are certainly kept.
        least: the least value that is kept, in units; None until it is known.
    """

    digit: int = 0
    prefix: int = 0
    above: int = 0
    least: int | None = None

    def histogram(self, units: Ids) -> Ids:
        """A client's part: how many of its entries fall into each bin of the next digit, int64 [BINS]."""
        bins = units >> (UNIT_BITS - DIGIT_BITS * (self.digit + 1))
        inside = bins >> DIGIT_BITS == self.prefix
        return np.bincount((bins - (self.prefix << DIGIT_BITS))[inside], minlength=BINS).astype(np.int64)

    def after(self, total: Ids, count: int) -> Search:
        """The part of whoever gets the sum of all histograms: one digit further.

        Args:
            total: int64 [BINS].
            count: most entries that are kept.
        """
        from_here = self.above + np.cumsum(total[::-1])[::-1]  # entries at or above each bin
        fitting = from_here <= count
        if fitting[0]:
            return replace(self, least=self.prefix << (UNIT_BITS - DIGIT_BITS * self.digit))
        first = int(np.argmax(fitting)) if fitting.any() else len(total)
        # The bin below `first` holds more than there is room for: the threshold lies in it, or at its end.
        above = int(from_here[first]) if fitting.any() else self.above
        prefix, digit = (self.prefix << DIGIT_BITS) + first - 1, self.digit + 1
        return Search(digit, prefix, above, prefix + 1 if digit == DIGITS else None)
