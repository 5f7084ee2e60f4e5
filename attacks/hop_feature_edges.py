"""Which edges between other clients' nodes the second hop tells: those whose ends' features the first has given away.

Of a neighbour m whose row the first hop's sums determine, the second hop's sums determine mu_m^1, the sum over all of
m's neighbours (Fed2GNN, Protocol 1). With the client's own nodes taken out, what remains is a sum of feature rows of
other clients' nodes; where these are known too, it names them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.foreign_edges import ForeignEdges, score_foreign_edges
from fgl_secure.attacks.hop_feature_differencing import first_hop
from fgl_secure.attacks.hop_feature_rows import sure
from fgl_secure.attacks.hop_feature_system import Determined, Equations, determined
from fgl_secure.attacks.hop_feature_views import ClientSums, client_sums
from fgl_secure.attacks.hop_sum_edges import MARGIN, edges_of_known_surroundings, explained_by
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class HopFeatureEdges(Attack[ForeignEdges]):
    """A client explains the surroundings of nodes that it reads by other nodes that it reads."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-feature-edges",
            "a client explains the second hop's sums by the feature rows that the first hop gave away",
            "on Fed2GNN 4.2: the second hop sums whole neighbourhoods of known nodes",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.HOP_SUMS,
            Reference.FED2GNN,
        )

    def infer(self, view: View, public: PublicParameters) -> ForeignEdges | None:
        """Looks for one or two known neighbours of every node that a client reads."""
        systems = [sums for sums in client_sums(view, public) if len(sums.values) > 1]
        return ForeignEdges.of_all([_explained(sums) for sums in systems]) if systems else None

    def score(self, guess: ForeignEdges, truth: Truth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage, see `score_foreign_edges` and `edges_of_known_surroundings`."""
        return score_foreign_edges(guess, truth, edges_of_known_surroundings(truth))


def _explained(sums: ClientSums) -> ForeignEdges:
    """Claims the neighbours of each known node whose surroundings have one explanation by at most two known rows."""
    known = determined(first_hop(sums))
    good = sure(known.values, known.error)
    known = Determined(known.nodes[good], known.values[good], known.error[good])
    around = _surroundings(sums)
    at = np.searchsorted(around.nodes, known.nodes)
    inside = sums.client.neighbours[:, known.nodes].T @ sums.own
    ends, others = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for w, place in enumerate(at.tolist()):
        slack = MARGIN * float(around.error[place])
        # a node that is refused its sum over other clients' nodes counts none of them
        found = [_known_parts(known, around.values[place] - own, slack) for own in (inside[w], 0.0 * inside[w])]
        which = np.concatenate(found) if sum(map(len, found)) == max(map(len, found)) else np.empty(0, dtype=np.int64)
        ends.append(np.full(len(which), known.nodes[w]))
        others.append(known.nodes[which])
    return ForeignEdges.claimed(sums.client, np.concatenate(ends), np.concatenate(others))


def _surroundings(sums: ClientSums) -> Determined:
    """mu_m^1 of every node that the first hop determines: the second hop has the same coefficients."""
    first = first_hop(sums)
    return determined(Equations(first.matrix, sums.values[1], first.error + _rounding(sums)))


def _rounding(sums: ClientSums) -> Floats:
    """What rounding of a sum that was itself summed adds: as much once more for each term."""
    return np.asarray(sums.unit * sums.members.sum(axis=1) * len(sums.client.owned) ** 0.5)


def _known_parts(known: Determined, rest: Floats, slack: float) -> Ids:
    return explained_by(known.values, MARGIN * known.error, rest, np.zeros_like(rest), slack)
