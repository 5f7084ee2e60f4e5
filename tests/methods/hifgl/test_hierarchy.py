"""Silos' models: a mean gradient of the own devices, then federation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from fgl_secure.methods.hifgl.hierarchy import SiloModels
from fgl_secure.training.backbones import GCNLayer
from fgl_secure.training.presets import HONEST, Federation

RATE = HONEST.learning_rate


def stepped(federation: Federation, gradients: list[float], devices: list[int]) -> tuple[float, list[float]]:
    """One step on these gradients of a single bias: where it was, and where each silo's is."""
    layers = nn.ModuleList([GCNLayer(1, 1)])
    silos = SiloModels(layers, len(gradients), replace(HONEST, federation=federation), torch.device("cpu"))
    before = layers.get_parameter("0.bias").item()
    for model, gradient in zip(silos.models, gradients, strict=True):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
    silos.step(devices)
    return before, [model.get_parameter("0.bias").item() for model in silos.models]


def test_gradients_are_means_over_the_silos_own_devices() -> None:
    """A gradient of -2 over four devices weighs less than one of 1 over one device (4.1.2, item 2)."""
    before, after = stepped(Federation.SHARED, [1.0, -2.0], [1, 4])
    assert after == pytest.approx([before - RATE] * 2)
    before, after = stepped(Federation.SHARED, [1.0, -2.0], [1, 1])
    assert after == pytest.approx([before + RATE] * 2)


def test_averaging_models_takes_one_step_a_silo() -> None:
    """Steps of opposite sign and equal size cancel in the plain mean, whatever the gradients' sizes (4.3)."""
    before, after = stepped(Federation.FEDAVG, [1.0, -20.0], [1, 1])
    assert after == pytest.approx([before] * 2, abs=1e-6)
    assert stepped(Federation.FEDAVG, [1.0, 20.0], [1, 1])[1] == pytest.approx([before - RATE] * 2)


def two_layers(federation: Federation, gradients: list[float], steps: int = 1) -> list[nn.ModuleList]:
    """The models of silos that took steps on these gradients of all parameters, every silo a training device."""
    torch.manual_seed(0)
    layers = nn.ModuleList([GCNLayer(2, 2), GCNLayer(2, 2)])
    silos = SiloModels(layers, len(gradients), replace(HONEST, federation=federation), torch.device("cpu"))
    for _ in range(steps):
        for model, gradient in zip(silos.models, gradients, strict=True):
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, gradient)
        silos.step([1] * len(gradients))
    return silos.models


def flat(*layers: nn.Module) -> torch.Tensor:
    """All parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for layer in layers for parameter in layer.parameters()])


def test_local_silos_keep_what_they_learnt() -> None:
    """Without federation each silo follows its own gradient, as if the other were not there."""
    up, down = two_layers(Federation.LOCAL, [-1.0, 1.0], steps=3)
    assert torch.equal(flat(up), flat(*two_layers(Federation.LOCAL, [-1.0], steps=3)))
    assert torch.equal(flat(down), flat(*two_layers(Federation.LOCAL, [1.0], steps=3)))
    assert (flat(up) > flat(down)).all()


def test_fedper_averages_all_but_the_last_layer() -> None:
    """First layers are those of federated averaging, last layers those of silos alone."""
    personal = two_layers(Federation.FEDPER, [1.0, -20.0, 3.0], steps=3)
    averaged = two_layers(Federation.FEDAVG, [1.0, -20.0, 3.0], steps=3)
    alone = two_layers(Federation.LOCAL, [1.0, -20.0, 3.0], steps=3)
    for mine, shared, own in zip(personal, averaged, alone, strict=True):
        assert torch.equal(flat(mine[0]), flat(shared[0]))
        assert torch.equal(flat(mine[1]), flat(own[1]))
        assert not torch.equal(flat(mine[1]), flat(shared[1]))
        assert not torch.equal(flat(mine[0]), flat(own[0]))


def test_fedprox_with_one_local_step_is_fedavg() -> None:
    """A round that starts at the server's model does not feel the proximal term: bit for bit FedAvg's models."""
    proximal, averaged = (two_layers(each, [1.0, -20.0], steps=4) for each in (Federation.FEDPROX, Federation.FEDAVG))
    assert torch.equal(flat(*proximal), flat(*averaged))


def test_fedprox_pulls_back_what_has_left_the_servers_model() -> None:
    """A silo at distance d from the server's model gets mu d more gradient: without any other, it steps back."""
    layers = nn.ModuleList([GCNLayer(1, 1)])
    silos = SiloModels(layers, 1, replace(HONEST, federation=Federation.FEDPROX, proximal=0.5), torch.device("cpu"))
    bias = silos.models[0].get_parameter("0.bias")
    with torch.no_grad():
        bias.add_(3.0)
    for parameter in silos.models[0].parameters():
        parameter.grad = torch.zeros_like(parameter)
    silos._pull_to_global()
    assert bias.grad is not None
    assert bias.grad.item() == pytest.approx(1.5)
    silos.step([1])
    assert bias.item() == pytest.approx(3.0 - RATE)


def test_size_of_a_model_is_that_of_its_parameters() -> None:
    """A model of 3 * 4 weights and 4 biases has 64 bytes on the wire."""
    silos = SiloModels(nn.ModuleList([GCNLayer(3, 4)]), 2, HONEST, torch.device("cpu"))
    assert silos.bytes == 4 * (3 * 4 + 4)


def test_silos_start_equal_and_apart() -> None:
    """Every silo has a copy of its own of the same initial model."""
    layers = nn.ModuleList([GCNLayer(3, 4)])
    first, second = SiloModels(layers, 2, HONEST, torch.device("cpu")).models
    for a, b, initial in zip(first.parameters(), second.parameters(), layers.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, initial)
        assert len({a.data_ptr(), b.data_ptr(), initial.data_ptr()}) == 3
