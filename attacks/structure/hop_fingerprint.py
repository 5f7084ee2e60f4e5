"""Taking a client's own rows of the second power of the adjacency apart by the degrees of its neighbours.

Where the shares of all clients are added up under encryption, client i still learns its rows of the second power
(FedStruct, ICLR 2025, App. D, Eq. 36). Row v times v's degree, without what i's own nodes put in, is the sum over the
foreign neighbours w of v of 1 / d_w at w itself and at every neighbour of w. At w itself no other neighbour of v adds
anything for some v, so the smallest such entry is 1 / d_w; then every entry (v, u) is a sum of some of these
reciprocals, and where one subset alone fits, it says which neighbours of v are neighbours of u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import ForeignEdges, edges_at_neighbours, score_foreign_edges
from fgl_secure.attacks.neighbourhoods import HOP_ROWS, Client, clients_of, held_matrix, rows_of, stacked
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, STRUCTURE
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HopFingerprint(Attack[ForeignEdges, StructureTruth]):
    """A client explains the entries of its rows of the second power by subsets of its foreign neighbours.

    Attributes:
        tolerance: how far a sum of reciprocal degrees may be off; the default covers the errors of encrypted sums.
        most_terms: foreign neighbours of one node that are told apart at most.
    """

    tolerance: float = 1e-4
    most_terms: int = 12

    card = Card(
        "hop-fingerprint",
        "a client takes its rows of the second power of the adjacency apart by its neighbours' degrees",
        "against FedStruct (ICLR 2025) App. D: an encrypted sum of the shares protects the adjacency",
        Role.SILO, Secret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.51, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:  # noqa: ARG002  # needs no parameter
        """Explains the rows that every client holds."""
        held = rows_of(view, HOP_ROWS, layer=2)
        if not held:
            return None
        rows, n = stacked(held), view.parties.counts[Role.DEVICE]
        parts = [
            self._explained(client, held_matrix(rows.of(client.observer), n))
            for client in clients_of(view)
        ]  # fmt: skip
        return ForeignEdges.of_all(parts) if parts else None

    def score(self, guess: ForeignEdges, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges`; edges at the client's neighbours are in reach."""
        return score_foreign_edges(guess, truth, edges_at_neighbours(truth))

    def _explained(self, client: Client, squared: sparse.csr_array) -> ForeignEdges:
        rest, crossing = foreign_part(client, squared), client.crossing
        reciprocal = reciprocal_degrees(rest, crossing, self.tolerance)
        n = len(client.owned)
        agree, differ = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        asked = np.zeros(n, dtype=np.int64)  # rows that could say something about a neighbour
        for v in np.flatnonzero(np.diff(crossing.indptr)).tolist():
            terms = _row(crossing, v)[0]
            if len(terms) > self.most_terms or not reciprocal[terms].all():
                continue
            asked[terms] += 1
            columns, values = _row(rest, v)
            which, inside = one_explanation(reciprocal[terms], values, self.tolerance)
            pairs = terms[:, None] * n + columns[which]
            agree.append(pairs[inside])
            ambiguous = np.setdiff1d(np.arange(len(columns)), which)
            differ.append((terms[:, None] * n + columns[ambiguous]).ravel())
        pair, votes = np.unique(np.concatenate(agree), return_counts=True)
        pairs, silent = np.unique(np.concatenate(differ), return_counts=True)
        votes[np.isin(pair, pairs)] += silent[np.isin(pairs, pair)]
        unanimous = pair[votes == asked[pair // n]]
        return ForeignEdges.claimed(client, unanimous // n, unanimous % n)


def foreign_part(client: Client, squared: sparse.csr_array) -> sparse.csr_array:
    """What the nodes of others put into a client's rows of the squared normalised adjacency, times the row's degree.

    Args:
        client: who holds the rows.
        squared: CSR [n, n], its rows of the second power.

    Returns:
        CSR [n, n]: at (v, u) the sum of 1 / d_w over the foreign neighbours w of v that are u or neighbours of u.
    """
    mine = client.owned.astype(np.float64)
    looped = sparse.csr_array(client.neighbours + sparse.diags_array(mine))
    degree = looped.sum(axis=1)
    within = looped @ sparse.diags_array(mine / np.maximum(degree, 1))
    return sparse.csr_array(sparse.diags_array(degree) @ squared - within @ looped)


def reciprocal_degrees(rest: sparse.csr_array, crossing: sparse.csr_array, tolerance: float) -> Floats:
    """1 / d_w of every foreign neighbour, float64 [n]; 0 for nodes that are none or of which no entry says anything.

    Args:
        rest: see `foreign_part`.
        crossing: 0/1 CSR [n, n], which foreign nodes are neighbours of which own ones.
        tolerance: smaller values count as zero.
    """
    at_itself = sparse.coo_array(rest.multiply(crossing))
    smallest = np.full(rest.shape[0], np.inf)
    np.minimum.at(smallest, at_itself.col, at_itself.data)
    said = np.isfinite(smallest) & (smallest > tolerance)
    degree = np.rint(1 / np.where(said, smallest, 1.0))
    return np.where(said, 1 / np.maximum(degree, 1), 0.0)


def one_explanation(terms: Floats, values: Floats, tolerance: float) -> tuple[Ids, NDArray[np.bool_]]:
    """Which values are a sum of one subset of the terms only.

    Args:
        terms: float64 [k], k small.
        values: float64 [m].
        tolerance: how far a sum may be off.

    Returns:
        int64 [e] which values, and bool [k, e] which terms their subset has.
    """
    sums = np.zeros(1)
    for term in terms.tolist():
        sums = np.concatenate([sums, sums + term])
    order = np.argsort(sums, kind="stable")
    ordered = sums[order]
    first = np.searchsorted(ordered, values - tolerance, side="left")
    last = np.searchsorted(ordered, values + tolerance, side="right")
    which = np.flatnonzero(last - first == 1)
    inside = (order[first[which]] >> np.arange(len(terms))[:, None]) & 1
    return which, inside.astype(np.bool_)


def _row(matrix: sparse.csr_array, v: int) -> tuple[Ids, Floats]:
    """Columns and values of one row."""
    here = slice(matrix.indptr[v], matrix.indptr[v + 1])
    return matrix.indices[here].astype(np.int64), matrix.data[here]
