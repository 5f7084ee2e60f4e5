"""What clients of personal averages know of the rules, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement, Truth
from fgl_secure.attacks.truth import shift_rows
from fgl_secure.runtime import Directory, MessageKind, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

PERSONAL_AVERAGES = "personal averages"
"""Scenario: a round after which every client gets a weighted average of all clients' models."""

FEDPUB = "fed-pub in the clear, clients of three kinds"
"""The control, as FED-PUB makes it."""

OWN_EMBEDDING, WEIGHTED_SUM = "own functional embedding", "weighted sum of models"
"""Names of a client's rows float64 [1, d] and int64 [1, P]."""


class AverageMessage(MessageKind):
    """What clients of personal averages tell each other beside sums."""

    FUNCTIONAL_EMBEDDINGS = (
        "functional embeddings",
        "what a client's model makes of a public random graph, on average over its nodes",
    )


@dataclass(frozen=True, slots=True, eq=False)
class AverageRules:
    """What every client knows.

    Attributes:
        start: float64 [P], the model that all clients begin the round with.
        temperature: tau, of the soft-max over cosines that weights are.
        fraction_bits: behind the binary point of what is summed.
        last_bias: where among the entries the last layer's bias lies, one entry a class.
    """

    start: Floats
    temperature: float
    fraction_bits: int
    last_bias: slice

    def weights(self, own: Floats, others: Floats) -> Floats:
        """float64 [k]: what other clients' models weigh in the average of a client.

        Args:
            own: float64 [d], its functional embedding.
            others: float64 [k, d].
        """
        rows = np.concatenate([others, own[None]])
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        powers = np.exp(self.temperature * (unit @ unit[-1] - 1))
        return np.asarray((powers / powers.sum())[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedModels:
    """What one client was told in the round.

    Attributes:
        client: index of the silo.
        others: int64 [k], indices of the silos whose embeddings came, ascending.
        embeddings: float64 [k, d], theirs.
        own: float64 [d], its own.
        senders: int64 [t], indices of the silos whose terms came one by one, ascending.
        terms: int64 [t, P], what each put into its average.
        total: int64 [P], the sum of all terms; None where it did not get it.
    """

    client: int
    others: Ids
    embeddings: Floats
    own: Floats
    senders: Ids
    terms: Ids
    total: Ids | None


def client_models(view: View) -> Iterator[ReceivedModels]:
    """What every client was told in the first round, client by client; those that told nothing are left out."""
    embeddings, terms = (
        [batch for batch in view.messages(phase, round=0) if not batch.step.evaluation]
        for phase in (AverageMessage.FUNCTIONAL_EMBEDDINGS, Phase.VECTORS)
    )
    for client, party in enumerate(view.parties.ids(Role.SILO).tolist()):
        own, total = (_own(view, name, party) for name in (OWN_EMBEDDING, WEIGHTED_SUM))
        if own is not None:
            received, got = (_of_others(view, batches, party) for batches in (embeddings, terms))
            yield ReceivedModels(
                client, received[0], received[1].astype(np.float64), own.astype(np.float64), *got, total
            )


def _own(view: View, name: str, party: int) -> NDArray[Any] | None:
    """A party's first row of a name in the first round."""
    result = [rows.values[rows.owners == party] for rows in view.own(name) if rows.step.round == 0]
    return next((rows[0] for rows in result if len(rows)), None)


def _of_others(view: View, batches: Iterable[ReceivedRows], receiver: int) -> tuple[Ids, NDArray[Any]]:
    """Indices of silos int64 [k], ascending, and what they sent to one party, [k, d]."""
    senders, rows = [np.empty(0, dtype=np.int64)], [np.empty((0, 0))]
    for batch in batches:
        mine = batch.receivers == receiver
        if mine.any():
            senders.append(view.parties.index_of(batch.senders[mine], Role.SILO))
            rows.append(np.asarray(batch.payload)[mine])
    result = np.concatenate(senders)
    order = np.argsort(result)
    return result[order], np.concatenate(rows[1:])[order] if len(result) else rows[0]


@dataclass(frozen=True, slots=True, eq=False)
class ModelTruth(Truth):
    """What clients' models are, and what they are trained on.

    Attributes:
        models: float64 [clients, P], as they went into the averages.
        label_shares: float64 [clients, classes], how often each label occurs among a client's training nodes.
    """

    models: Floats
    label_shares: Floats

    def permute(self, seed: int) -> ModelTruth:  # noqa: ARG002  # clients move on by one
        """Every client's secrets at the next client."""
        return ModelTruth(shift_rows(self.models), shift_rows(self.label_shares))


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


def guessed_models(view: View, rules: AverageRules) -> GuessedModels | None:
    """From terms where there are any, else from sums; None without either."""
    clients = view.parties.counts.get(Role.SILO, 0)
    result = [
        (told.client, *_models_of(told, rules)) for told in client_models(view) if len(told.others) == clients - 1
    ]
    if not any(len(others) for _, others, _ in result):
        return None
    observers = np.repeat([client for client, _, _ in result], [len(others) for _, others, _ in result])
    others, models = ([item[part] for item in result if len(item[1])] for part in (1, 2))
    return GuessedModels(observers, np.concatenate(others), np.concatenate(models), rules.start)


def _models_of(told: ReceivedModels, rules: AverageRules) -> tuple[Ids, Floats]:
    """Of which other clients, int64 [k], and their models float64 [k, P]; it takes all embeddings to know a weight."""
    weights = rules.weights(told.own, told.embeddings)
    if len(told.senders):
        own = weights[np.searchsorted(told.others, told.senders)]
        return told.senders, np.ldexp(told.terms.astype(np.float64), -rules.fraction_bits) / own[:, None]
    if told.total is None:
        return told.senders, np.empty((0, len(rules.start)))
    mean = np.ldexp(told.total.astype(np.float64), -rules.fraction_bits) / weights.sum()
    return told.others, np.tile(mean, (len(weights), 1))


class WeightedModels(InformedAttack[GuessedModels, AverageRules, ModelTruth]):
    """Divides by weights."""

    card = Card(
        "weighted-models",
        "a client reads other clients' models off what it gets for its weighted average of them",
        "FED-PUB (ICML 2023, https://arxiv.org/abs/2206.10206) section 4: similarities of functional embeddings "
        "are the weights",
        Role.SILO,
        Secret.SUMMAND,
        PERSONAL_AVERAGES,
        FEDPUB,
        auxiliary="the rules of the method, which all clients know",
        truth=ModelTruth,
        page="reproduction/docs/fedpub.md",
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

    card = Card(
        "average-classes",
        "a client tells by the last bias which classes other clients train on",
        "signs of last-layer gradients, after iDLG (Zhao, Mopuri and Bilen 2020)",
        Role.SILO,
        DataSecret.CLASS_PRESENCE,
        PERSONAL_AVERAGES,
        FEDPUB,
        minimum=0.9,
        auxiliary="the rules of the method, which all clients know",
        truth=ModelTruth,
        page="reproduction/docs/fedpub.md",
        knowledge=AverageRules,
    )

    def infer_with(self, view: View, public: PublicParameters, known: AverageRules) -> GuessedClasses | None:  # noqa: ARG002  # needs no parameter
        """Classes whose bias went up."""
        result = guessed_models(view, known)
        if result is None:
            return None
        moved = result.models[:, known.last_bias] - result.start[known.last_bias]
        return GuessedClasses(result.observers, result.clients, moved > 0)

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

    card = Card(
        "functional-embeddings",
        "a client tells by functional embeddings which of two others has labels more like its own",
        "FED-PUB (ICML 2023, https://arxiv.org/abs/2206.10206) section 4.1: embeddings are alike where subgraphs are",
        Role.SILO,
        DataSecret.LABEL_SHARES,
        PERSONAL_AVERAGES,
        FEDPUB,
        minimum=0.8,
        truth=ModelTruth,
        page="reproduction/docs/fedpub.md",
    )

    def infer(self, view: View, public: PublicParameters) -> NearerClients | None:  # noqa: ARG002  # needs no parameter
        """For every client; None if no client received two others' embeddings."""
        result = []
        for client in client_models(view):
            first, second = np.triu_indices(len(client.others), 1)
            if len(first):
                like = client.embeddings @ client.own / np.maximum(np.linalg.norm(client.embeddings, axis=1), 1e-300)
                nearer = np.where(like[first] >= like[second], first, second)
                named = client.others[np.stack([nearer, first + second - nearer])]
                result.append(np.concatenate([np.full((1, len(first)), client.client), named]))
        return NearerClients(*np.concatenate(result, axis=1)) if result else None

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
        finding = (
            f"{int((margin > TIED).sum()):,} of {int(clear.sum()):,} times the client of more like labels is told."
        )
        return (Measurement.of_area("likeness told", share.value, share.interval, share.n, finding),)
