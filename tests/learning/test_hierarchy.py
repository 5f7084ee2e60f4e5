"""Silos' models: a mean gradient of the own devices, then federation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from fgl_secure.learning.backbones import GCNLayer
from fgl_secure.learning.hierarchy import SiloModels
from fgl_secure.learning.presets import HONEST, Federation

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
