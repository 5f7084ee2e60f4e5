"""HiFGL on features that devices perturb once: what leaves a device, what is averaged, and what a run reports."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure import audit, train
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, datasets
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods import HiFGL, LocalPerturbation
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import PAYLOAD, Channel, Direction, Recording, Role
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.graphs import joined_digits, two_communities

GRAPH = two_communities()
QUICK = replace(HONEST, hidden=4, epochs=2)


def recorded(graph: FederatedGraph, local: LocalPerturbation | None) -> Channel:
    """A run of two rounds in the clear, whose every message is kept."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    silos_of(graph, Plaintext(), QUICK, perturbation=local).train(channel)
    return channel


def with_features(rows: NDArray[Any]) -> FederatedGraph:
    return replace(GRAPH, graph=replace(GRAPH.graph, stored=read_only(rows.astype(np.float32))))


def said(channel: Channel) -> list[bytes]:
    fields = (batch.fields or {} for batch in channel.transcript.messages)
    return [array.tobytes() for each in fields for array in each.values()]


@pytest.mark.parametrize("local", [None, LocalPerturbation(1e-6, hops=2), LocalPerturbation(40.0, hops=2)])
def test_features_leave_devices_perturbed_alone(local: LocalPerturbation | None) -> None:
    """At an epsilon of 10^-6 and equal coins, runs on two sets of features say the same, bit by bit.

    Without perturbation, and at an epsilon that hides nothing, they differ.
    """
    first, second = (np.random.default_rng(seed).random(GRAPH.graph.features.shape) for seed in (1, 2))
    equal = said(recorded(with_features(first), local)) == said(recorded(with_features(second), local))
    assert equal == (local is not None and local.epsilon < 1)


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
    assert cost.accuracy_blind is not None
    assert (done.result.accuracy.test or 0) > 0.75
    assert 0.5 < cost.measured.bound.epsilon <= 1.0
    assert (cost.measured.claimed, cost.delta, cost.releases) == (1.0, 0.0, 1)


def test_a_report_says_that_attacks_read_perturbed_rows() -> None:
    method = HiFGL(epochs=1, perturbation=LocalPerturbation(1.0, hops=1))
    report = audit(method, two_communities(), "plaintext", attacks=["clear-values"], device="cpu")
    assert any("perturb their features" in note for note in report.notes)


def test_a_program_that_is_taken_up_again_draws_nothing_anew() -> None:
    """Two draws of one row would cost twice the epsilon."""
    job = silos_of(GRAPH, Plaintext(), QUICK, perturbation=LocalPerturbation(1.0))
    first, again = (job.opened(job.channel(SimulationCoins(seed))).programs[0] for seed in (0, 1))
    drawn = first.state()["perturbed"]
    assert not np.array_equal(again.state()["perturbed"], drawn)
    again.restore(first.state())
    assert np.array_equal(again.state()["perturbed"], drawn)


@pytest.mark.parametrize(
    ("choices", "named"),
    [
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
