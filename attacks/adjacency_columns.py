"""Telling edges between other clients' nodes by the columns of the combined adjacency.

A client that holds no power of the adjacency but only its rows of the combined one (FedStruct, ICLR 2025, Eq. 2)
sees every node as a column: what walks from its own nodes end there. Neighbours are reached alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.adjacency import COMBINED_ROWS, Client, clients_of, held_matrix, rows_of, stacked
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.column_ranking import Ranking, random_pairs, rank_advantage, sampled, two_hop_pairs
from fgl_secure.attacks.foreign_edges import undirected
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]

PAIRS = 10_000
"""Edges, and other pairs of each kind, that a score looks at, of all clients together."""

Negatives = Callable[[Ids, Ids, sparse.csr_array, int], Ids]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDirections:
    """How one client sees each node.

    Attributes:
        client: index of the client.
        directions: CSR [n, n], for each node its column of the client's rows, of length 1, or 0 where it is empty.
    """

    client: int
    directions: sparse.csr_array

    def score(self, pairs: Ids) -> NDArray[np.float64]:
        """The cosine of the columns of each pair [2, m]."""
        one, other = self.directions[pairs[0]], self.directions[pairs[1]]
        return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()


class CombinedColumns(Attack[tuple[ColumnDirections, ...]]):
    """A client ranks pairs of foreign nodes by the cosine of their columns."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "combined-columns",
            "a client ranks pairs of foreign nodes by the cosine of their columns in its combined rows",
            "on FedStruct (ICLR 2025) Eq. 2, even where no power of the adjacency is revealed",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            minimum=0.51,
        )

    def infer(
        self, view: View, public: PublicParameters  # noqa: ARG002  # needs no parameter
    ) -> tuple[ColumnDirections, ...] | None:  # fmt: skip
        """Normalises the columns of every client's rows."""
        held = rows_of(view, COMBINED_ROWS)
        if not held:
            return None
        rows, n = stacked(held), view.parties.counts[Role.DEVICE]
        found = (_directions(client, held_matrix(rows.of(client.observer), n)) for client in clients_of(view))
        return tuple(each for each in found if each.directions.nnz) or None

    def score(self, guess: tuple[ColumnDirections, ...], truth: Truth) -> tuple[Measurement, ...]:
        """2 AUC - 1 against random pairs without an edge, and against such pairs with a common neighbour."""
        kinds: tuple[tuple[str, str, Negatives], ...] = (
            ("random pairs", "random pairs of the same owners", random_pairs),
            ("two-hop pairs", "pairs with a common neighbour", two_hop_pairs),
        )
        edges = undirected(truth)
        return tuple(_measured(guess, truth, edges, *kind) for kind in kinds)


def _directions(client: Client, combined: sparse.csr_array) -> ColumnDirections:
    """Columns of length 1 of the nodes that a client does not own."""
    squares = np.asarray(combined.multiply(combined).sum(axis=0), dtype=np.float64).ravel()
    foreign = ~client.owned & (squares > 0)
    scale = np.where(foreign, 1 / np.sqrt(np.where(foreign, squares, 1.0)), 0.0)
    directions = sparse.csr_array((combined @ sparse.diags_array(scale)).T)
    directions.eliminate_zeros()
    return ColumnDirections(client.index, directions)


def _measured(
    guess: tuple[ColumnDirections, ...],
    truth: Truth,
    edges: sparse.csr_array,
    metric: str,
    others: str,
    negatives: Negatives,
) -> Measurement:
    each = -(-PAIRS // len(guess))
    rankings = [_ranking(seen, truth.silo_of, edges, negatives, each) for seen in guess]
    gain = rank_advantage(rankings, len(truth.silo_of), seed=0)
    finding = (
        f"{len(guess)} clients, each alone, rank edges between nodes of others above {others}: AUC "
        f"{(gain.value + 1) / 2:.3f} over {gain.n:,} pairs."
    )
    name = f"AUC gain over {metric}"
    return Measurement(name, gain.value, gain.interval, max(gain.n, 1), 0.0, 0.0, 1.0, False, finding)


def _ranking(seen: ColumnDirections, silo_of: Ids, edges: sparse.csr_array, negatives: Negatives, most: int) -> Ranking:
    """As many edges as other pairs among the nodes that are not the client's."""
    upper = sparse.triu(edges, k=1).tocoo()
    pairs = np.stack([upper.row, upper.col]).astype(np.int64)
    linked = sampled(pairs[:, (silo_of[pairs] != seen.client).all(axis=0)], most, seed=seen.client)
    apart = negatives(linked, silo_of, edges, seen.client)
    both = np.concatenate([linked, apart], axis=1)
    return Ranking(both, seen.score(both), np.arange(both.shape[1]) < linked.shape[1])
