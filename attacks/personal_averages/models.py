"""Other clients' models from what a client gets for its weighted average of them.

In the clear it gets every term, a model times a weight that it computes as the others do: the model is the term over
the weight. Where it gets the sum of the terms alone, the sum over the weights' sum is the best that it can say of each.
A model tells labels by its last bias, which a first step moves up for classes that the client has more often than the
model predicted, and down for others (Zhao, Mopuri and Bilen 2020 for the gradient; signs are what Adam leaves of it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.personal_averages.knowledge import (
    FEDPUB,
    PERSONAL_AVERAGES,
    AverageRules,
    Told,
    told_to_clients,
)
from fgl_secure.attacks.personal_averages.truth import ModelTruth
from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

RECOVERED = 1e-3
"""Up to this share of the way that it went from the common start a model may be off and counts as recovered."""


@dataclass(frozen=True, slots=True, eq=False)
class GuessedModels:
    """What clients believe of each other's models.

    Attributes:
        observers: int64 [g], index of the silo that believes it.
        clients: int64 [g], index of the silo whose model it is.
        models: float64 [g, P].
        start: float64 [P], where all began.
    """

    observers: Ids
    clients: Ids
    models: Floats
    start: Floats


def guessed_models(view: View, known: AverageRules) -> GuessedModels | None:
    """From terms where there are any, else from sums; None without either."""
    clients = view.parties.counts.get(Role.SILO, 0)
    found = [
        (told.client, *_models_of(told, known)) for told in told_to_clients(view) if len(told.others) == clients - 1
    ]
    if not any(len(others) for _, others, _ in found):
        return None
    observers = np.repeat([client for client, _, _ in found], [len(others) for _, others, _ in found])
    others, models = ([each[part] for each in found if len(each[1])] for part in (1, 2))
    return GuessedModels(observers, np.concatenate(others), np.concatenate(models), known.start)


def _models_of(told: Told, known: AverageRules) -> tuple[Ids, Floats]:
    """Of which other clients, int64 [k], and their models float64 [k, P]; it takes all embeddings to know a weight."""
    weights = known.weights(told.own, told.embeddings)
    if len(told.senders):
        own = weights[np.searchsorted(told.others, told.senders)]
        return told.senders, np.ldexp(told.terms.astype(np.float64), -known.fraction_bits) / own[:, None]
    if told.total is None:
        return told.senders, np.empty((0, len(known.start)))
    mean = np.ldexp(told.total.astype(np.float64), -known.fraction_bits) / weights.sum()
    return told.others, np.tile(mean, (len(weights), 1))


class WeightedModels(InformedAttack[GuessedModels, AverageRules, ModelTruth]):
    """Divides by weights."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "weighted-models",
            "a client reads other clients' models off what it gets for its weighted average of them",
            "FED-PUB (ICML 2023) section 4: similarities of functional embeddings are the weights",
            Role.SILO,
            Secret.SUMMAND,
            PERSONAL_AVERAGES,
            FEDPUB,
            auxiliary="the rules of the method, which all clients know",
            truth=ModelTruth,
            knowledge=AverageRules,
            tells_nothing="where all begin says nothing of where steps on own data led",
        )

    def infer_with(self, view: View, public: PublicParameters, known: AverageRules) -> GuessedModels | None:  # noqa: ARG002  # needs no parameter
        """Every other client's model, for every client."""
        return guessed_models(view, known)

    def score(self, guess: GuessedModels, truth: ModelTruth) -> tuple[Measurement, ...]:
        """The share of models that are right up to .1 % of the way from the start, with a bootstrap over observers."""
        actual = truth.models[guess.clients]
        off = np.linalg.norm(guess.models - actual, axis=1)
        right = off <= RECOVERED * np.linalg.norm(actual - guess.start, axis=1)
        share = clustered_proportion(right, guess.observers, seed=0)
        finding = f"{int(right.sum()):,} of {len(right):,} times a client reads another client's model."
        return (Measurement("models read", share.value, share.interval, share.n, 0.0, 0.0, 1.0, True, finding),)


@dataclass(frozen=True, slots=True, eq=False)
class GuessedClasses:
    """Which classes clients are believed to train on: observers and clients int64 [g], and bool [g, classes]."""

    observers: Ids
    clients: Ids
    present: NDArray[np.bool_]


class AverageClasses(InformedAttack[GuessedClasses, AverageRules, ModelTruth]):
    """Signs of the steps of the last bias."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "average-classes",
            "a client tells by the last bias which classes other clients train on",
            "signs of last-layer gradients, after iDLG (Zhao, Mopuri and Bilen 2020)",
            Role.SILO,
            Secret.CLASS_PRESENCE,
            PERSONAL_AVERAGES,
            FEDPUB,
            minimum=0.9,
            auxiliary="the rules of the method, which all clients know",
            truth=ModelTruth,
            knowledge=AverageRules,
        )

    def infer_with(self, view: View, public: PublicParameters, known: AverageRules) -> GuessedClasses | None:  # noqa: ARG002  # needs no parameter
        """Classes whose bias went up."""
        found = guessed_models(view, known)
        if found is None:
            return None
        moved = found.models[:, known.last_bias] - found.start[known.last_bias]
        return GuessedClasses(found.observers, found.clients, moved > 0)

    def guess_without(self, guess: GuessedClasses, known: AverageRules, parties: Directory) -> GuessedClasses:  # noqa: ARG002  # of the shape alone
        """Every client has every class."""
        return GuessedClasses(guess.observers, guess.clients, np.ones_like(guess.present))

    def score(self, guess: GuessedClasses, truth: ModelTruth) -> tuple[Measurement, ...]:
        """The share of classes of which is said rightly whether a client has them; the prior is the commoner."""
        actual = truth.label_shares[guess.clients] > 0
        right = (guess.present == actual).ravel()
        share = clustered_proportion(right, np.repeat(guess.observers, actual.shape[1]), seed=0)
        often = float(actual.mean())
        finding = f"{int(right.sum()):,} of {len(right):,} times a client tells whether another one has a class."
        prior = max(often, 1 - often)
        return (Measurement("classes told", share.value, share.interval, share.n, 0.5, prior, 1.0, True, finding),)
