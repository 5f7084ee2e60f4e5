"""A sum over one neighbour is that neighbour's feature row.

f_i^1 of a node with one neighbour at other clients is x of that neighbour, whatever scheme computed it (Fed2GNN,
section 4.2). In the clear each passive client's part arrives by itself, and one neighbour *at that client* is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.hop_feature_rows import exact_rows, right_rows
from fgl_secure.attacks.hop_feature_views import client_sums
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SingleRows:
    """Sums that clients take for one neighbour's row.

    Attributes:
        targets: int64 [k], the own node that each sum is for.
        nodes: int64 [k], the neighbour.
        values: float64 [k, d], its row.
    """

    targets: Ids
    nodes: Ids
    values: Floats


class HopFeatureSingle(Attack[SingleRows]):
    """A client takes each sum of the first hop that is over one node for that node's row."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "hop-feature-single",
            "a client reads the features of a neighbour that is alone in a sum",
            "on Fed2GNN 4.2: passive clients send sums over a node's neighbours, however few these are",
            Role.SILO,
            Secret.NODE_FEATURES,
            Material.HOP_SUMS,
            Reference.FED2GNN,
            Circumstance.SINGLE_NEIGHBOUR,
        )

    def infer(self, view: View, public: PublicParameters) -> SingleRows | None:
        """Reads the sums of the first hop over one node."""
        found = [(sums, np.flatnonzero(sums.single)) for sums in client_sums(view, public)]
        if not found:
            return None
        targets = [sums.nodes[at] for sums, at in found]
        nodes = [sums.members[at].indices.astype(np.int64) for sums, at in found]
        values = [sums.values[0][at] for sums, at in found]
        return SingleRows(*(np.concatenate(parts) for parts in (targets, nodes, values)))

    def score(self, guess: SingleRows, truth: Truth) -> tuple[Measurement, ...]:
        """How many rows are right, and of how many nodes a neighbour is read: see `single_neighbours`."""
        right, prior = right_rows(guess.nodes, guess.values, truth)
        total, apart = single_neighbours(truth)
        crossing = np.unique(truth.edges[1][truth.crosses_silos])
        exposed = np.isin(crossing, guess.targets[right])
        finding = (
            f"{int(right.sum()):,} of {len(right):,} sums taken for one neighbour's features are exactly that; "
            f"{int(exposed.sum()):,} of {len(crossing):,} nodes with neighbours at other clients expose one so."
        )
        shares = [
            _share(name, exposed & where[crossing], float(where[crossing].mean()) if len(crossing) else 0.0, finding)
            for name, where in (("nodes with one neighbour elsewhere", total), ("nodes with one at a client", apart))
            if len(crossing)
        ]
        return (exact_rows(right, guess.nodes, prior, finding), *shares) if len(right) else tuple(shares)


def single_neighbours(truth: Truth) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which nodes have exactly one neighbour at all other clients together, and at some one of them: bool [n] each."""
    pairs = np.unique(truth.edges[:, truth.crosses_silos], axis=1)
    n, silos = len(truth.silo_of), int(truth.silo_of.max()) + 1
    counts = np.bincount(pairs[1] * silos + truth.silo_of[pairs[0]], minlength=n * silos).reshape(n, silos)
    return counts.sum(axis=1) == 1, (counts == 1).any(axis=1)


def _share(metric: str, read: NDArray[np.bool_], reach: float, finding: str) -> Measurement:
    share = exact_proportion(int(read.sum()), len(read))
    return Measurement(metric, share.value, share.interval, share.n, 0.0, 0.0, reach, True, finding, context=True)
