"""Federated averaging: what clients send, what the server learns, and bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.model import Convolution, GradientModel
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, load, partition, random_split
from fgl_secure.methods.fedavg.training import FedAvg, LocalTraining
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from fgl_secure.training.server_sums import BOUND, SERVER_SUM, CollectiveMean
from tests.sums import clear_mean

SMALL = replace(HONEST, hidden=8)


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    """The embedded graph, dealt to three clients."""
    digits = load("digits")
    silo_of = partition("random", digits, 3, 0)
    return FederatedGraph.from_assignment(digits, silo_of, random_split(digits.num_nodes, 0))


def channel_of(graph: FederatedGraph) -> Channel:
    """A channel that records everything."""
    return Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())


def sent(channel: Channel) -> NDArray[np.float32]:
    """The updates that went to the server in the clear, [K, P]."""
    (batch,) = (each for each in channel.transcript.messages if each.phase is Phase.VECTORS)
    assert batch.payload is not None
    updates: NDArray[np.float32] = (batch.payload[:, :-1] / batch.payload[:, -1:]).astype(np.float32)
    return updates


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_an_update_of_one_step_is_the_gradient_of_the_published_model(graph: FederatedGraph, backbone: str) -> None:
    """What a client sends is the gradient that the server computes from the client's subgraph, batch and weights."""
    channel = channel_of(graph)
    method = FedAvg(graph, SMALL, clear_mean(channel), local=LocalTraining(batch=4), backbone=backbone)
    widths, weights = SMALL.widths(graph.graph.num_features, graph.num_classes), method.weights.astype(np.float64)
    method.round(0)
    model = GradientModel(Convolution(backbone), widths, weights)
    assert model.layout.names == tuple(name for name, _ in method.layout)
    for client, update in enumerate(sent(channel)):
        held, batch = method.clients[client], method.batches[client]
        places = torch.from_numpy(np.searchsorted(held.members, batch))
        expected = model.gradient(held.features.double(), held.edges, held.labels[places], places)
        np.testing.assert_allclose(update, expected.detach().numpy(), atol=1e-5)


def test_the_secured_mean_is_that_of_the_clear_within_half_a_unit(graph: FederatedGraph) -> None:
    """Under masks the server takes the same weighted mean up to 2^-(f + 1), and gets no update of one client."""
    rows = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    weights, channel = np.array([1, 7, 300]), channel_of(graph)
    secured = CollectiveMean(PairwiseMasking(), channel, 300)
    mean = secured(rows, weights, Step(0))
    assert np.abs(mean - np.average(rows.astype(np.float64), axis=0, weights=weights)).max() <= 2.0 ** -(
        secured.grid.fraction_bits + 1
    )
    assert not [batch for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
    noted = [batch for batch in channel.transcript.private if batch.name == SERVER_SUM]
    assert [batch.owners.tolist() for batch in noted] == [channel.parties.ids(Role.SERVER).tolist()]
    np.testing.assert_allclose(noted[0].values[0], np.append(308 * mean, 308))


def test_training_learns_and_secured_training_learns_the_same(graph: FederatedGraph) -> None:
    """Eight rounds reach two thirds of the test nodes, and under masks the same ones but for a node in a hundred."""
    test, labels = graph.test_mask, graph.labels
    found = []
    for secured in (False, True):
        channel = Channel(hierarchy_of(graph), SimulationCoins(0))
        updates = CollectiveMean(PairwiseMasking(), channel, graph.num_devices) if secured else clear_mean(channel)
        method = FedAvg(graph, replace(HONEST, hidden=16, learning_rate=0.05), updates)
        losses = [method.round(number) for number in range(8)]
        assert losses[-1] < losses[0]
        found.append((method.predict().argmax(dim=1).numpy() == labels)[test])
    assert found[0].mean() > 2 / 3
    assert (found[0] != found[1]).mean() <= 0.01


def test_several_local_steps_go_along_several_gradients(graph: FederatedGraph) -> None:
    """The update of two steps is the sum of the gradients at the model and one step away from it."""
    updates = []
    for steps in (1, 2):
        channel = channel_of(graph)
        FedAvg(graph, SMALL, clear_mean(channel), local=LocalTraining(steps, rate=1e-9)).round(0)
        updates.append(sent(channel))
    np.testing.assert_allclose(updates[1], 2 * updates[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, BOUND * 1.01])
def test_an_update_beyond_the_bound_is_refused(graph: FederatedGraph, value: float) -> None:
    """NaN, infinities and entries beyond the bound raise before a message is sent."""
    channel, rows = channel_of(graph), np.zeros((3, 4), dtype=np.float32)
    rows[1, 2] = value
    with pytest.raises(InputError, match=r"finite|exceed the bound 64"):
        CollectiveMean(PairwiseMasking(), channel, 1)(rows, np.ones(3, dtype=np.int64), Step(0))
    assert not channel.transcript.messages


@pytest.mark.parametrize("weights", [[1, 1, 0], [1, 1, 11], [-1, 1, 1]])
def test_weights_out_of_range_are_refused(graph: FederatedGraph, weights: list[int]) -> None:
    """A weight of none, a negative one and one beyond the stated largest raise before a message is sent."""
    channel = channel_of(graph)
    with pytest.raises(InputError, match=r"weights must lie in 1\.\.10"):
        CollectiveMean(PairwiseMasking(), channel, 10)(np.zeros((3, 4), dtype=np.float32), np.array(weights), Step(0))
    assert not channel.transcript.messages


def test_bad_choices_are_refused(graph: FederatedGraph) -> None:
    """Unknown backbones, numbers out of range, a field without room and clients without labels raise by name."""
    channel = channel_of(graph)
    with pytest.raises(UnknownNameError, match="backbone"):
        FedAvg(graph, SMALL, clear_mean(channel), backbone="gat")
    for wrong in ({"steps": 0}, {"batch": 0}, {"rate": 0.0}, {"rate": float("nan")}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
            LocalTraining(**wrong)
    with pytest.raises(FieldRangeError, match="must stay within the limit"):
        CollectiveMean(PairwiseMasking(), channel, 2**60)
    unlabelled = replace(graph, train_mask=graph.train_mask & (graph.silo_of != 1))
    with pytest.raises(InputError, match="client 1 has none"):
        FedAvg(unlabelled, SMALL, clear_mean(channel))
