"""Solving one client's share of the second power of the adjacency for the rows of its nodes.

Client k sends client i the product of i's edges into k, which i knows, with k's rows of the normalised adjacency
(FedStruct, ICLR 2025, App. D, Eq. 34 to 36). The paper argues that the first factor has too low a rank to be inverted;
but every row of the second that the equations determine is a whole list of neighbours. Symmetry adds no unknown: the
columns of a node whose row is known are known in all rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.adjacency import Client, clients_of, received_terms
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.foreign_edges import ForeignEdges, edges_at_neighbours, score_foreign_edges
from fgl_secure.attacks.row_space import solver
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

WHOLE = 1e-6
"""How far an entry of a solved row may be from 0 or 1 once it is multiplied by the degree."""


class HopShares(Attack[ForeignEdges]):
    """A client solves each other client's share of the second power by least squares."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-shares",
            "a client solves single clients' shares of the second power of the adjacency for lists of neighbours",
            "against FedStruct (ICLR 2025) App. D: shares in the clear reveal no local adjacency",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            minimum=0.6,
        )

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:  # noqa: ARG002  # needs no parameter
        """Solves the shares that every client received, apart for every sender."""
        parts = [
            _solved(client, sender, share)
            for client in clients_of(view)
            for sender, share in sorted(received_terms(view, client, 2).items())
        ]
        return ForeignEdges.of_all(parts) if parts else None

    def score(self, guess: ForeignEdges, truth: Truth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges`; edges at the client's neighbours are in reach."""
        return score_foreign_edges(guess, truth, edges_at_neighbours(truth))


def _solved(client: Client, sender: int, share: sparse.csr_array) -> ForeignEdges:
    """The lists of neighbours that one share determines.

    Args:
        client: who received it.
        sender: index of the client that sent it.
        share: float64 CSR [n, n].
    """
    asked = np.flatnonzero(client.client_of == sender)
    rows = np.flatnonzero(client.neighbours[:, asked].sum(axis=1))
    part = share[rows]
    columns = np.unique(part.indices).astype(np.int64)
    solution = solver(client.neighbours[rows][:, asked].toarray())
    ends, others = neighbour_lists(solution.weights @ part[:, columns])
    return ForeignEdges.claimed(client, asked[solution.unknowns[ends]], columns[others])


def neighbour_lists(rows: Floats) -> tuple[Ids, Ids]:
    """The entries of rows of the normalised adjacency [k, m] that are the reciprocal of the row's degree.

    The largest entry of a row is that reciprocal; what pruning has cut away in between shows as other values.

    Returns:
        int64 [e] rows and int64 [e] columns.
    """
    if not rows.size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    largest = rows.max(axis=1)
    degree = np.rint(1 / np.maximum(largest, np.finfo(np.float64).tiny))
    sound = (largest > 0) & (np.abs(largest * degree - 1) < WHOLE)
    ends, others = np.nonzero((np.abs(rows * degree[:, None] - 1) < WHOLE) & sound[:, None])
    return ends.astype(np.int64), others.astype(np.int64)
