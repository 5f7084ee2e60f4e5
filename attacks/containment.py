"""Finding the terms of a sum in a public dictionary: words of a neighbour are words of the sum.

If rows are 0/1 (or non-negative) and sparse, every word of a neighbour shows up in the sum, and hardly any other row of
the dictionary has all of its words there. The weights of the sum do not matter, and neither does how it was computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.edge_claims import ClaimedEdges, score_claimed_edges
from fgl_secure.attacks.sums import seen_sums
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]

CHUNK = 512
DICTIONARY = "a public list of all devices' feature rows"


def contained(sums: NDArray[Any], dictionary: NDArray[Any]) -> tuple[Ids, Ids]:
    """Which rows of a dictionary have all of their non-zero columns in a sum: int64 [c] sums and rows.

    Rows without any non-zero column are in no sum.

    Args:
        sums: [k, d].
        dictionary: [n, d].
    """
    rows = sparse.csr_array(dictionary != 0, dtype=np.int32)
    words, columns = np.diff(rows.indptr), rows.T.tocsr()
    where, which = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start in range(0, len(sums), CHUNK):
        common = (sparse.csr_array(sums[start : start + CHUNK] != 0, dtype=np.int32) @ columns).tocoo()
        whole = common.data == words[common.col]
        where.append(common.row[whole].astype(np.int64) + start)
        which.append(common.col[whole].astype(np.int64))
    return np.concatenate(where), np.concatenate(which)


class ContainmentAtDevice(InformedAttack[ClaimedEdges]):
    """The target of an exact sum finds its neighbours in the dictionary.

    A device knows the addresses of its neighbours anyway. That it finds their public rows is what it learns where
    addresses are pseudonyms, as HiFGL has it (4.2.3: senders are anonymous to receivers).
    """

    @property
    def card(self) -> Card:
        """Every device alone."""
        return Card(
            "containment-device",
            "a device finds its neighbours in a public list of feature rows: their words are in its sum",
            "on HiFGL 4.2.1: exact sums of sparse rows, whatever the coding",
            Role.DEVICE,
            Secret.CROSS_EDGE,
            Material.STATIC,
            Reference.STATIC,
            Circumstance.SPARSE_SUM,
            auxiliary=DICTIONARY,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> ClaimedEdges | None:
        """Claims an edge from every device whose row is in the observer's own sum."""
        return _claimed(view, public, auxiliary, Role.DEVICE)

    def score(self, guess: ClaimedEdges, truth: Truth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage over all pairs, see `score_claimed_edges`."""
        return score_claimed_edges(guess, truth, crossing=False)


class ContainmentAtSilo(InformedAttack[ClaimedEdges]):
    """A silo that decodes the sums of its devices finds their neighbours in other silos."""

    @property
    def card(self) -> Card:
        """Every silo alone."""
        return Card(
            "containment-silo",
            "a silo finds foreign neighbours in a public list of feature rows: their words are in a decoded sum",
            "against HiFGL 4.1.1 and 5.1: cross-silo edges are known to their two devices only",
            Role.SILO,
            Secret.CROSS_EDGE,
            Material.STATIC,
            Reference.STATIC,
            Circumstance.SPARSE_SUM,
            auxiliary=DICTIONARY,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> ClaimedEdges | None:
        """Claims an edge from every device whose row is in the sum of a device of the silo."""
        return _claimed(view, public, auxiliary, Role.SILO)

    def score(self, guess: ClaimedEdges, truth: Truth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage over pairs across silos, see `score_claimed_edges`."""
        return score_claimed_edges(guess, truth, crossing=True)


def _claimed(view: View, public: PublicParameters, auxiliary: Auxiliary, role: Role) -> ClaimedEdges | None:
    sums = seen_sums(view, public, role)
    if not sums or auxiliary.dictionary is None:
        return None
    where, which = contained(sums[0].values, auxiliary.dictionary)
    targets, sources = sums[0].targets[where], view.parties.ids(Role.DEVICE)[which]
    others = sources != targets
    return ClaimedEdges(sources[others], targets[others])
