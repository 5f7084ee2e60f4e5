"""Which edges between other clients' nodes hop-wise sums still tell: those that the recursion itself gives away.

Of the foreign nodes w that a client reads in every hop (`hop_sums`), d_w z_w' = z_w + the sum of z_u over w's
neighbours holds between one hop and the next. With the client's own nodes taken out, what remains is a sum of as many
foreign rows as the degree leaves room for; where these rows are known too, it names them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.foreign_edges import ForeignEdges, foreign_edges, score_foreign_edges, undirected
from fgl_secure.attacks.hop_sums import HopSystem, hop_systems
from fgl_secure.attacks.row_space import exposed, row_basis
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MARGIN = 4
"""How many times its bound a rounding error may be."""


class HopSumEdges(Attack[ForeignEdges]):
    """A client explains the change of a foreign row from hop to hop by foreign rows that it knows."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-sum-edges",
            "a client explains the change of foreign rows from hop to hop by the rows of their neighbours",
            "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: what the recursion tells of the graph",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_HOPWISE,
            minimum=0.51,
        )

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        """Looks for one or two known foreign neighbours of every foreign node that a client reads."""
        systems = hop_systems(view, public)
        return ForeignEdges.of_all([_explained(system) for system in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: Truth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges` and `edges_of_known_surroundings`."""
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def edges_of_known_surroundings(truth: Truth) -> NDArray[np.bool_]:
    """Bool [m] in the order of `foreign_edges`: whether an end and all its neighbours are read or the client's own."""
    client, lower, upper = foreign_edges(truth)
    edges, silo_of = undirected(truth), truth.silo_of
    closed = np.zeros((int(silo_of.max()) + 1, len(silo_of)), dtype=np.bool_)
    for index in range(len(closed)):
        own = silo_of == index
        crossing = edges[np.flatnonzero(own)][:, np.flatnonzero(~own)]
        outside = np.flatnonzero(crossing.sum(axis=0))
        read = np.zeros(len(own), dtype=np.bool_)
        read[np.flatnonzero(~own)[outside]] = exposed(row_basis(crossing[:, outside].toarray()))
        closed[index] = read & ((edges @ (~(read | own)).astype(np.float64)) == 0)
    return np.asarray(closed[client, lower] | closed[client, upper])


def _explained(system: HopSystem) -> ForeignEdges:
    """Claims the neighbours of each known row whose change has one explanation by at most two known rows."""
    hops, count, c = system.rows.shape
    width = max(hops - 1, 0) * c
    known, later = (rows.transpose(1, 0, 2).reshape(count, width) for rows in (system.rows[:-1], system.rows[1:]))
    ours = system.client.neighbours[:, system.nodes].T
    inside = (ours @ system.own[:-1].transpose(1, 0, 2).reshape(ours.shape[1], -1)).reshape(count, width)
    degree = 1 + ours.sum(axis=1)
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w in range(count if width else 0):
        slack = MARGIN * ((degree[w] + 3) * system.error[w] + degree[w] * system.unit)
        # a node that is refused its sum over foreign neighbours counts neither them nor itself among theirs
        found = [
            explained_by(known, MARGIN * system.error, heard * later[w] - known[w] - inside[w] * whole, later[w], slack)
            for heard, whole in ((degree[w], 1.0), (1.0, 0.0))
        ]  # fmt: skip
        which = np.concatenate(found) if sum(map(len, found)) == max(map(len, found)) else np.empty(0, dtype=np.int64)
        ends.append(np.full(len(which), system.nodes[w]))
        others.append(system.nodes[which])
    return ForeignEdges.claimed(system.client, np.concatenate(ends), np.concatenate(others))


def explained_by(known: Floats, error: Floats, change: Floats, later: Floats, slack: float) -> Ids:
    """The one or two known rows that a change consists of; none where no, or more than one, explanation fits.

    Args:
        known: float64 [k, w], candidates.
        error: float64 [k], how far each may be off.
        change: float64 [w]; each row in it adds `later` to what must be explained, as it adds 1 to the degree.
        later: float64 [w].
        slack: how far the change may be off.

    Returns:
        int64, positions of the rows.
    """
    if np.abs(change).max() <= slack:
        return np.empty(0, dtype=np.int64)  # no foreign neighbour
    one = np.flatnonzero(np.abs(known - (change + later)).max(axis=1) <= slack + error)
    order = np.argsort(known[:, 0], kind="stable")
    first, wanted = known[order, 0], change + 2 * later
    reach = slack + 2 * float(error.max(initial=0.0))
    start, stop = (np.searchsorted(first, wanted[0] - known[:, 0] + d) for d in (-reach, reach))
    a = np.repeat(np.arange(len(known)), stop - start)
    offset = np.arange(len(a)) - np.repeat(np.cumsum(stop - start) - (stop - start), stop - start)
    b = order[np.repeat(start, stop - start) + offset]
    a, b = a[a < b], b[a < b]
    off = np.abs(known[a] + known[b] - wanted).max(axis=1, initial=0.0)
    fits = off <= slack + error[a] + error[b]
    if len(one) + int(fits.sum()) != 1:
        return np.empty(0, dtype=np.int64)
    return one.astype(np.int64) if len(one) else np.concatenate([a[fits], b[fits]])
