"""HiFGL on features that devices perturb once: what leaves a device, what is averaged, and what a run reports."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure import audit, train
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import local as local_dp
from fgl_secure.errors import DataWarning, InputError
from fgl_secure.graph import FederatedGraph, datasets
from fgl_secure.methods import HiFGL, LocalPerturbation
from fgl_secure.methods.hifgl.audit_target import measure_perturbation
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import PAYLOAD, Channel, Direction, Recording, Role, Transcript
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.graphs import joined_digits, two_communities

QUICK = replace(HONEST, hidden=4, epochs=2)


def recorded(graph: FederatedGraph, local: LocalPerturbation | None) -> Channel:
    """A run of two unprotected rounds, whose every message is kept."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    silos_of(graph, Plaintext(), QUICK, perturbation=local).train(channel)
    return channel


def payloads(transcript: Transcript) -> list[bytes]:
    fields = [batch.fields for batch in transcript.messages if batch.fields is not None]
    return [array.tobytes() for one in fields for array in one.values()]


def with_random_features(seed: int) -> FederatedGraph:
    """The graph with features in [0, 1) that reveal nothing of it."""
    graph = two_communities()
    return graph.with_features(np.random.default_rng(seed).random(graph.graph.features.shape))


GRAPH, OTHER_FEATURES = with_random_features(1), with_random_features(2)


@pytest.mark.parametrize("local", [None, LocalPerturbation(1e-6, hops=2), LocalPerturbation(40.0, hops=2)])
def test_messages_depend_on_features_via_the_perturbation_alone(local: LocalPerturbation | None) -> None:
    """At an epsilon of 10^-6 and with equal coins, all messages of runs on two sets of features are equal.

    Negative controls: without perturbation, and at an epsilon that hides nothing, they differ.
    """
    first, second = (payloads(recorded(graph, local).transcript) for graph in (GRAPH, OTHER_FEATURES))
    assert (first == second) == (local is not None and local.epsilon < 1)


@pytest.mark.parametrize("local", [None, LocalPerturbation(1e-6, hops=0)])
def test_attacks_get_perturbed_features(local: LocalPerturbation | None) -> None:
    """Runs that an audit makes for attacks exchange equal rows for two sets of features; a plain audit's differ."""
    by_graph = []
    for graph in (GRAPH, OTHER_FEATURES):
        (subject,) = HiFGL(epochs=1, perturbation=local).plan(graph, ("plaintext",), device="cpu").subjects
        runs = list(subject.runs(subject.train(coins=SimulationCoins(0))))
        assert len(runs) > 1
        by_graph.append([payloads(run.transcript) for run in runs[1:]])
    assert (by_graph[0] == by_graph[1]) == (local is not None)


def test_features_outside_the_range_are_not_moved_silently() -> None:
    graph = GRAPH.with_features(np.full(GRAPH.graph.features.shape, 1.5))
    with pytest.warns(DataWarning):
        recorded(graph, LocalPerturbation(1.0, hops=1))


def test_devices_pass_on_means_of_what_their_neighbours_sent() -> None:
    """Hop after hop, as a dense matrix has them; and perturbed rows are sent in the first round alone."""
    hops, layers = 3, QUICK.layers
    channel = recorded(GRAPH, LocalPerturbation(2.0, hops=hops))
    devices = channel.parties.ids(Role.DEVICE)
    rows: dict[int, NDArray[np.float64]] = {}
    for batch in channel.transcript.messages:
        if batch.phase.label == "values" and batch.step.layer >= layers:
            assert (batch.step.round, batch.step.direction) == (0, Direction.FORWARD)
            sent = np.zeros((GRAPH.num_devices, batch[PAYLOAD].shape[1]))
            sent[np.searchsorted(devices, batch.senders)] = batch[PAYLOAD]
            rows[batch.step.layer - layers] = rows.get(batch.step.layer - layers, 0) + sent
    assert sorted(rows) == list(range(hops))
    weights = np.zeros((GRAPH.num_devices,) * 2)
    weights[GRAPH.edges[1], GRAPH.edges[0]] = 1
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1)
    for hop in range(1, hops):
        speaks = np.abs(rows[hop]).sum(axis=1) > 0
        assert speaks.any()
        np.testing.assert_allclose(rows[hop][speaks], (weights @ rows[hop - 1])[speaks], atol=1e-6)


def test_digits_are_learnt_from_perturbed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four at epsilon 1, beside the accuracy without features, and a lower bound below the claim."""
    monkeypatch.setattr(datasets, "load_digits_graph", lambda: joined_digits(600))
    done = train(HiFGL(epochs=20, perturbation=LocalPerturbation(1.0, hops=4)), "digits", "plaintext")
    cost = done.privacy
    assert cost is not None
    assert cost.accuracy_without_features is not None
    assert (done.result.accuracy.test or 0) > 0.75
    assert 0.5 < cost.measured.bound.epsilon <= 1.0
    assert (cost.measured.claimed, cost.delta, cost.releases) == (1.0, 0.0, 1)


@pytest.mark.parametrize("mechanism", ["multi-bit", "gaussian"])
def test_a_lower_bound_rejects_a_larger_epsilon_than_claimed(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the same mechanism at 2.5 times the epsilon."""
    local, perturb = LocalPerturbation(1.0, mechanism=mechanism), local_dp.perturb
    assert measure_perturbation(local, 30, 100, seed=0)[0].bound.epsilon <= 1.0

    def perturb_less(rows: NDArray[Any], epsilon: float, **choices: Any) -> local_dp.PerturbedRows:
        return perturb(rows, 2.5 * epsilon, **choices)

    monkeypatch.setattr(local_dp, "perturb", perturb_less)
    assert measure_perturbation(local, 30, 100, seed=0)[0].bound.epsilon > 1.0


def test_a_report_says_that_attacks_read_perturbed_rows() -> None:
    method = HiFGL(epochs=1, perturbation=LocalPerturbation(1.0, hops=1))
    report = audit(method, GRAPH, "plaintext", attacks=["clear-values"], device="cpu")
    assert any("perturb their features" in note for note in report.notes)


def test_a_program_that_is_taken_up_again_draws_nothing_anew() -> None:
    """Two draws of one row would cost twice the epsilon."""
    job = silos_of(GRAPH, Plaintext(), QUICK, perturbation=LocalPerturbation(1.0))
    first, again = (job.open(job.channel(SimulationCoins(seed))).programs[0] for seed in (0, 1))
    perturbed = first.state()["perturbed"]
    assert not np.array_equal(again.state()["perturbed"], perturbed)
    again.restore(first.state())
    assert np.array_equal(again.state()["perturbed"], perturbed)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 1.0, "hops": -1}, "hops"),
        ({"epsilon": 1.0, "mechanism": "laplace"}, "mechanism"),
        ({"epsilon": 1.0, "least": 1.0}, "largest"),
        ({"epsilon": 1.0, "delta": 1e-5}, "delta"),
    ],
)
def test_bad_choices_are_refused(choices: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, check=about(named)):
        LocalPerturbation(**choices)


def test_noise_in_messages_and_perturbed_features_exclude_each_other() -> None:
    with pytest.raises(InputError, check=about("perturbation")):
        HiFGL(privacy=EmbeddingPrivacy(8.0), perturbation=LocalPerturbation(8.0))
