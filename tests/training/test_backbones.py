"""Layers over grouped sums are the layers of PyTorch Geometric, and initial weights depend on the seed alone."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Step
from fgl_secure.training.backbones import Degrees, GCNLayer, MessageLayer, PublishedGCNLayer, SAGELayer, make_layers
from fgl_secure.training.grouped_sum import GroupedSum
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from tests.protocols.conformance import channel_of, opened
from tests.strategies import federated_graphs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own imports are deprecated in torch
    from torch_geometric.nn import GCNConv, SAGEConv


def degrees_of(graph: FederatedGraph) -> Degrees:
    heard = torch.tensor(graph.in_degree[:, None], dtype=torch.float32)
    return Degrees(heard, heard, heard)


def through_sums(layer: MessageLayer, graph: FederatedGraph, h: torch.Tensor) -> torch.Tensor:
    """One layer whose neighbourhood sum runs through the plaintext scheme."""
    sums = GroupedSum(opened(Plaintext(), channel_of(hierarchy_of(graph)), neighbour_sums(graph), 4))
    degrees = degrees_of(graph)
    return layer.update(h, sums(layer.message(h, degrees), Step(0)), degrees)


def turned(parameter: torch.Tensor | None) -> torch.Tensor:
    """A matrix as PyTorch Geometric keeps it, transposed; vectors stay as they are."""
    assert parameter is not None
    return parameter.T if parameter.dim() == 2 else parameter


def gcn_pair() -> tuple[MessageLayer, Any, list[tuple[str, str]]]:
    """Our layer, PyTorch Geometric's, and which parameters correspond; matrices are transposed."""
    return GCNLayer(3, 4), GCNConv(3, 4), [("weight", "lin.weight"), ("bias", "bias")]


def sage_pair() -> tuple[MessageLayer, Any, list[tuple[str, str]]]:
    pairs = [("own_weight", "lin_r.weight"), ("neighbour_weight", "lin_l.weight"), ("bias", "lin_l.bias")]
    return SAGELayer(3, 4), SAGEConv(3, 4), pairs


@pytest.mark.parametrize("make", [gcn_pair, sage_pair])
@given(graph=federated_graphs())
@settings(max_examples=15)
def test_layer_is_that_of_pytorch_geometric(make: Any, graph: FederatedGraph) -> None:
    """With equal weights outputs and all gradients agree, on directed graphs and with devices that hear nobody."""
    ours, theirs, names = make()
    theirs_named = dict(theirs.named_parameters())
    with torch.no_grad():
        torch.nn.init.normal_(ours.bias)
        for mine, other in names:
            theirs_named[other].copy_(turned(ours.get_parameter(mine)))
    inputs = [torch.tensor(graph.features).requires_grad_() for _ in range(2)]
    out = through_sums(ours, graph, inputs[0])
    expected = theirs(inputs[1], torch.tensor(graph.edges))
    assert torch.allclose(out, expected, atol=1e-5)
    out.square().sum().backward()  # type: ignore[no-untyped-call]
    expected.square().sum().backward()
    for mine, other in names:
        expected_gradient = theirs_named[other].grad
        assert torch.allclose(turned(ours.get_parameter(mine).grad), expected_gradient, rtol=1e-4, atol=1e-4)
    assert torch.allclose(turned(inputs[0].grad), turned(inputs[1].grad), rtol=1e-4, atol=1e-4)


def test_published_aggregation_is_as_its_code_computes() -> None:
    """A message is divided by the root of the full degree + 1, the result by (summed + 1)^(3/2), own row unscaled."""
    layer, h = PublishedGCNLayer(1, 1), torch.tensor([[2.0], [3.0]])
    degrees = Degrees(torch.tensor([[3.0], [8.0]]), torch.tensor([[2.0], [4.0]]), torch.tensor([[1.0], [3.0]]))
    with torch.no_grad():
        layer.weight.fill_(1.0)
    assert torch.allclose(layer.message(h, degrees), torch.tensor([[1.0], [1.0]]))
    expected = torch.tensor([[(5.0 + 2.0) / 2**1.5], [(5.0 + 3.0) / 4**1.5]])
    assert torch.allclose(layer.update(h, torch.full((2, 1), 5.0), degrees), expected)


@pytest.mark.parametrize("make", [GCNLayer, PublishedGCNLayer, SAGELayer])
def test_initial_weights_depend_on_the_seed_alone(make: type[GCNLayer]) -> None:
    """Equal seeds give equal weights whatever torch's own generator does, which they leave alone."""
    torch.manual_seed(1)
    first = make_layers(make, (3, 4, 2), seed=7)
    state = torch.random.get_rng_state()
    second, other = make_layers(make, (3, 4, 2), seed=7), make_layers(make, (3, 4, 2), seed=8)
    assert torch.equal(torch.random.get_rng_state(), state)
    pairs = [(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)]
    assert all(torch.equal(a, b) for a, b in pairs)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
    assert len(first) == 2


def test_degrees_of_some_devices_keep_all_kinds() -> None:
    """Picking devices picks their rows of full, heard and summed degrees, in the order asked for."""
    degrees = Degrees(*(torch.arange(3.0)[:, None] * factor for factor in (1, 10, 100)))
    picked = degrees.of(torch.tensor([2, 0]))
    assert np.array_equal(picked.full.numpy(), [[2.0], [0.0]])
    assert np.array_equal(picked.heard.numpy(), [[20.0], [0.0]])
    assert np.array_equal(picked.summed.numpy(), [[200.0], [0.0]])
