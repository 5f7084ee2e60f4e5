"""Silos' models: a mean gradient of the own devices, then federation."""

from dataclasses import replace
from typing import Any

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
    federation: Federation, gradients: list[float], devices: list[int], layers: int, steps: int = 1, **more: Any
) -> list[Given]:
    """Silos of so many training devices each, after so many steps on these gradients of all parameters."""
    silo_of = np.repeat(np.arange(len(devices)), devices)
    everyone, nobody = np.ones(len(silo_of), dtype=np.bool_), np.zeros(len(silo_of), dtype=np.bool_)
    features = np.ones((len(silo_of), 2), dtype=np.float32)
    graph = Graph.from_arrays("devices", features, silo_of * 0, np.empty((2, 0), dtype=np.int64))
    federated = FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, nobody, nobody))
    preset = replace(HONEST, federation=federation, hidden=2, layers=layers, **more)
    silos = OneProcess(federated, {}, Channel(hierarchy_of(federated), SimulationCoins(0)), lambda t: Given(t, preset))
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


def two_layers(
    federation: Federation, gradients: list[float], steps: int = 1, **more: Any
) -> list[torch.nn.ModuleList]:
    """The models of silos that took steps on these gradients of all parameters, every silo a training device."""
    return [silo.layers for silo in trained(federation, gradients, [1] * len(gradients), 2, steps, **more)]


def flat(*layers: torch.nn.Module) -> torch.Tensor:
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


def test_models_are_averaged_after_their_local_steps_alone() -> None:
    """Before the third step silos have the models of silos alone; after it they have the mean of these."""
    gradients = [1.0, -20.0]
    alone = two_layers(Federation.LOCAL, gradients, steps=2)
    between = two_layers(Federation.FEDAVG, gradients, steps=2, local_steps=3)
    assert torch.equal(flat(*between), flat(*alone))
    third = two_layers(Federation.LOCAL, gradients, steps=3)
    mean = (flat(third[0]) + flat(third[1])) / 2
    for model in two_layers(Federation.FEDAVG, gradients, steps=3, local_steps=3):
        assert torch.allclose(flat(model), mean, atol=1e-6)


def test_fedprox_pulls_later_local_steps_to_the_servers_model() -> None:
    """Each step of Adam is on the gradient and mu (w - w_server), w_server being the last mean; mu = 0 is FedAvg."""
    gradients, mu, steps = [1.0, -0.3], 7.0, 5
    start = flat(two_layers(Federation.FEDPROX, gradients, steps=0)[0])
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
    found = two_layers(Federation.FEDPROX, gradients, steps, local_steps=2, proximal=mu)
    assert torch.allclose(flat(*found), torch.cat([w.detach() for w in silos]), atol=1e-6)
    freed = two_layers(Federation.FEDPROX, gradients, steps, local_steps=2, proximal=0.0)
    assert torch.equal(flat(*freed), flat(*two_layers(Federation.FEDAVG, gradients, steps, local_steps=2)))
    assert not torch.allclose(flat(*freed), flat(*found), atol=1e-4)


def test_silos_start_equal_and_apart() -> None:
    """Every silo has a copy of its own of the same initial model."""
    first, second = (silo.layers for silo in trained(Federation.FEDAVG, [0.0, 0.0], [1, 1], 2, steps=0))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
        assert a.data_ptr() != b.data_ptr()
