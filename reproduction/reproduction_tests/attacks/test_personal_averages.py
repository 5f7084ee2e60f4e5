"""Attacks on what clients tell each other for weighted averages of their models."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.attacks.personal_averages import (
    OWN_EMBEDDING,
    WEIGHTED_SUM,
    AverageClasses,
    AverageMessage,
    AverageRules,
    FunctionalEmbeddings,
    GuessedClasses,
    GuessedModels,
    ModelTruth,
    NearerClients,
    WeightedModels,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, MessageKind, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims, measured
from tests.attacks.recorded import Run
from tests.attacks.virtual_nodes.virtual_node_runs import lonely

CLIENTS, WIDTH, ENTRIES, CLASSES, BITS = 6, 5, 11, 3, 40
RULES = AverageRules(np.zeros(ENTRIES), 5.0, BITS, slice(ENTRIES - CLASSES, ENTRIES))


def weights_of(embeddings: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """The soft-max of tau times cosines, row by row."""
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    powers = np.exp(temperature * (unit @ unit.T - 1))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def averages(
    loss: Loss | None = None, recording: Recording | None = None, *, summed: bool = False, rules: AverageRules = RULES
) -> Run:
    """One round: everybody's embedding to everybody, and models times weights, or their sums."""
    graph, rng = lonely(CLIENTS), np.random.default_rng(1)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    silos, step = channel.parties.ids(Role.SILO), Step(0)
    kinds = np.arange(CLIENTS) % CLASSES
    embeddings = np.eye(WIDTH)[kinds] + 0.1 * rng.normal(size=(CLIENTS, WIDTH))
    models = rng.normal(size=(CLIENTS, ENTRIES))
    models[:, -CLASSES:] = np.where(np.eye(CLASSES)[kinds] > 0, 0.01, -0.01)
    sender, receiver = np.nonzero(~np.eye(CLIENTS, dtype=np.bool_))
    channel.note_inputs(OWN_EMBEDDING, step, silos, embeddings)
    channel.send(AverageMessage.FUNCTIONAL_EMBEDDINGS, step, silos[sender], silos[receiver], embeddings[sender])
    terms = weights_of(embeddings, rules.temperature)[receiver, sender][:, None] * models[sender]
    units = np.rint(np.ldexp(terms, BITS)).astype(np.int64)
    if summed:
        sums = np.stack([units[receiver == each].sum(axis=0) for each in range(CLIENTS)])
        channel.note_outputs(WEIGHTED_SUM, step, silos, sums)
    else:
        channel.send(Phase.VECTORS, step, silos[sender], silos[receiver], units)
    truth = ModelTruth(models, np.eye(CLASSES)[kinds])
    return Run(graph, PublicParameters(), channel.transcript, truth, (rules,))


class PersonalConformance(AttackConformance):
    """Inherit as `Test...`, and name the attack and its claims."""

    needs_edges = False
    rests_on: tuple[frozenset[MessageKind], ...] = (
        frozenset({Phase.VECTORS}),
        frozenset({AverageMessage.FUNCTIONAL_EMBEDDINGS}),
    )

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Terms in the clear."""
        return averages(loss, recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        """The same round."""
        return self.run(**network)


class TestWeightedModels(PersonalConformance):
    attack = WeightedModels()

    def claims(self, guess: GuessedModels) -> Claims:
        rows = np.round(guess.models, 6).tolist()
        return Counter(zip(guess.clients.tolist(), map(tuple, rows), strict=True))

    def test_a_sum_is_no_model(self) -> None:
        """Of the sum alone its mean is said of everybody, which is nobody's."""
        assert measured(self.attack, averages())["models read"].value == 1
        assert measured(self.attack, averages(summed=True))["models read"].value == 0

    def test_a_sum_that_one_client_weighs_all_of_is_its_model(self) -> None:
        """As the claims have it: where one other client alone is alike and tau is large, its model is all one gets."""
        run = averages(summed=True, rules=replace(RULES, temperature=60.0))
        assert measured(self.attack, run)["models read"].value == pytest.approx(1 / (CLIENTS - 1))


class TestAverageClasses(PersonalConformance):
    attack = AverageClasses()

    def claims(self, guess: GuessedClasses) -> Claims:
        return Counter(zip(guess.clients.tolist(), map(tuple, guess.present.tolist()), strict=True))

    def test_reads_models_one_by_one(self) -> None:
        """Whose last bias went up for one class alone."""
        found = measured(self.attack, averages())["classes told"]
        assert found.value == 1
        assert found.prior == pytest.approx(2 / 3)


class TestFunctionalEmbeddings(PersonalConformance):
    attack = FunctionalEmbeddings()
    rests_on = (frozenset({AverageMessage.FUNCTIONAL_EMBEDDINGS}),)

    def claims(self, guess: NearerClients) -> Claims:
        return Counter(zip(guess.observers.tolist(), guess.nearer.tolist(), guess.farther.tolist(), strict=True))

    def test_masks_do_not_help(self) -> None:
        """Embeddings are told whatever adds models up."""
        assert measured(self.attack, averages(summed=True))["likeness told"].value == 1

    def test_says_nothing_where_all_are_alike(self) -> None:
        """Without a client that is nearer there is nothing to be right about."""
        run: Any = averages()
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        assert self.attack.score(guess, replace(run.truth, label_shares=np.ones((CLIENTS, CLASSES)))) == ()
