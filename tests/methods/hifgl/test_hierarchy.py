"""Silos' models: a mean gradient of the own devices, then federation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.runtime import Channel
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Federation
from fgl_secure.training.rounds import Figures

RATE = HONEST.learning_rate


class Given(HiFGL):
    """A silo whose gradients are given."""

    gradient = 0.0

    def train(self, number: int) -> Figures:  # noqa: ARG002  # the same in every round
        for parameter in self.layers.parameters():
            parameter.grad = torch.full_like(parameter, self.gradient)
        nothing = torch.zeros(len(self.silo.nodes), 1)
        return self._step(nothing, nothing[:, 0])


def trained(
    federation: Federation,
    gradients: list[float],
    devices: list[int],
    layers: int,
    steps: int = 1,
    kind: Callable[..., Given] = Given,
) -> list[Given]:
    """Silos of so many training devices each, after so many steps on these gradients of all parameters."""
    silo_of = np.repeat(np.arange(len(devices)), devices)
    everyone, nobody = np.ones(len(silo_of), dtype=np.bool_), np.zeros(len(silo_of), dtype=np.bool_)
    features = np.ones((len(silo_of), 2), dtype=np.float32)
    graph = Graph.from_arrays("devices", features, silo_of * 0, np.empty((2, 0), dtype=np.int64))
    federated = FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, nobody, nobody))
    preset = replace(HONEST, federation=federation, hidden=2, layers=layers)
    silos = OneProcess(federated, {}, Channel(hierarchy_of(federated), SimulationCoins(0)), lambda t: kind(t, preset))
    programs = [program for program in silos.programs if isinstance(program, Given)]
    for program, gradient in zip(programs, gradients, strict=True):
        program.gradient = gradient
    for number in range(steps):
        silos.round(number)
    return programs


def stepped(federation: Federation, gradients: list[float], devices: list[int]) -> tuple[float, list[float]]:
    """One step on these gradients: where a bias was, and where each silo's is."""
    found = [silo.layers.get_parameter("0.bias")[0].item() for silo in trained(federation, gradients, devices, 1)]
    return 0.0, found


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


def test_silos_start_equal_and_apart() -> None:
    """Every silo has a copy of its own of the same initial model."""
    first, second = (silo.layers for silo in trained(Federation.FEDAVG, [0.0, 0.0], [1, 1], 2, steps=0))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.data_ptr() != b.data_ptr()
