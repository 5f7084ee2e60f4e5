"""Frameworks: HiFGL's program on other edges and under other federations."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from fgl_reproduction.tables.hifgl_baselines import (
    FEDAVG,
    FEDPER,
    FEDPROX,
    GLOBAL,
    HIFGL,
    LOCAL,
    LOCAL_MLP,
    Framework,
    HiFGLUnderAveraging,
    ModelAveraging,
    train_framework,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, Role
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Federation, Preset
from tests.graphs import two_communities
from tests.methods.hifgl.test_program import RATE, Given, trained

QUICK = replace(HONEST, hidden=8, epochs=6)
GRAPH = two_communities()


def train(framework: Framework, graph: FederatedGraph = GRAPH, backbone: str = "gcn") -> TrainingResult:
    return train_framework(framework, graph, QUICK, backbone=backbone, seed=0)


def changed_elsewhere() -> FederatedGraph:
    """The graph with other features and labels in silo 1, and silo 0 as it was."""
    theirs = GRAPH.silo_of == 1
    features, labels = GRAPH.features.copy(), GRAPH.labels.copy()
    features[theirs] = -features[theirs]
    labels[theirs] = 1 - labels[theirs]
    graph = Graph.from_arrays("changed", features, labels, GRAPH.edges)
    masks = SplitMasks(GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask)
    return FederatedGraph.from_assignment(graph, GRAPH.silo_of, masks)


def messages(result: TrainingResult) -> int:
    """Messages between devices in the whole run."""
    return sum(each.messages for each in result.transcript.traffic() if each.phase is Phase.VALUES)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
@pytest.mark.parametrize(
    ("framework", "edges"),
    [
        (LOCAL_MLP, 0),
        (LOCAL, int((~GRAPH.crosses_silos).sum())),
        (FEDAVG, int((~GRAPH.crosses_silos).sum())),
        (HIFGL, GRAPH.edges.shape[1]),
        (GLOBAL, GRAPH.edges.shape[1]),
    ],
    ids=lambda value: value.name if isinstance(value, Framework) else str(value),
)
def test_messages_travel_on_the_edges_that_a_framework_sees(framework: Framework, edges: int, backbone: str) -> None:
    """Two layers forward and back in each round, and once more forward for the last models."""
    result = train(framework, backbone=backbone)
    assert messages(result) == edges * (4 * QUICK.epochs + 2)
    assert result.losses[-1] < result.losses[0]


def logits_in_silo_0(framework: Framework, graph: FederatedGraph) -> torch.Tensor:
    """What silo 0 predicts for its own devices after three rounds."""
    seen = framework.sees(graph)
    found: list[torch.Tensor] = []

    class Told(HiFGLUnderAveraging):
        def predict_logits(self) -> torch.Tensor:
            found.append(super().predict_logits())
            return found[-1]

    channel = Channel(hierarchy_of(seen), SimulationCoins(0))
    preset = replace(QUICK, epochs=3)
    silos = OneProcess(seen, {}, channel, lambda comm: Told(comm, preset, averaging=framework.averaging), width=8)
    for number in range(4):
        silos.round(number)
    return found[0]


@pytest.mark.parametrize(
    ("framework", "alone"),
    [(LOCAL_MLP, True), (LOCAL, True), (FEDAVG, False), (FEDPROX, False), (FEDPER, False), (HIFGL, False)],
    ids=lambda value: value.name if isinstance(value, Framework) else "",
)
def test_only_local_silos_learn_nothing_of_each_other(framework: Framework, alone: bool) -> None:
    """Other features and labels in silo 1 change silo 0's predictions exactly where models or messages are shared."""
    here, there = (logits_in_silo_0(framework, graph) for graph in (GRAPH, changed_elsewhere()))
    assert torch.equal(here, there) is alone


def test_a_network_without_edges_is_a_perceptron() -> None:
    """Local-MLP does not depend on the edges at all."""
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40])
    masks = SplitMasks(GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask)
    rewired = Graph.from_arrays("ring", GRAPH.features, GRAPH.labels, ring)
    other = FederatedGraph.from_assignment(rewired, GRAPH.silo_of, masks)
    assert train(LOCAL_MLP).losses == train(LOCAL_MLP, other).losses
    assert train(HIFGL).losses != train(HIFGL, other).losses


def test_global_is_one_silo() -> None:
    """Centralised training has a single silo that holds every test device, and does not depend on the partition."""
    central = train(GLOBAL)
    assert central.accuracy.per_silo == (central.accuracy.test,)
    regrouped = FederatedGraph.from_assignment(
        GRAPH.graph,
        np.arange(GRAPH.num_devices) // 2 % 5 // 2,
        SplitMasks(GRAPH.train_mask, GRAPH.validation_mask, GRAPH.test_mask),
    )
    assert np.allclose(train(GLOBAL, regrouped).losses, central.losses)


def test_fedprox_and_fedper_on_a_graph() -> None:
    """With one local step FedProx is FedAvg; with several, and FedPer, it is neither FedAvg nor Local."""
    losses = {each.name: train(each).losses for each in (FEDAVG, FEDPROX, FEDPER, LOCAL)}
    assert train(replace(FEDPROX, local_steps=1)).losses == losses["FedAvg"]
    assert train(replace(FEDAVG, local_steps=FEDPROX.local_steps)).losses != losses["FedProx"]
    assert len(set(losses.values())) == 4


def test_rounds_between_two_averages_are_not_reported() -> None:
    """The reported round is one whose models the server has averaged, though others would do better."""
    for epochs in (6, 7, 8, 9, 10):
        preset = replace(QUICK, epochs=epochs)
        assert train_framework(FEDPROX, GRAPH, preset, backbone="gcn", seed=0).selected_round % 5 == 0


@pytest.mark.parametrize(
    ("backbone", "preset"),
    [
        ("gcn", QUICK),
        ("gcn_without_loops", replace(QUICK, dropout=0.3)),
        ("gcn", replace(QUICK, layers_of="public-code", split_restricted=True)),
        ("sage", replace(QUICK, layers_of="public-code")),
    ],
)
def test_who_has_all_edges_scores_as_devices_do(backbone: str, preset: Preset) -> None:
    """Where models are trained on all edges as well, scores and the reported round are those of HiFGL."""
    own, whole = (
        train_framework(each, GRAPH, preset, backbone=backbone, seed=0) for each in (HIFGL, HIFGL.on_all_edges)
    )
    assert (own.accuracy, own.selected_round) == (whole.accuracy, whole.selected_round)
    assert own.losses == whole.losses


def test_models_trained_within_silos_are_tested_on_all_edges() -> None:
    """Training is the same to the bit, and no message crosses silos; what the model scores is not the same."""
    for framework in (LOCAL, FEDAVG, FEDPER):
        within, tested = train(framework), train(framework.on_all_edges)
        assert within.losses == tested.losses
    within, tested = (
        train(FEDAVG, backbone="gcn_without_loops"),
        train(FEDAVG.on_all_edges, backbone="gcn_without_loops"),
    )
    assert within.accuracy != tested.accuracy
    inside = int((~GRAPH.crosses_silos).sum())
    assert messages(tested) == inside * 4 * QUICK.epochs


def test_the_preset_federates_hifgl() -> None:
    """HiFGL follows the preset, which the other frameworks overrule."""
    shared = replace(QUICK, federation=Federation.SHARED)
    runs = {
        (framework.name, preset.federation): train_framework(framework, GRAPH, preset, backbone="gcn", seed=0).losses
        for framework in (HIFGL, FEDAVG)
        for preset in (QUICK, shared)
    }
    assert runs["FedAvg", Federation.FEDAVG] == runs["FedAvg", Federation.SHARED]
    assert runs["HiFGL", Federation.FEDAVG] != runs["HiFGL", Federation.SHARED]


def test_any_scheme_carries_the_sums() -> None:
    """Under SecMP the losses are those in the clear, up to fixed-point error."""
    secured = train_framework(HIFGL, GRAPH, QUICK, backbone="sage", seed=0, scheme=SecretMessagePassing())
    assert np.allclose(secured.losses, train(HIFGL, backbone="sage").losses, atol=1e-4)


def test_gradients_over_relays_are_coded() -> None:
    """As HiFGL has them by default, with relays enough; losses are those in the clear, up to fixed-point error."""
    secured = train_framework(
        HIFGL, GRAPH, QUICK, backbone="sage", seed=0, scheme=RelayCoded(k_min=1, profile=Profile.SHOWN)
    )
    assert np.allclose(secured.losses, train(HIFGL, backbone="sage").losses, atol=0.02)
    assert secured.transcript.parties.counts[Role.RELAY] == 3
    assert any(batch.phase is Phase.PRODUCT_SHARES for batch in secured.transcript.messages)


@pytest.mark.parametrize("layers", [1, 3])
def test_any_number_of_layers_trains(layers: int) -> None:
    """Messages are counted a layer, and the loss falls."""
    result = train_framework(HIFGL, GRAPH, replace(QUICK, layers=layers), backbone="gcn", seed=0)
    assert messages(result) == GRAPH.edges.shape[1] * layers * (2 * QUICK.epochs + 1)
    assert result.losses[-1] < result.losses[0]


class GivenAveraged(Given, HiFGLUnderAveraging):
    """A silo whose gradients are given, under another way of averaging."""


def two_layers(
    averaging: ModelAveraging, gradients: list[float], steps: int = 1, **more: Any
) -> list[torch.nn.ModuleList]:
    """The models of silos that took steps on these gradients of all parameters, every silo a training device."""
    kind, devices = partial(GivenAveraged, averaging=averaging, **more), [1] * len(gradients)
    return [silo.layers for silo in trained(Federation.FEDAVG, gradients, devices, 2, steps, kind)]


def flat(*layers: torch.nn.Module) -> torch.Tensor:
    """All parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for layer in layers for parameter in layer.parameters()])


def test_local_silos_keep_what_they_learnt() -> None:
    """Without federation each silo follows its own gradient, as if the other were not there."""
    up, down = two_layers(ModelAveraging.NOTHING, [-1.0, 1.0], steps=3)
    assert torch.equal(flat(up), flat(*two_layers(ModelAveraging.NOTHING, [-1.0], steps=3)))
    assert torch.equal(flat(down), flat(*two_layers(ModelAveraging.NOTHING, [1.0], steps=3)))
    assert (flat(up) > flat(down)).all()


def test_fedper_averages_all_but_the_last_layer() -> None:
    """First layers are those of federated averaging, last layers those of silos alone."""
    personal = two_layers(ModelAveraging.FIRST_LAYERS, [1.0, -20.0, 3.0], steps=3)
    averaged = two_layers(ModelAveraging.MODELS, [1.0, -20.0, 3.0], steps=3)
    alone = two_layers(ModelAveraging.NOTHING, [1.0, -20.0, 3.0], steps=3)
    for mine, shared, own in zip(personal, averaged, alone, strict=True):
        assert torch.equal(flat(mine[0]), flat(shared[0]))
        assert torch.equal(flat(mine[1]), flat(own[1]))
        assert not torch.equal(flat(mine[1]), flat(shared[1]))
        assert not torch.equal(flat(mine[0]), flat(own[0]))


def test_fedprox_with_one_local_step_is_fedavg() -> None:
    """A round that starts at the server's model does not feel the proximal term: bit for bit FedAvg's models."""
    proximal, averaged = (
        two_layers(each, [1.0, -20.0], steps=4) for each in (ModelAveraging.PULLED, ModelAveraging.MODELS)
    )
    assert torch.equal(flat(*proximal), flat(*averaged))


def test_models_are_averaged_after_their_local_steps_alone() -> None:
    """Before the third step silos have the models of silos alone; after it they have the mean of these."""
    gradients = [1.0, -20.0]
    alone = two_layers(ModelAveraging.NOTHING, gradients, steps=2)
    between = two_layers(ModelAveraging.MODELS, gradients, steps=2, local_steps=3)
    assert torch.equal(flat(*between), flat(*alone))
    third = two_layers(ModelAveraging.NOTHING, gradients, steps=3)
    mean = (flat(third[0]) + flat(third[1])) / 2
    for model in two_layers(ModelAveraging.MODELS, gradients, steps=3, local_steps=3):
        assert torch.allclose(flat(model), mean, atol=1e-6)


def test_fedprox_pulls_later_local_steps_to_the_servers_model() -> None:
    """Each step of Adam is on the gradient and mu (w - w_server), w_server being the last mean; mu = 0 is FedAvg."""
    gradients, mu, steps = [1.0, -0.3], 7.0, 5
    start = flat(two_layers(ModelAveraging.PULLED, gradients, steps=0)[0])
    silos = [start.clone().requires_grad_() for _ in gradients]
    optimisers = [torch.optim.Adam([w], lr=RATE) for w in silos]
    server = start.clone()
    for step in range(steps):
        for w, optimiser, gradient in zip(silos, optimisers, gradients, strict=True):
            w.grad = gradient + mu * (w.detach() - server)
            optimiser.step()
            if (step + 1) % HONEST.decay_every == 0:
                optimiser.param_groups[0]["lr"] *= HONEST.decay
        if step % 2:
            server = torch.stack([w.detach() for w in silos]).mean(dim=0)
            for w in silos:
                w.data.copy_(server)
    found = two_layers(ModelAveraging.PULLED, gradients, steps, local_steps=2, proximal=mu)
    assert torch.allclose(flat(*found), torch.cat([w.detach() for w in silos]), atol=1e-6)
    freed = two_layers(ModelAveraging.PULLED, gradients, steps, local_steps=2, proximal=0.0)
    assert torch.equal(flat(*freed), flat(*two_layers(ModelAveraging.MODELS, gradients, steps, local_steps=2)))
    assert not torch.allclose(flat(*freed), flat(*found), atol=1e-4)
