"""Labels from the gradients that come back hop by hop.

Where structure embeddings travel hop by hop, the gradient of the loss goes back the same way. In the last hop a client
gets, for each of its nodes, the sum over the node's foreign neighbours v of (y^_v - y_v) / d~_v (FedStruct, ICLR 2025,
Lemma 1 and Eq. 9): where there is one neighbour alone, and it is labelled, that is negative at its label and nowhere
else; where it is not labelled, it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.adjacency import clients_of
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.node_shares import share_of_labels
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]

HOP_GRADIENTS = "hop gradients"
"""Name of a client's rows (own node, what came back to it in a hop)."""


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourLabels:
    """Labels of foreign nodes as clients read them: nodes and labels int64 [k]."""

    nodes: Ids
    labels: Ids


class HopGradientLabels(Attack[NeighbourLabels]):
    """The class of the smallest entry of what comes back to a node with a single foreign neighbour."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-gradient-labels",
            "a client reads labels of foreign nodes off the gradients that come back to their only neighbours",
            "on hop-wise sums in place of FedStruct's (ICLR 2025) App. D: gradients that travel back",
            Role.SILO,
            Secret.LABEL,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_HOPWISE,
            minimum=0.9,
        )

    def infer(self, view: View, public: PublicParameters) -> NeighbourLabels | None:  # noqa: ARG002  # needs no parameter
        """Reads the last hop of the first round, at every client alone."""
        returned, neighbour = view.own(HOP_GRADIENTS), _only_neighbours(view)
        if not returned:
            return None
        last = max((rows for rows in returned if rows.step.round == returned[0].step.round), key=lambda r: r.step.layer)
        nodes = last.values[:, 0].astype(np.int64)
        rows = last.values[:, 1:]
        read = (neighbour[nodes] >= 0) & (np.abs(rows).max(axis=1, initial=0.0) > 0)
        return NeighbourLabels(neighbour[nodes[read]], rows[read].argmin(axis=1).astype(np.int64))

    def score(self, guess: NeighbourLabels, truth: Truth) -> tuple[Measurement, ...]:
        """The share of the labels that are right, over all that clients read."""
        if not len(guess.nodes):
            return ()
        return (share_of_labels("labels of foreign neighbours", guess.labels, guess.nodes, truth),)


def _only_neighbours(view: View) -> Ids:
    """int64 [n]: the one foreign neighbour of each node as its client knows it; -1 where there are none or several."""
    only = np.full(view.parties.counts[Role.DEVICE], -1, dtype=np.int64)
    for client in clients_of(view):
        crossing = client.crossing
        single = np.flatnonzero(np.diff(crossing.indptr) == 1)
        only[single] = crossing[single].indices
    return only
