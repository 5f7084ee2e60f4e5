"""How the clients of a run of FedStruct exchange structure, and under which schemes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.preset import FedStructPreset, check_betas
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, NEIGHBOURS, SERVER
from fgl_secure.typing import Floats, Ids

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
    product = sparse.csr_array(edges @ power)
    if client_of is None or most_a_client is None:
        return product
    entries = product.tocoo()
    order = np.lexsort((entries.col, entries.row, -entries.data, client_of[entries.col]))
    owner = client_of[entries.col][order]
    rank = np.arange(len(order)) - np.searchsorted(owner, owner)
    entries_kept = order[rank < most_a_client]
    return sparse.csr_array(
        (entries.data[entries_kept], (entries.row[entries_kept], entries.col[entries_kept])), shape=product.shape
    )


def next_rows(own_terms: sparse.csr_array, others: sparse.csr_array, degrees: NDArray[np.float64]) -> sparse.csr_array:
    """What client i makes of its own term and the sum of the others: its rows of the next power (Eq. 36)."""
    return sparse.csr_array(sparse.diags_array(1 / degrees) @ (own_terms + others))


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
        """The part of a party that gets the sum of all histograms: one digit further.

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


TOLERANCE = 1e-9
"""Length of what a query adds to the basis, relative to the query, below which it adds nothing; and how far leverages
computed in floating point may be off."""


@dataclass(frozen=True, slots=True)
class AuditRule:
    """When a query is refused.

    Attributes:
        most_leverage: tau in (0, 1]: the largest leverage |V^T e_u|^2 that any node may reach, V being an orthonormal
            basis of the answered queries; at 1 a node is known exactly.
        least_nodes: k_min, at least 1: the fewest nodes that a query may weigh.
    """

    most_leverage: float = 0.9
    least_nodes: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.most_leverage <= 1:
            raise InputError(f"most_leverage must lie in (0, 1]; found {self.most_leverage}")
        if self.least_nodes < 1:
            raise InputError(f"least_nodes must be at least 1; found {self.least_nodes}")


class QueryAudit:
    """What one requester, or a coalition that is assumed to pool its answers, has been told about one client's nodes.

    Args:
        nodes: how many nodes the client has, m.
        rule: when a query is refused.
    """

    def __init__(self, nodes: int, rule: AuditRule) -> None:
        self._rule = rule
        self._basis = np.zeros((min(nodes, 16), nodes))  # its first `rank` rows are in use
        self._rank = 0
        self._leverage = np.zeros(nodes)

    @property
    def leverage(self) -> Floats:
        """float64 [m]: how near each node is to being known; 1 where it is. No guarantee of differential privacy."""
        return self._leverage.copy()

    def admits(self, query: Floats) -> bool:
        """Decides on a query and remembers it where it is answered.

        Args:
            query: float64 [m], the weight of each node; a query of zeros only is answered.

        Raises:
            InputError: the query has another shape or is not finite.
        """
        if query.shape != self._leverage.shape or not np.isfinite(query).all():
            raise InputError(f"query must be {len(self._leverage)} finite weights; found shape {list(query.shape)}")
        weighed = int(np.count_nonzero(query))
        if not weighed:
            return True
        if weighed < self._rule.least_nodes:
            return False
        # What a query adds to the basis, orthonormal to it; None where it adds nothing.
        basis = self._basis[: self._rank]
        rest = query - basis.T @ (basis @ query)
        rest -= basis.T @ (basis @ rest)  # once more: the first pass leaves rounding errors behind
        length = float(np.linalg.norm(rest))
        addition = None if length <= TOLERANCE * float(np.linalg.norm(query)) else rest / length
        if addition is None:
            return True
        leverage = self._leverage + addition**2
        if leverage.max() > self._rule.most_leverage + TOLERANCE:  # of a basis in floating point
            return False
        if self._rank == len(self._basis):
            self._basis = np.vstack([self._basis, np.zeros_like(self._basis)])
        self._basis[self._rank] = addition
        self._leverage, self._rank = leverage, self._rank + 1
        return True


def published_limit(rows: int, width: int, classes: int, nodes: int) -> bool:
    """Whether App. G.1 lets a client answer so many queries of Eq. 47: their number may not exceed m d_s / c.

    Args:
        rows: queries.
        width: d_s, columns of a structure feature; c for Eq. 49, whose limit is then m.
        classes: c.
        nodes: m, how many nodes the queries weigh.
    """
    return rows * classes <= nodes * width


class FeatureSharing(StrEnum):
    """Who holds structure features."""

    SHARED = "shared"
    """Every client holds those of all nodes (Algorithms 1 and 2)."""
    QUERIES = "queries"
    """Owners alone; they answer weighted queries (App. G.1)."""


class GradientDelivery(StrEnum):
    """To whom clients send gradients of learnt structure features."""

    SERVER = "server"
    """To the server, which sends sums on (Algorithm 2)."""
    OWNER = "owner"
    """To the owner of each node."""


@dataclass(frozen=True, slots=True)
class RowExchange:
    """Clients come to hold rows of the combined adjacency (App. D).

    Attributes:
        terms: adds up what is for one client: terms of a hop, and gradients for owners; None shows each to its
            receiver, as published.
        gradients: adds up what is for the server; None shows each to it, as published.
        pruning: which entries of powers are kept; how many is the preset's `kept`.
        sharing: who holds structure features.
        delivery: to whom gradients of learnt structure features go.
        rule: when a query is refused, under QUERIES; None counts queries as the paper does.
        pooled: whether clients assume that all requesters pool their answers.
        k_min: fewest clients that a row of summed gradients is opened for; see `gradients`.
    """

    terms: Scheme | None = None
    gradients: Scheme | None = None
    pruning: Pruning = Pruning.MATRIX
    sharing: FeatureSharing = FeatureSharing.SHARED
    delivery: GradientDelivery = GradientDelivery.SERVER
    rule: AuditRule | None = AuditRule()  # frozen
    pooled: bool = False
    k_min: int = 1

    @property
    def schemes(self) -> dict[str, Scheme]:
        """By topology."""
        return {CLIENTS: self.terms or Plaintext(), SERVER: self.gradients or Plaintext()}

    def hops(self, preset: FedStructPreset) -> HopSettings:
        """Which power is exchanged, and which entries of it."""
        pruning = self.pruning if preset.kept is not None else Pruning.NONE
        return HopSettings(preset.hops, pruning, preset.kept or 1, preset.betas)


@dataclass(frozen=True, slots=True)
class HopwiseExchange:
    """No party holds rows of a power: embeddings travel hop by hop.

    Attributes:
        sums: computes sums over foreign neighbours.
        gradients: adds up gradients of model parameters; None shows each to the server.
    """

    sums: Scheme
    gradients: Scheme | None = None

    @property
    def schemes(self) -> dict[str, Scheme]:
        """By topology."""
        return {NEIGHBOURS: self.sums, SERVER: self.gradients or Plaintext()}


@dataclass(frozen=True, slots=True)
class NoExchange:
    """Clients share nothing of their graphs, and train one model on the sum of their gradients."""

    @property
    def schemes(self) -> dict[str, Scheme]:
        """In plaintext."""
        return {SERVER: Plaintext()}


Exchange = RowExchange | HopwiseExchange
"""What a run of FedStruct has."""
