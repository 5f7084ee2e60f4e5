"""Which runs attacks on gradients read, which they must break, and what attackers may know beside their views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.model import Convolution, GradientModel, averaging, means
from fgl_secure.attacks.gradients.receptive_field import ReceptiveField
from fgl_secure.errors import InputError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

UPDATES = "updates of clients"
"""Scenario: gradients of clients in rounds of federated averaging, or their sum where the server learns no more."""

FEDAVG = "federated averaging in the clear: a gcn of two layers, batches of up to eight nodes"
FEDAVG_SINGLE = "federated averaging in the clear: a gcn of one layer, batches of one node"
FEDAVG_PAIRS = "sums of updates, each client's one of two that the server knows"
FEDAVG_SMOOTH = "federated averaging in the clear: graphsage of two layers, a smooth activation, single nodes"
FEDAVG_STATIC = "sums of updates that stay the same from round to round, clients drawn at random"
"""Controls, as federated averaging makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Public nodes, their features, and the graph that clients are believed to aggregate over.

    With all of a run's features and edges it is an upper bound on what an attacker with a directory can do: it tests
    whether a node took part, and need not find its row.

    Attributes:
        features: float [n, d_in], the rows that enter the model, by device index.
        edges: int64 [2, m], both directions, sources above targets: the edges over which clients aggregate (those
            inside clients, where each has its own subgraph). Node indices; no loops, no edge twice.
        clients: int64 [n], the client that each node belongs to, or -1 where that is not known.
    """

    features: NDArray[Any]
    edges: Ids
    clients: Ids

    def __post_init__(self) -> None:
        size = len(self.features)
        if self.features.ndim != 2 or self.clients.shape != (size,):
            raise InputError(
                f"features must be [n, d] and clients [n]; found {self.features.shape} and {self.clients.shape}"
            )
        if self.edges.shape[:-1] != (2,):
            raise InputError(f"edges must be [2, m]; found shape {list(self.edges.shape)}")
        if self.edges.size and not 0 <= self.edges.min() <= self.edges.max() < size:
            raise InputError(f"edges must be of nodes in 0..{size - 1}; found {self.edges.min()}..{self.edges.max()}")

    def entering(self, model: GradientModel) -> dict[str, Floats]:
        """By name of each first weight: float64 [n, d_in], the row by which it is multiplied for each node.

        Under GCN the averaged row, under SGC the row averaged `hops` times, under GraphSAGE the node's own row for
        "0.own_weight" and the mean of its neighbours for "0.neighbour_weight".
        """
        rows = np.asarray(self.features, dtype=np.float64)
        if rows.shape[1] != model.widths[0]:
            raise InputError(f"features must have d_in = {model.widths[0]} columns; found {rows.shape[1]}")
        if model.convolution is Convolution.SAGE:
            own, neighbours = model.first_weights
            return {own: rows, neighbours: np.asarray(means(self.edges, len(rows)) @ rows)}
        (weight,) = model.first_weights
        step = averaging(self.edges, len(rows))
        for _ in range(model.hops):
            rows = np.asarray(step @ rows)
        return {weight: rows}


@dataclass(frozen=True, slots=True, eq=False)
class GradientKnowledge:
    """What a server knows that hands out the model of the one round that attacks read, and may know of its clients.

    Attributes:
        model: at the weights of that round.
        candidates: public nodes that may have entered the gradients, with the graph that they are averaged over; None
            where nobody lists them.
        fields: by index of the client, the small graph behind its gradient, without features and names, as somebody
            knows it who knows who is linked to whom; None where nobody does.
        image_shape: (height, width) where features are pictures, which those who wrote the model know; else None.
        clip: the norm that clients cut their gradients down to, a public parameter; None where they don't.
    """

    model: GradientModel
    candidates: Candidates | None = None
    fields: Mapping[int, ReceptiveField] | None = None
    image_shape: tuple[int, int] | None = None
    clip: float | None = None
