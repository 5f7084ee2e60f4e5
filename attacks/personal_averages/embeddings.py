"""Which of two clients has labels more like a third one's, from functional embeddings.

A functional embedding is what a model makes of a public random graph, on average over its nodes. Weights of averages
are cosines between embeddings, because those are high where clients train on alike data: so they tell who does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.personal_averages.knowledge import FEDPUB, PERSONAL_AVERAGES, told_to_clients
from fgl_secure.attacks.personal_averages.truth import ModelTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval, clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

TIED = 1e-9
"""Cosines of label shares that differ by less say nothing of who is nearer."""


@dataclass(frozen=True, slots=True, eq=False)
class NearerClients:
    """Of two other clients the one that is believed to be more like the observer.

    Attributes:
        observers: int64 [g], index of the silo.
        nearer: int64 [g], index of the other silo that is believed to be nearer.
        farther: int64 [g], index of the other one.
    """

    observers: Ids
    nearer: Ids
    farther: Ids


class FunctionalEmbeddings(Attack[NearerClients, ModelTruth]):
    """Compares cosines, every two other clients once."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "functional-embeddings",
            "a client tells by functional embeddings which of two others has labels more like its own",
            "FED-PUB (ICML 2023) section 4.1: embeddings are alike where subgraphs are",
            Role.SILO,
            Secret.LABEL_SHARES,
            PERSONAL_AVERAGES,
            FEDPUB,
            minimum=0.8,
            truth=ModelTruth,
        )

    def infer(self, view: View, public: PublicParameters) -> NearerClients | None:  # noqa: ARG002  # needs no parameter
        """For every client; None where nobody heard two others' embeddings."""
        found = []
        for told in told_to_clients(view):
            first, second = np.triu_indices(len(told.others), 1)
            if len(first):
                like = told.embeddings @ told.own / np.maximum(np.linalg.norm(told.embeddings, axis=1), 1e-300)
                nearer = np.where(like[first] >= like[second], first, second)
                named = told.others[np.stack([nearer, first + second - nearer])]
                found.append(np.concatenate([np.full((1, len(first)), told.client), named]))
        return NearerClients(*np.concatenate(found, axis=1)) if found else None

    def score(self, guess: NearerClients, truth: ModelTruth) -> tuple[Measurement, ...]:
        """Twice the share that is right less one, by cosines of label shares, with a bootstrap over observers."""
        lengths = np.linalg.norm(truth.label_shares, axis=1, keepdims=True)
        unit = truth.label_shares / np.where(lengths > 0, lengths, 1)
        like = unit @ unit.T
        margin = like[guess.observers, guess.nearer] - like[guess.observers, guess.farther]
        clear = np.abs(margin) > TIED
        if not clear.any():
            return ()
        share = clustered_proportion(margin[clear] > 0, guess.observers[clear], seed=0)
        bounds = Interval(2 * share.interval.low - 1, 2 * share.interval.high - 1)
        finding = (
            f"{int((margin > TIED).sum()):,} of {int(clear.sum()):,} times the client of more like labels is told."
        )
        return (Measurement("likeness told", 2 * share.value - 1, bounds, share.n, 0.0, 0.0, 1.0, False, finding),)
