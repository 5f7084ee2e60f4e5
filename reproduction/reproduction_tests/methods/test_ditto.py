"""Ditto: what clients send is federated averaging, and what they predict with stays where it is."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from fgl_reproduction.methods import Ditto
from fgl_reproduction.methods.ditto import program
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import FedAvg
from fgl_secure.methods.fedavg.program import FedAvgClient as Averaging
from fgl_secure.methods.fedavg.program import LocalTraining, UpdateRule, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase
from fgl_secure.training.job import Job
from fgl_secure.training.presets import HONEST
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.methods.fedavg.test_program import channel_of
from tests.training.processes.runs import agree, apart, in_lockstep

SMALL = replace(HONEST, hidden=8, epochs=4)
STEPS = LocalTraining(steps=2, batch=3)
GRAPH = two_communities(devices=48, silos=3)


def job(graph: FederatedGraph = GRAPH, scheme: Scheme | None = None, *, pull: float = 0.5, steps: int = 2) -> Job:
    kind = partial(program.DittoClient, pull=pull, steps=steps)
    return clients_of(graph, UpdateRule(scheme or Plaintext()), SMALL, STEPS, kind=kind)


def personal(made: Job) -> list[Array]:
    """Every client's own parameters after training."""
    process = made.open(made.channel())
    for number in range(SMALL.epochs):
        process.round(number)
    return [each.report["own theta"] for each in process.programs]


def vectors(made: Job) -> list[Array]:
    """What goes to the server in the clear to train, in the order of its rounds."""
    channel = channel_of(GRAPH)
    made.train(channel)
    said = [each for each in channel.transcript.messages if each.phase is Phase.VECTORS and not each.step.evaluation]
    return [np.asarray(each.payload) for each in said]


def test_what_clients_send_is_federated_averaging() -> None:
    """To the bit, in every round: nothing of a personal model is in it."""
    averaging = vectors(clients_of(GRAPH, UpdateRule(Plaintext()), SMALL, STEPS))
    found = vectors(job())
    assert len(found) == len(averaging) == SMALL.epochs
    assert all(np.array_equal(one, other) for one, other in zip(found, averaging, strict=True))


def test_the_own_step_is_that_of_the_objective() -> None:
    """Along the gradient of the own loss at v, and lambda (v - w), with w as the round began."""
    made = job(steps=1, pull=0.7)
    process = made.open(made.channel())
    process.round(0)
    client = process.programs[1]
    assert isinstance(client, program.DittoClient)
    client._local = LocalTraining()  # all labelled nodes, so that nothing is drawn
    w = [each.detach().clone() for each in client.layers.parameters()]
    v = [each.detach().clone().requires_grad_() for each in client.personal.parameters()]
    places = torch.from_numpy(np.flatnonzero(client.silo.train))
    loss = functional.cross_entropy(client.scores(client.personal)[places], client._labels[places])
    expected = torch.autograd.grad(loss, list(client.personal.parameters()))
    process.round(1)
    for parameter, gradient, own, common in zip(client.personal.parameters(), expected, v, w, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient + 0.7 * (own - common), atol=1e-6)
        assert not torch.equal(own, common)


def test_without_a_pull_clients_learn_alone_and_with_one_together() -> None:
    """Other labels elsewhere change a client's own model exactly where lambda is not zero."""
    elsewhere = GRAPH.silo_of != 0
    labels = np.where(elsewhere, 1 - GRAPH.labels, GRAPH.labels)
    other = replace(GRAPH, graph=replace(GRAPH.graph, labels=labels))
    for pull in (0.0, 0.5):
        one, two = (personal(job(graph, pull=pull))[0] for graph in (GRAPH, other))
        assert np.array_equal(one, two) is (pull == 0)


def test_a_strong_pull_keeps_models_together() -> None:
    """Own models differ less from each other."""
    spread = [np.std(personal(job(pull=pull)), axis=0).mean() for pull in (0.0, 50.0)]
    assert spread[1] < spread[0] / 2


def test_masked_training_apart_is_that_in_the_clear_together() -> None:
    """Reports to the bit, with a process for each client, put down after each turn."""
    masked, clear = (job(scheme=each) for each in (PairwiseMasking(), Plaintext()))
    agree(apart(masked, put_down=True), in_lockstep(clear.open(clear.channel(SimulationCoins(0)))))


def test_claims_and_attacked_rounds_are_those_of_federated_averaging() -> None:
    """The same messages, so the same promises; of the report the own figures differ."""
    mine, theirs = (kind(epochs=1).plan(GRAPH) for kind in (Ditto, FedAvg))
    assert [dict(each.claims) for each in mine.subjects] == [dict(each.claims) for each in theirs.subjects]
    assert [each.name for each in mine.subjects] == [each.name for each in theirs.subjects]
    assert "to the bit" in mine.notes[-1]
    made = mine.subjects[0].job
    assert made is not None
    programs = made.open(made.channel()).programs
    assert all(isinstance(each, program.DittoClient) and isinstance(each, Averaging) for each in programs)


@pytest.mark.parametrize("pull", [-0.1, float("nan"), float("inf")])
def test_a_pull_must_be_zero_or_positive(pull: float) -> None:
    """Before anything runs."""
    with pytest.raises(InputError, check=about("pull")):
        Ditto(pull=pull)


def test_clients_of_one_class_train_and_clients_without_labels_are_refused() -> None:
    """A class that a client lacks is no hindrance; without a labelled node it has no loss of its own."""
    lacking = replace(GRAPH, train_mask=GRAPH.train_mask & ((GRAPH.labels == 0) | (GRAPH.silo_of != 1)))
    assert np.isfinite(job(lacking).train().losses).all()
    empty = replace(GRAPH, train_mask=GRAPH.train_mask & (GRAPH.silo_of != 1))
    with pytest.raises(FglSecureError, match="client 1 has none"):
        job(empty).train()


def test_isolated_nodes_are_trained_on_and_predicted() -> None:
    """A graph without edges is a set of rows."""
    none = replace(GRAPH, graph=replace(GRAPH.graph, edges=GRAPH.edges[:, :0]))
    result = job(none).train()
    assert np.isfinite(result.losses).all()
    assert result.accuracy.test is not None
