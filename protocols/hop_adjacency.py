"""Powers of the adjacency that no party holds as a whole: FedStruct's exchange (ICLR 2025, App. D, Algorithm 3).

Client i ends with its own rows of every power of A^ = D~^-1 (A + I). For each hop, client k computes its term
B_ik = A~_k^[i] (A^^(l-1))^[k] from the edges between i's nodes and its own, which both know, and from its rows of the
power before; client i adds the terms up and divides by its degrees. How it gets their sum is the business of a
`TermSums`: every term by itself, as published, or nothing but the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.hop_threshold import CommonThreshold
from fgl_secure.protocols.term_sums import TermSums
from fgl_secure.runtime import Channel, Role, Step

Ids = NDArray[np.int64]

HOP_ROWS = "hop rows"
"""What clients come to know in a hop, noted with the channel: (own node, node, value) an entry."""


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
    """

    hops: int
    pruning: Pruning = Pruning.NONE
    kept: int = 30

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise InputError(f"hops must be at least 1; found {self.hops}")
        if self.kept < 1:
            raise InputError(f"kept must be at least 1 entry a node; found {self.kept}")

    def most_a_row(self, clients: int) -> int | None:
        """Most entries, on average, of a row of the sum of the other clients' terms; None where nothing bounds them."""
        if self.pruning is not Pruning.SHARES:
            return None
        return (clients - 1) * clients * -(-self.kept // clients)


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """Whose node is whose, and the edges, of which every client uses its own rows and those that end in its nodes.

    Attributes:
        client_of: int64 [n], the client index of each node.
        looped: float64 CSR [n, n], A + I.
    """

    client_of: Ids
    looped: sparse.csr_array

    def __post_init__(self) -> None:
        n = len(self.client_of)
        if self.looped.shape != (n, n):
            raise InputError(f"looped must have shape [{n}, {n}], one row a node; found {list(self.looped.shape)}")

    @property
    def clients(self) -> int:
        """Number of clients K."""
        return int(self.client_of.max()) + 1

    def nodes_of(self, client: int) -> Ids:
        """The nodes of a client in ascending order."""
        return np.flatnonzero(self.client_of == client)


def acquire_powers(
    channel: Channel,
    sums: TermSums,
    holdings: Holdings,
    settings: HopSettings,
    threshold: CommonThreshold | None = None,
) -> list[sparse.csr_array]:
    """Runs Algorithm 3.

    Args:
        channel: between server and clients.
        sums: how a client gets the sum of the others' terms.
        holdings: who holds what.
        settings: which powers, and which entries of them.
        threshold: finds the value that the largest entries of all clients have in common; for `Pruning.MATRIX`.

    Returns:
        The powers 1 to `hops`, float64 CSR [n, n]: row v as the client of node v holds it.

    Raises:
        ProtocolError: a client sends a term of the wrong shape, or with values that no term has.
    """
    if (settings.pruning is Pruning.MATRIX) != (threshold is not None):
        raise InputError(f"threshold must be given for pruning {Pruning.MATRIX} and no other; found {settings.pruning}")
    degrees = holdings.looped.sum(axis=1)
    first = sparse.csr_array(sparse.diags_array(1 / degrees) @ holdings.looped)
    powers = [first]
    _note(channel, holdings, first, 1)
    for hop in range(2, settings.hops + 1):
        step = Step(0, hop)
        rows = [_next_rows(channel, sums, holdings, powers[-1], settings, i, step) for i in range(holdings.clients)]
        power = _stacked(holdings, rows)
        _note(channel, holdings, power, hop)  # what pruning leaves out now, its client has seen
        if threshold is not None:
            power = threshold.pruned(channel, holdings.client_of, power, settings.kept * len(holdings.client_of), step)
        powers.append(power)
    return powers


def term(
    edges: sparse.csr_array, power: sparse.csr_array, client_of: Ids, most_a_client: int | None
) -> sparse.csr_array:
    """What client k computes for client i: B_ik, pruned (Eq. 35).

    Args:
        edges: A~_k^[i], CSR [n_i, n_k], from i's nodes to k's.
        power: k's rows of the power before, CSR [n_k, n].
        client_of: int64 [n], whose node each column is.
        most_a_client: entries kept of each B_ijk; None keeps all.

    Returns:
        float64 CSR [n_i, n].
    """
    whole = sparse.csr_array(edges @ power)
    if most_a_client is None:
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


def check_term(part: sparse.csr_array, client: int, shape: tuple[int, int]) -> None:
    """Raises unless a client's term has the right shape and finite entries of 0 or more."""
    if part.shape != shape:
        raise ProtocolError(f"term of client {client} must have shape {list(shape)}; found {list(part.shape)}")
    if not np.isfinite(part.data).all() or (part.data < 0).any():
        raise ProtocolError(f"term of client {client} must have finite entries of 0 or more; at least one is not")


def _next_rows(
    channel: Channel,
    sums: TermSums,
    holdings: Holdings,
    power: sparse.csr_array,
    settings: HopSettings,
    i: int,
    step: Step,
) -> sparse.csr_array:
    own, most = holdings.nodes_of(i), None
    if settings.pruning is Pruning.SHARES:
        most = -(-settings.kept // holdings.clients) * len(own)
    edges = holdings.looped[own]
    terms = {}
    for k in range(holdings.clients):
        theirs = holdings.nodes_of(k)
        terms[k] = term(edges[:, theirs], power[theirs], holdings.client_of, most)
        check_term(terms[k], k, (len(own), len(holdings.client_of)))
    mine = terms.pop(i)
    others = sums.sum(channel, i, terms, step) if terms else sparse.csr_array(mine.shape)
    return next_rows(mine, others, edges.sum(axis=1))


def _stacked(holdings: Holdings, rows: Sequence[sparse.csr_array]) -> sparse.csr_array:
    order = np.argsort(np.concatenate([holdings.nodes_of(i) for i in range(len(rows))]))
    return sparse.csr_array(sparse.vstack(rows, format="csr")[order])


def _note(channel: Channel, holdings: Holdings, power: sparse.csr_array, hop: int) -> None:
    entries = power.tocoo()
    owners = channel.parties.ids(Role.SILO)[holdings.client_of[entries.row]]
    values = np.stack([entries.row, entries.col, entries.data], axis=1).astype(np.float64)
    channel.note_inputs(HOP_ROWS, Step(0, hop), owners, values)
