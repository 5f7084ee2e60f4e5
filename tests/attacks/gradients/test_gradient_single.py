from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge, client_gradients
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.gradients.sums import Population
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.updates import Suspects
from fgl_secure.errors import InputError
from fgl_secure.runtime import PublicParameters, Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_runs import (
    GradientConformance,
    Setting,
    SumConformance,
    clusters,
    gradients,
    model_of,
    record_pairs,
    record_round,
    record_static,
)
from tests.attacks.recorded import Run
from tests.error_codes import about


class TestGradientLabels(GradientConformance):
    attack = named("gradient-labels")

    def claims(self, guess: Any) -> Claims:
        pairs = zip(guess.members, guess.counts.tolist(), strict=True)
        return Counter((tuple(clients.tolist()), tuple(counts)) for clients, counts in pairs)

    @pytest.mark.parametrize(
        ("convolution", "hidden"), [(Convolution.GCN, 64), (Convolution.SAGE, 64), (Convolution.SGC, 0)]
    )
    def test_reads_the_label_of_one_node(self, convolution: Convolution, hidden: int) -> None:
        """The only negative entry is the label, whatever the model."""
        run = record_round(clusters(silos=20), Setting(convolution, hidden, batch=1, dtype="float32"))
        assert measured(self.attack, run)["labels of batches"].value == 1

    def test_counts_labels_of_sums(self) -> None:
        """A sum over clients gives the labels of all their batches together."""
        run = record_round(clusters(), Setting(batch=4, summed=True))
        assert measured(self.attack, run)["labels of batches"].value > 0.7


def test_vectors_of_another_length_are_refused() -> None:
    run = record_round(clusters(nodes=80), Setting())
    wider = model_of(clusters(nodes=80), Setting(hidden=65))
    with pytest.raises(InputError, check=about("flat")):
        client_gradients(run.transcript.views(Role.SERVER), PublicParameters(), GradientKnowledge(wider))


SINGLE = Setting(hidden=0, batch=1)
MODELS = [SINGLE, replace(SINGLE, convolution=Convolution.SAGE), replace(SINGLE, convolution=Convolution.SGC, hops=2)]


class OfSingleNodes(GradientConformance):
    """What attacks on gradients of single nodes keep."""

    setting = SINGLE

    def read_nothing(self, run: Run) -> bool:
        """Whether the attack has no guess on a run."""
        return guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    @pytest.mark.parametrize("other", [Setting(batch=1), replace(SINGLE, batch=2), replace(SINGLE, summed=True)])
    def test_needs_one_layer_and_one_node(self, other: Setting) -> None:
        """Two layers, two nodes in a batch, or a sum over clients give no guess."""
        assert self.read_nothing(record_round(clusters(nodes=80), other))

    def test_noise_spoils_outer_products(self) -> None:
        assert self.read_nothing(record_round(clusters(nodes=80), replace(SINGLE, noise=1e-3)))


class TestGradientSingleRow(OfSingleNodes):
    attack = named("gradient-single-row")

    def claims(self, guess: Any) -> Claims:
        laid = np.hstack(list(guess.rows.values()))
        return Counter((client, tuple(row)) for client, row in zip(guess.clients.tolist(), laid.tolist(), strict=True))

    @pytest.mark.parametrize("setting", [*MODELS, replace(SINGLE, dtype="float32")])
    def test_reads_the_rows_of_every_model(self, setting: Setting) -> None:
        """Averaged rows, and a node's own row and its neighbours' mean, are read under every convolution."""
        run = record_round(clusters(silos=20), setting)
        assert measured(self.attack, run)["entering rows"].value == 1


class TestGradientSingleNeighbours(OfSingleNodes):
    attack = named("gradient-single-neighbours")

    def claims(self, guess: Any) -> Claims:
        pairs = zip(guess.clients.tolist(), guess.fields, strict=True)
        return Counter((client, tuple(field.tolist())) for client, field in pairs if len(field))

    @pytest.mark.parametrize("setting", MODELS)
    def test_finds_neighbourhoods_of_every_model(self, setting: Setting) -> None:
        """Nodes and their neighbours are found under every convolution, also by a party that knows no owners."""
        found = measured(self.attack, record_round(clusters(silos=20), replace(setting, owners=False)))
        assert found["neighbourhoods found"].value > 0.98
        assert found["neighbourhoods claimed"].value > 0.98

    def test_needs_public_features(self) -> None:
        run = self.run()
        known = [GradientKnowledge(run.knows(GradientKnowledge).model)]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), PublicParameters(), known) is None


Floats = NDArray[np.float64]


def expected_accuracy(width: int, clients: int) -> float:
    """Phi(mu / 2) with mu^2 = 2 d / (n - 1): for d independent entries and n clients whose updates are drawn alike."""
    return float(stats.norm.cdf(np.sqrt(2 * width / (clients - 1)) / 2))


class TestSumMembership(SumConformance):
    attack = named("sum-membership")

    def record(self) -> Run:
        return record_pairs(4, 20, 3)

    def claims(self, guess: Any) -> Claims:
        named = map(tuple, np.round(guess.named, 9).tolist())
        return Counter(zip(guess.rounds.tolist(), guess.clients.tolist(), named, strict=True))

    def test_many_clients_hide_narrow_updates(self) -> None:
        """With ten entries and a hundred clients the updates are told apart little better than by a coin."""
        found = measured(self.attack, record_pairs(100, 10, 4))["updates told apart"]
        assert found.value < 0.35
        assert found.interval.contains(2 * expected_accuracy(10, 100) - 1, 0.1)

    def test_refuses_pairs_of_another_shape(self) -> None:
        run = self.run()
        known = run.knows(Suspects)
        fewer = Suspects(known.population, {0: known.pairs[0][:3]})
        with pytest.raises(InputError, check=about("pairs of round 0")):
            self.read(run.told(fewer))


def decided(population: Population, clients: int, width: int, trials: int, sampled: int = 2) -> float:
    """How often the right one of two normal updates is named, the others' sum drawn from its own distribution."""
    rng = np.random.default_rng(sampled)
    first, second = rng.normal(size=(2, trials, width))
    total = first + rng.normal(scale=(clients - 1) ** 0.5, size=first.shape)
    return float((population.ratio(total, first, second, clients - 1) > 0).mean())


@pytest.mark.parametrize(("clients", "published"), [(100, 0.988), (1000, 0.760)])
def test_accuracy_is_as_the_formula_says(clients: int, published: float) -> None:
    """A thousand entries are told apart with .988 among a hundred clients and .760 among a thousand."""
    known = Population.normal(np.zeros(1000), np.eye(1000))
    assert expected_accuracy(1000, clients) == pytest.approx(published, abs=5e-4)
    assert decided(known, clients, 1000, 800) == pytest.approx(published, abs=0.05)


def test_accuracy_depends_on_the_effective_rank() -> None:
    """Updates of a thousand entries that vary along ten directions only are as hard to tell as ten entries."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(1000, 10)))[0].T
    population = Population.of(rng.normal(size=(500, 10)) @ axes, energy=0.999)
    assert population.whitening.shape == (10, 1000)
    first, second = (rng.normal(size=(300, 10)) @ axes for _ in range(2))
    assert population.accuracy(first, second, 99).mean() == pytest.approx(expected_accuracy(10, 100), abs=0.02)


def test_recorded_gradients_are_told_apart_as_the_formula_says() -> None:
    """Gradients of a model, which are far from normal, are told apart about as well: .9 and more among ten clients."""
    graph = clusters(nodes=300, silos=6, words=60)
    rng = np.random.default_rng(0)
    batches = tuple(np.sort(rng.choice(300, 4, replace=False)) for _ in range(260))
    sent = gradients(graph, model_of(graph, Setting(hidden=16)), batches)
    population = Population.of(sent[:200])
    right, expected = [], []
    for at in range(200, 260, 20):
        first, second = sent[at : at + 10], sent[at + 10 : at + 20]
        right.append(population.ratio(np.broadcast_to(first.sum(axis=0), first.shape), first, second, 9) > 0)
        expected.append(population.accuracy(first, second, 9))
    assert np.mean(right) >= 0.9
    assert np.mean(right) == pytest.approx(np.mean(expected), abs=0.07)


def test_a_sum_without_the_client_is_a_coin() -> None:
    """Null control: where neither update is in the sum, each is named half of the time."""
    rng = np.random.default_rng(3)
    known = Population.normal(np.zeros(50), np.eye(50))
    first, second, others = rng.normal(size=(3, 2000, 50))
    named = int((known.ratio(others * 3, first, second, 9) > 0).sum())
    assert stats.binomtest(named, 2000).pvalue > 1e-3


@pytest.mark.parametrize(
    ("updates", "energy", "message"),
    [
        (np.zeros((9, 3)), 0.9, "updates"),
        (np.zeros((20, 3)), 0.9, "updates"),
        (np.ones(20), 0.9, "updates"),
        (np.eye(20), 0.0, "energy"),
    ],
)
def test_refuses_samples_that_say_nothing(updates: Floats, energy: float, message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        Population.of(updates, energy)


def test_refuses_a_sum_of_one() -> None:
    known = Population.normal(np.zeros(2), np.eye(2))
    with pytest.raises(InputError, check=about("others")):
        known.accuracy(np.ones((1, 2)), np.zeros((1, 2)), 0)


def at_random(rounds: int, clients: int, seed: int = 0) -> NDArray[np.bool_]:
    """Every client takes part in a round with probability one half."""
    return np.random.default_rng(seed).random((rounds, clients)) < 0.5


def in_groups(rounds: int, clients: int, size: int) -> NDArray[np.bool_]:
    """Fixed groups of some clients that take part together or not at all."""
    return np.repeat(at_random(rounds, clients // size), size, axis=1)


class TestRoundDisaggregation(SumConformance):
    attack = named("round-disaggregation")

    def record(self) -> Run:
        return record_static(at_random(16, 8))

    def claims(self, guess: Any) -> Claims:
        return Counter(zip(guess.clients.tolist(), map(tuple, np.round(guess.updates, 9).tolist()), strict=True))

    def test_groups_that_come_together_expose_nobody(self) -> None:
        """Under batch partitioning into groups of four no update is solved, and no leverage exceeds a quarter."""
        found = measured(self.attack, record_static(in_groups(60, 40, 4)))
        assert found["updates solved"].value == found["clients exposed"].value == 0
        assert "the largest leverage is 0.25." in found["clients exposed"].finding

    def test_random_participation_exposes_all_after_about_as_many_rounds_as_clients(self) -> None:
        few, many = (measured(self.attack, record_static(at_random(rounds, 40))) for rounds in (20, 45))
        assert (few["clients exposed"].value, many["clients exposed"].value) == (0, 1)

    def test_updates_that_change_are_not_solved(self) -> None:
        """Who took part when exposes all, but what changes from round to round by a tenth is not recovered."""
        found = measured(self.attack, record_static(at_random(60, 40), drift=0.1))
        assert found["clients exposed"].value == 1
        assert found["updates solved"].value == 0
