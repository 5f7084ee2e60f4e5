"""Layers whose sum is somebody else's business, against the same layer on the whole graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure import backbones
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel
from fgl_secure.training.backbones import SCORE, SLOPE, Degrees, GATLayer, SAGELayer
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.graphs import two_communities

QUICK = replace(HONEST, hidden=8, epochs=6)


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities()


def attended(layer: GATLayer, h: torch.Tensor, edges: np.ndarray) -> torch.Tensor:
    """Attention over the neighbours of each node and itself, one score for each pair: Eqs. 1 to 4 with that score."""
    n, rows = len(h), h @ layer.weight
    x = SCORE * (torch.tanh(rows @ layer.target) + torch.tanh(rows @ layer.source).T)  # targets by sources
    score = torch.logaddexp(x, SLOPE * x)
    heard = torch.eye(n, dtype=torch.bool)
    heard[tuple(torch.tensor(edges[::-1].copy()))] = True
    weights = torch.softmax(score.masked_fill(~heard, -torch.inf), dim=1)
    return weights @ rows + layer.bias


def test_attention_in_one_sum_is_attention_pair_by_pair(graph: FederatedGraph) -> None:
    """Features of the sender, summed, give every target the softmax over its pairs' scores."""
    torch.manual_seed(0)
    layer, h = GATLayer(graph.graph.num_features, 5), torch.tensor(graph.features)
    ones = torch.ones(len(h), 1)
    degrees, edges = Degrees(ones, ones, ones), graph.edges
    kept = layer.kept(h)
    messages = layer.message(kept, degrees)
    assert messages.shape[1] == layer.message_width
    source, target = torch.tensor(edges)
    sums = torch.zeros_like(messages).index_add(0, target, messages[source])
    found, expected = layer.update(kept, sums, degrees), attended(layer, h, edges)
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, attended(layer, h, edges[:, ::2]), atol=1e-3)


def test_weights_depend_on_both_ends(graph: FederatedGraph) -> None:
    """Without the target's part every target would weigh its neighbours alike."""
    torch.manual_seed(0)
    layer, h = GATLayer(graph.graph.num_features, 5), torch.tensor(graph.features)
    whole = attended(layer, h, graph.edges)
    with torch.no_grad():
        layer.target.zero_()
    assert not torch.allclose(whole, attended(layer, h, graph.edges), atol=1e-3)


def test_attention_trains_alike_over_relays(graph: FederatedGraph) -> None:
    """Losses agree with plaintext to 1e-3, though messages are longer than rows, and accuracies are equal."""
    runs = []
    for scheme in (Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)):
        channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0))
        runs.append(silos_of(graph, scheme, QUICK, backbone="gat").train(channel))
    plain, secured = runs
    assert np.allclose(plain.losses, secured.losses, atol=1e-3)
    assert plain.accuracy == secured.accuracy
    assert plain.losses[-1] < plain.losses[0]


def test_sums_that_cannot_be_projected_later_are_refused(graph: FederatedGraph) -> None:
    """Attention weighs projected rows: raw ones must not be summed once for all."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    with pytest.raises(InputError, match="static_first_layer must be false for gat"):
        silos_of(graph, Plaintext(), replace(QUICK, static_first_layer=True), backbone="gat").opened(channel)


def test_registered_backbones_are_taken_once(graph: FederatedGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is registered once, is a word, and stands for what makes layers; a model is then made of these."""
    monkeypatch.setattr(backbones, "_registered", {})
    backbones.register_backbone("mean", SAGELayer)
    silos = silos_of(graph, Plaintext(), QUICK, backbone="mean").opened(
        Channel(hierarchy_of(graph), SimulationCoins(0))
    )
    assert all(isinstance(p, HiFGL) and isinstance(p.layers[0], SAGELayer) for p in silos.programs)
    for name, layer in (("mean", SAGELayer), ("gcn", SAGELayer), ("a b", SAGELayer), ("other", 3)):
        with pytest.raises(InputError):
            backbones.register_backbone(name, layer)  # type: ignore[arg-type]
    assert backbones.names() == ("gcn", "sage", "gat", "mean")
