"""Federated averaging: what clients send, what the server learns, and bad input."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.attacks.gradients.knowledge import update_sums
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp.accountant import gaussian_epsilon
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, load, partition, random_split
from fgl_secure.methods.fedavg.audit_runs import drawn_batches, gradient_model
from fgl_secure.methods.fedavg.audit_target import local_of
from fgl_secure.methods.fedavg.configuration import FedAvg as Choices
from fgl_secure.methods.fedavg.program import (
    FedAvgClient,
    GradientNoise,
    LocalTraining,
    NoisyUpdates,
    UpdateRule,
    batch_of,
    clients_of,
    draws_of,
)
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset
from tests.error_codes import about
from tests.graphs import lacking, two_communities
from tests.training.processes.runs import agree_with_one_process

SMALL = replace(HONEST, hidden=8)
CLEAR = UpdateRule(Plaintext(threshold=1))


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
    messages = channel.transcript.messages
    (batch,) = (each for each in messages if each.phase is Phase.VECTORS and not each.step.evaluation)
    assert batch.payload is not None
    updates: NDArray[np.float32] = (batch.payload[:, :-1] / batch.payload[:, -1:]).astype(np.float32)
    return updates


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_an_update_of_one_step_is_the_gradient_of_the_published_model(graph: FederatedGraph, backbone: str) -> None:
    """What a client sends is the gradient that the server computes from the client's subgraph, batch and weights."""
    channel, local, batches = channel_of(graph), LocalTraining(batch=4), drawn_batches(graph, 4, 0)
    clients = clients_of(graph, CLEAR, SMALL, local, backbone=backbone, first=batches).open(channel)
    first = clients.programs[0]
    assert isinstance(first, FedAvgClient)
    model = gradient_model(graph, SMALL, local, backbone, 0)
    assert model.layout.names == tuple(name for name, _ in first.layers.named_parameters())
    clients.round(0)
    for client, update in enumerate(sent(channel)):
        members, inside = graph.devices_of(client), graph.restricted_to_silos().edges
        edges = np.searchsorted(members, inside[:, graph.silo_of[inside[0]] == client])
        places = torch.from_numpy(np.searchsorted(members, batches[client]))
        x, labels = torch.tensor(graph.features[members]).double(), torch.tensor(graph.labels[members])
        expected = model.gradient(x, torch.from_numpy(edges), labels[places], places)
        np.testing.assert_allclose(update, expected.detach().numpy(), atol=1e-5)


def test_under_masks_the_server_learns_sums_alone(graph: FederatedGraph) -> None:
    """No update, no count and no loss of one client reaches it; what it has is their sums, and an update's is read."""
    preset = replace(SMALL, epochs=2)
    channels = [channel_of(graph), channel_of(graph)]
    for channel, scheme in zip(channels, (Plaintext(), PairwiseMasking()), strict=True):
        clients_of(graph, UpdateRule(scheme), preset).train(channel)
        phases = {b.phase for b in channel.transcript.messages if channel.parties.ids(Role.SERVER)[0] in b.receivers}
        assert not phases & {Phase.CORRECT, Phase.MODEL}
        assert (Phase.VECTORS in phases) == (scheme.name == "plaintext")
    single, summed = (channel.transcript.view([Party(Role.SERVER, 0)]) for channel in channels)
    assert not update_sums(single), "single updates arrived, which say more"
    assert list(update_sums(summed)) == [0, 1]


def test_training_learns_and_secured_training_learns_the_same(graph: FederatedGraph) -> None:
    """Eight rounds reach two thirds of the test nodes, and under masks the same accuracies and losses."""
    preset, found = replace(HONEST, epochs=8, hidden=16, learning_rate=0.05), []
    for scheme in (Plaintext(), PairwiseMasking()):
        channel = Channel(hierarchy_of(graph), SimulationCoins(0))
        found.append(clients_of(graph, UpdateRule(scheme), preset).train(channel))
    clear, masked = found
    assert clear.losses[-1] < clear.losses[0]
    assert clear.accuracy.test is not None
    assert clear.accuracy.test > 2 / 3
    assert (clear.accuracy, clear.losses) == (masked.accuracy, masked.losses)


def test_fedprox_pulls_steps_to_the_servers_model(graph: FederatedGraph) -> None:
    """The update of three steps is the sum of the gradients and of mu times the way from where the round began."""
    rate, mu, local = 0.5, 3.0, LocalTraining(3, rate=0.5, proximal=3.0)
    channel = channel_of(graph)
    process = clients_of(graph, CLEAR, SMALL, local).open(channel)
    client = process.programs[1]
    assert isinstance(client, FedAvgClient)
    start = [each.detach().clone() for each in client.layers.parameters()]
    model = deepcopy(client.layers)
    places, total = np.flatnonzero(client.silo.train), [torch.zeros_like(each) for each in start]
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(client.scores(model)[places], client._labels[places])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        for w, gradient, so_far, anchor in zip(model.parameters(), gradients, total, start, strict=True):
            so_far.add_(gradient + mu * (w.detach() - anchor))
            w.data = anchor - rate * so_far
    process.round(0)
    expected = torch.cat([each.flatten() for each in total]).numpy()
    np.testing.assert_allclose(sent(channel)[1], expected, rtol=1e-4, atol=1e-5)
    free = channel_of(graph)
    clients_of(graph, CLEAR, SMALL, LocalTraining(3, rate=0.5)).open(free).round(0)
    assert np.abs(sent(free)[1] - expected).max() > 1e-3


def test_batches_are_drawn_anew_and_by_each_client_alone() -> None:
    """Other rounds and clients have other batches; the same ones are drawn again; few labelled nodes are all taken."""
    labelled = np.arange(100, 200)
    drawn = [batch_of(labelled, 8, draws_of(0, *of)) for of in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert np.array_equal(drawn[0], drawn[1])
    assert len({tuple(batch) for batch in drawn}) == 3
    assert all(np.isin(batch, labelled).all() and len(np.unique(batch)) == 8 for batch in drawn)
    assert batch_of(labelled, 100, draws_of(0, 0, 0)) is labelled


RUNS: dict[str, tuple[Preset, LocalTraining, str, Scheme, bool]] = {
    "batches, steps, decay": (
        replace(SMALL, epochs=3, decay_every=2), LocalTraining(2, batch=3), "sage", PairwiseMasking(), True,
    ),
    "stops early": (replace(SMALL, epochs=30, patience=1), LocalTraining(), "gcn", Plaintext(), False),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_process_for_each_client_trains_the_same_bits(name: str) -> None:
    """Losses, models, selected round and accuracies agree, though clients are put down after each turn."""
    preset, local, backbone, scheme, put_down = RUNS[name]
    held = two_communities(devices=48, silos=3)
    job = clients_of(held, UpdateRule(scheme), preset, local, backbone=backbone)
    agree_with_one_process(job, put_down=put_down)


def test_clients_add_the_noise_that_is_claimed_to_clipped_updates() -> None:
    """The sum that the server learns is off from that of the clipped updates by noise times clip, or a little more."""
    held, preset = two_communities(devices=48, silos=3), replace(SMALL, epochs=1)
    noise, scheme = DistributedNoise.of_multiplier(1.0, clip=0.05, delta=1e-5, rounds=1), PairwiseMasking()
    channel = channel_of(held)
    clients_of(held, UpdateRule(scheme, noise), preset).open(channel).round(0)
    plain = channel_of(held)
    clients_of(held, UpdateRule(Plaintext()), preset).open(plain).round(0)
    norms = np.linalg.norm(sent(plain), axis=1, keepdims=True)
    clipped = (sent(plain) / np.maximum(norms / 0.05, 1)).sum(axis=0)
    (total,) = update_sums(channel.transcript.view([Party(Role.SERVER, 0)])).values()
    assert norms.max() > 0.05
    assert 0.8 * 0.05 < (total[0] - clipped).std() < 3 * 0.05


@pytest.mark.parametrize(("rounds", "value", "message"), [(1, 0.0, "rounds"), (2, np.nan, "updates")])
def test_noise_beyond_the_budget_and_on_no_numbers_is_refused(rounds: int, value: float, message: str) -> None:
    """A round more than the budget is for, and an update that is none, raise before anything is sent."""
    held = two_communities(devices=48, silos=3)
    channel, noise = channel_of(held), DistributedNoise.of_multiplier(1.0, clip=1.0, delta=1e-5, rounds=rounds)
    comm = clients_of(held, CLEAR, SMALL).open(channel).programs[0].comm
    with pytest.raises(InputError, check=about(message)):
        NoisyUpdates(noise, 2, SimulationCoins(0)).mean(comm, np.full(4, value, dtype=np.float32), 1)
    assert not channel.transcript.messages


def test_bad_choices_are_refused(graph: FederatedGraph) -> None:
    """Unknown backbones, numbers out of range and clients without labels raise by name."""
    channel = channel_of(graph)
    with pytest.raises(UnknownNameError, check=about("backbone")):
        clients_of(graph, CLEAR, SMALL, backbone="gat").open(channel)
    for wrong in ({"steps": 0}, {"batch": 0}, {"rate": 0.0}, {"rate": float("nan")}, {"proximal": -1.0}):
        with pytest.raises(InputError, check=about(next(iter(wrong)))):
            LocalTraining(**wrong)
    for mu, steps in ((0.1, 1), (-0.1, 2), (float("inf"), 2)):
        with pytest.raises(InputError, check=about("proximal")):
            Choices(proximal=mu, local_steps=steps)
    assert local_of(Choices(proximal=0.1, local_steps=2)).proximal == 0.1
    unlabelled = replace(graph, train_mask=graph.train_mask & (graph.silo_of != 1))
    with pytest.raises(InputError, check=about("masks.train")):
        clients_of(unlabelled, CLEAR, SMALL).open(channel)


HELD = two_communities(devices=48, silos=3)
LACKING = {what: graph for what, graph in lacking(HELD).items() if what != "labels in a silo"}  # refused, see above


@pytest.mark.parametrize("what", LACKING)
def test_training_gets_over_what_is_absent(what: str) -> None:
    """Under masks as in the clear, with finite losses; isolated nodes are rows, and who has no test has no score."""
    graph, preset = LACKING[what], replace(SMALL, epochs=2)
    plain, masked = (
        clients_of(graph, UpdateRule(scheme), preset, LocalTraining(2, batch=3)).train()
        for scheme in (Plaintext(), PairwiseMasking())
    )
    assert np.isfinite(masked.losses).all()
    assert (masked.losses, masked.accuracy) == (plain.losses, plain.accuracy)
    scored = [share is not None for share in masked.accuracy.per_silo]
    assert scored == [bool((graph.test_mask & (graph.silo_of == silo)).any()) for silo in range(3)]


def test_noise_has_the_stated_width_and_epsilon() -> None:
    noise, rows = GradientNoise(0.5, clip=2.0), np.full((1, 10_000), 1.0, dtype=np.float32)
    moved = noise.apply(rows, SimulationCoins(0)) - 2.0 / 100
    assert abs(float(moved.std()) - 1.0) < 0.03
    assert abs(float(moved.mean())) < 0.04
    exact = gaussian_epsilon(0.5, 1e-5)
    assert exact < noise.epsilon(10_000, 1e-5) < 1.1 * exact
