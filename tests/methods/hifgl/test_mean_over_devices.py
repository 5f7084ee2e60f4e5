"""A silo's mean gradient over all its devices, as HiFGL's text has it, against one computed with dense matrices."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from fgl_secure.backbones import maker
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.backbones import make_layers
from fgl_secure.training.presets import Federation, preset
from tests.graphs import two_communities

TEXT = replace(preset("paper", "any"), epochs=1, hidden=8, federation=Federation.SHARED)
"""One model for all silos, whose weight in the gradient then depends on what a silo divides by."""


def dense_gradient(graph: FederatedGraph) -> torch.Tensor:
    """The gradient [P] of the losses of training devices over the number of all devices, by Eqs. 2 and 3."""
    widths = TEXT.widths(graph.graph.num_features, graph.num_classes)
    layers = make_layers(maker("gcn", "paper"), widths, 0)
    adjacency = torch.zeros(graph.num_devices, graph.num_devices)
    adjacency[tuple(torch.tensor(graph.edges).flip(0))] = 1
    scale = adjacency.sum(dim=1).clamp(min=1).rsqrt()
    propagation, h = scale[:, None] * adjacency * scale, torch.tensor(graph.features)
    for number, layer in enumerate(layers):
        weight, bias = layer.parameters()
        h = propagation @ (torch.relu(h) if number else h) @ weight + bias
    losses = functional.cross_entropy(h, torch.tensor(graph.labels), reduction="none")
    mean = losses[torch.tensor(graph.train_mask)].sum() / graph.num_devices
    return torch.cat([each.flatten() for each in torch.autograd.grad(mean, list(layers.parameters()))])


def test_a_silos_gradient_is_the_mean_over_all_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silos of 20 devices, of which 2 and 18 train, weigh the same; by training devices they do not."""
    graph, few = two_communities(devices=40, silos=2), np.zeros(40, dtype=np.bool_)
    few[[*graph.devices_of(0)[:2], *graph.devices_of(1)[:18]]] = True
    graph = replace(graph, train_mask=few, validation_mask=~few, test_mask=np.zeros(40, dtype=np.bool_))
    taken: list[torch.Tensor] = []

    def step(self: torch.optim.Optimizer) -> None:
        taken.append(torch.cat([each.grad.flatten() for group in self.param_groups for each in group["params"]]))

    monkeypatch.setattr("fgl_secure.training.parameters.Adam.step", step)
    for devices in (True, False):
        silos_of(graph, Plaintext(), replace(TEXT, mean_over_devices=devices)).train()
    expected = dense_gradient(graph)
    torch.testing.assert_close(taken[0], expected, rtol=1e-4, atol=1e-6)
    assert (taken[-1] - expected).abs().max() > 1e-2
