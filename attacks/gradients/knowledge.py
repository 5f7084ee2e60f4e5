"""Runs that attacks on gradients read, and what a server knows and sees of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.model import Convolution, GradientModel, ReceptiveField, averaging, means
from fgl_secure.attacks.updates import SUM, participants_of, sums_of, vectors_of
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, View
from fgl_secure.typing import Floats, Ids

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
            self_weights, neighbours = model.first_weights
            return {self_weights: rows, neighbours: np.asarray(means(self.edges, len(rows)) @ rows)}
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
            where no party lists them.
        fields: by index of the client, the small graph behind its gradient, without features and names, as a party
            knows it who knows who is linked to whom; None where no party does.
        image_shape: (height, width) where features are pictures, which those who wrote the model know; else None.
        clip: the norm that clients cut their gradients down to, a public parameter; None where they don't.
    """

    model: GradientModel
    candidates: Candidates | None = None
    fields: Mapping[int, ReceptiveField] | None = None
    image_shape: tuple[int, int] | None = None
    clip: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ClientGradients:
    """Gradients of one round by parameter.

    Attributes:
        model: at the weights of that round.
        clients: int64 [k], index of the silo that each is from; [SUM] for the sum.
        participants: int64 [p], indices of the silos that are in them.
        parts: by parameter name, float64 [k, *shape].
        rounding: what entries are off by at most, in units of the gradient.
        relative: unit roundoff of what was sent.
    """

    model: GradientModel
    clients: Ids
    participants: Ids
    parts: dict[str, Floats]
    rounding: float
    relative: float

    @property
    def is_sum(self) -> bool:
        """Whether they are the sum over all participants."""
        return bool(self.clients.tolist() == [SUM])

    def noise(self, name: str) -> float:
        """About the largest singular value that rounding adds to the gradient of a weight."""
        _, d_in, d_out = self.parts[name].shape
        scale = float(np.abs(self.parts[name]).max(initial=0.0)) * self.relative + self.rounding
        return scale * float(d_in**0.5 + d_out**0.5)


def client_gradients(view: View, public: PublicParameters, knowledge: GradientKnowledge) -> ClientGradients | None:
    """The gradients of the round whose weights the observer knows; None where it sees none."""
    model = knowledge.model
    single = vectors_of(view).get(model.round)
    if single is not None:
        vectors: NDArray[np.floating] = _divide_by_weight(single[1])
        rounded: NDArray[np.float32] = vectors.astype(np.float32)
        if np.allclose(rounded, vectors, rtol=1e-13, atol=0):  # as the rounding in them tells, computed in it
            vectors = rounded
        parts, relative = model.gradients(vectors.astype(np.float64)), float(np.finfo(vectors.dtype).eps)
        return ClientGradients(model, single[0], single[0], parts, 0.0, relative)
    sums = update_sums(view)
    if model.round not in sums:
        return None
    participants = participants_of(view, model.round)
    bits = public.fraction_bits
    rounding = 0.0 if bits is None else len(participants) ** 0.5 * 2.0 ** -(bits + 1) / abs(model.rate)
    parts, relative = model.gradients(sums[model.round]), float(np.finfo(np.float64).eps)
    return ClientGradients(model, np.array([SUM]), participants, parts, rounding, relative)


def update_sums(view: View) -> dict[int, Floats]:
    """By round in ascending order: float64 [1, P], the sum of the participants' updates, each counting alike.

    It is their weighted mean times their number. Rounds in which single updates arrived are left out: they say more.
    """
    single, sums = vectors_of(view), sums_of(view)
    return {
        number: _divide_by_weight(total) * len(participants_of(view, number))
        for number, total in sums.items()
        if number not in single
    }


def _divide_by_weight(rows: Floats) -> Floats:
    """Rows [k, P + 1] over their last entries, which are clients' weights."""
    return rows[:, :-1] / rows[:, -1:]
