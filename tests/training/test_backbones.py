"""Layers whose sum is somebody else's business, against the same layer on the whole graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch

from fgl_secure import backbones, train
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL as Configuration
from fgl_secure.methods.hifgl.program import HiFGLSilo, silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel
from fgl_secure.training.backbones import (
    SCORE,
    SLOPE,
    Degrees,
    GatedGCNLayer,
    GATLayer,
    GCNLayer,
    GCNWithoutLoopsLayer,
    MessageLayer,
    PublishedGCNLayer,
    PublishedSAGELayer,
    SAGELayer,
)
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
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
    kept = layer.local_state(h)
    messages = layer.message(kept, degrees)
    assert messages.shape[1] == layer.message_width
    source, target = torch.tensor(edges)
    sums = torch.zeros_like(messages).index_add(0, target, messages[source])
    found, expected = layer.update(kept, sums, degrees), attended(layer, h, edges)
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, attended(layer, h, edges[:, ::2]), atol=1e-3)


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


def of_hifgl(layer: MessageLayer, h: torch.Tensor, edges: np.ndarray, full: np.ndarray) -> torch.Tensor:
    """A layer on the whole graph: what it sends, summed along the edges, and what it makes of the sums."""
    n = len(h)
    heard = torch.tensor(np.bincount(edges[1], minlength=n)[:, None], dtype=torch.float32)
    degrees = Degrees(torch.tensor(full[:, None], dtype=torch.float32), heard, heard)
    kept = layer.local_state(h)
    messages = layer.message(kept, degrees)
    assert messages.shape[1] == layer.message_width
    sums = torch.zeros_like(messages).index_add(0, torch.tensor(edges[1]), messages[torch.tensor(edges[0])])
    return layer.update(kept, sums, degrees)


def printed(layer: GCNWithoutLoopsLayer, h: torch.Tensor, edges: np.ndarray, _full: np.ndarray) -> torch.Tensor:
    """Eqs. 2 and 3 of HiFGL, node by node."""
    degree, rows = np.bincount(edges[1], minlength=len(h)), []
    for u in range(len(h)):
        row = layer.bias.clone()
        for v in edges[0, edges[1] == u]:
            row = row + (h[v] / degree[v] ** 0.5) @ layer.weight / degree[u] ** 0.5
        rows.append(row)
    return torch.stack(rows)


def listed_gcn(layer: PublishedGCNLayer, h: torch.Tensor, edges: np.ndarray, full: np.ndarray) -> torch.Tensor:
    """The public code's convolution: the list of the own row and of what arrived, node by node."""
    rows = []
    for u in range(len(h)):
        found = [h[u], *(h[v] / (1 + full[v]) ** 0.5 for v in edges[0, edges[1] == u])]
        rows.append((torch.stack(found) / (len(found) + 1) ** 0.5 @ layer.weight).mean(dim=0) + layer.bias)
    return torch.stack(rows)


def listed_sage(layer: PublishedSAGELayer, h: torch.Tensor, edges: np.ndarray, _full: np.ndarray) -> torch.Tensor:
    """The public code's GraphSAGE: one weight for the own row and the mean of the list, side by side."""
    weight, rows = torch.cat([layer.own_weight, layer.neighbour_weight]), []
    for u in range(len(h)):
        mean = torch.stack([h[u], *(h[v] for v in edges[0, edges[1] == u])]).mean(dim=0)
        rows.append(torch.softmax(torch.cat([h[u], mean]) @ weight + layer.bias, dim=0))
    return torch.stack(rows)


Reference = Callable[[MessageLayer, torch.Tensor, np.ndarray, np.ndarray], torch.Tensor]
OF_HIFGL: dict[str, tuple[type[MessageLayer], Reference]] = {
    "Eqs. 2 and 3": (GCNWithoutLoopsLayer, cast("Reference", printed)),
    "GCN of the code": (PublishedGCNLayer, cast("Reference", listed_gcn)),
    "SAGE of the code": (PublishedSAGELayer, cast("Reference", listed_sage)),
}


@pytest.mark.parametrize("name", OF_HIFGL)
def test_layers_of_hifgl_are_those_of_the_paper_and_of_its_code(graph: FederatedGraph, name: str) -> None:
    """Node by node, with a node that has no neighbours and nodes that hear fewer than they have; no other layer is."""
    make, reference = OF_HIFGL[name]
    torch.manual_seed(0)
    layer, h = make(graph.graph.num_features, 5), torch.tensor(graph.features)
    kept = (graph.edges != 0).all(axis=0)
    kept[::5] = False
    edges = graph.edges[:, kept]
    assert (edges[1] != 0).all(), "node 0 hears nothing"
    with torch.no_grad():
        layer.get_parameter("bias").uniform_(-1, 1)
        found = of_hifgl(layer, h, edges, graph.in_degree)
        assert torch.allclose(found, reference(layer, h, edges, graph.in_degree), atol=1e-6)
        wider = near_by(layer)
        assert not torch.allclose(of_hifgl(wider, h, edges, graph.in_degree), found, atol=1e-3)


def near_by(layer: MessageLayer) -> MessageLayer:
    """The same weights in the layer that is near: with own rows, to the power of 3/2, or without them in means."""

    class Near(type(layer)):  # type: ignore[misc]
        def update(self, kept: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
            if isinstance(self, GCNWithoutLoopsLayer):
                sums = sums + kept
            elif isinstance(self, PublishedGCNLayer):
                return cast("torch.Tensor", self.shift((sums + kept) / (degrees.summed + 1) ** 1.5, self.bias))
            else:
                sums = sums - kept.chunk(2, dim=1)[1]
            return cast("torch.Tensor", super().update(kept, sums, degrees))

    near = Near(*layer.message_weight.shape)
    near.load_state_dict(layer.state_dict())
    return cast("MessageLayer", near)


SECURED: dict[str, Scheme] = {
    "secmp": SecretMessagePassing(),
    "relay-coded, graph hidden": RelayCoded(k_min=1, max_degree=64),
}


@pytest.mark.parametrize(("backbone", "published"), [("gcn_without_loops", False), ("gcn", True), ("sage", True)])
@pytest.mark.parametrize("scheme", SECURED)
def test_layers_of_hifgl_train_alike_under_every_scheme(
    graph: FederatedGraph, backbone: str, published: bool, scheme: str
) -> None:
    """Losses agree with plaintext to 1e-3, and accuracies are equal."""
    runs = []
    for each in (Plaintext(), SECURED[scheme]):
        channel = Channel(hierarchy_of(graph, each.helpers), SimulationCoins(0))
        job = silos_of(
            graph, each, replace(QUICK, layers_of="public-code" if published else "literature"), backbone=backbone
        )
        runs.append(job.train(channel))
    plain, secured = runs
    assert np.allclose(plain.losses, secured.losses, atol=1e-3)
    assert plain.accuracy == secured.accuracy
    assert plain.losses[-1] < plain.losses[0]


def test_sums_that_cannot_be_projected_later_are_refused(graph: FederatedGraph) -> None:
    """Attention weighs projected rows: raw ones must not be summed once for all."""
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    with pytest.raises(InputError, check=about("static_first_layer")):
        silos_of(graph, Plaintext(), replace(QUICK, static_first_layer=True), backbone="gat").open(channel)


def test_registered_backbones_are_taken_once(graph: FederatedGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is a word, not that of another backbone, and stands for what makes layers; a model is made of these."""
    monkeypatch.setattr(backbones, "_registered", {})
    backbones.register_backbone("mean", SAGELayer)
    silos = silos_of(graph, Plaintext(), QUICK, backbone="mean").open(Channel(hierarchy_of(graph), SimulationCoins(0)))
    assert all(isinstance(p, HiFGLSilo) and isinstance(p.layers[0], SAGELayer) for p in silos.programs)
    backbones.register_backbone("mean", SAGELayer)  # as when a cell of a notebook runs again
    for name, layer in ((5, SAGELayer), ("gcn", SAGELayer), ("a b", SAGELayer), ("other", 3)):
        with pytest.raises(InputError):
            backbones.register_backbone(name, layer)  # type: ignore[arg-type]
    assert backbones.names() == ("gcn", "sage", "gat", "gcn_without_loops", "gcn_gated", "mean")


class _HoldsLinear(SAGELayer):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        self.inner = torch.nn.Linear(d_in, d_out)

    def update(self, kept: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        return super().update(kept, sums, degrees) + cast(torch.Tensor, self.inner(kept))


def test_a_layer_that_holds_a_linear_one_is_refused(graph: FederatedGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients per device are collected where parameters are used, which is not seen in `torch.nn.Linear`."""
    monkeypatch.setattr(backbones, "_registered", {"linear": _HoldsLinear})
    with pytest.raises(InputError, check=about("backbone")):
        train(Configuration(backbone="linear", epochs=1), graph, "relay-coded", device="cpu")


@pytest.mark.parametrize(
    ("full", "summed", "of_sum", "own"),
    [
        (1, 3, 1 / 9 / 2**0.5, 1 / 2 + 2 / 3 / 2),  # at most one of three rows is its neighbour's
        (2, 3, 4 / 9 / 3**0.5, 1 / 3 + 1 / 3 * 2 / 3),
        (0, 3, 0, 1),  # none is
    ],
)
def test_a_gate_goes_between_two_readings_of_a_filled_sum(full: int, summed: int, of_sum: float, own: float) -> None:
    """Shut, all rows are neighbours'; open, as many as there are neighbours; half open, the mean of both."""
    torch.manual_seed(0)
    layer, kept, sums = GatedGCNLayer(4, 2), torch.randn(1, 2), torch.randn(1, 2)
    degrees = Degrees(*(torch.tensor([[float(each)]]) for each in (full, 3, summed)))
    trusting = sums / (summed + 1) ** 0.5 + kept / (summed + 1)
    expected = {-1e4: trusting, 1e4: of_sum * sums + own * kept}
    expected[0.0] = sum(expected.values()) / 2
    for pushed, found in expected.items():
        with torch.no_grad():
            layer.gate.fill_((pushed - layer.START) / layer.GAIN)
        assert torch.allclose(layer.update(kept, sums, degrees), found, atol=1e-6)


@pytest.mark.parametrize(("full", "summed"), [(3, 3), (5, 3), (2, 0)], ids=["all neighbours", "some", "no sum"])
def test_where_sums_are_not_filled_a_gate_changes_nothing(full: int, summed: int) -> None:
    torch.manual_seed(0)
    gated, plain = GatedGCNLayer(4, 2), GCNLayer(4, 2)
    kept, sums = torch.randn(1, 2), torch.randn(1, 2) * bool(summed)
    degrees = Degrees(*(torch.tensor([[float(each)]]) for each in (full, 3, summed)))
    with torch.no_grad():
        gated.gate.fill_(0.3)
    assert torch.equal(gated.update(kept, sums, degrees), plain.update(kept, sums, degrees))


@pytest.mark.parametrize(("k_min", "moves"), [(8, True), (1, False)])
def test_gates_are_learnt_over_relays_where_sums_are_filled(graph: FederatedGraph, k_min: int, moves: bool) -> None:
    """Devices' gradients of the gate reach their silo as sums, and there are none where all rows are neighbours'."""
    scheme = RelayCoded(k_min=k_min, max_degree=16)
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0))
    process = silos_of(graph, scheme, replace(QUICK, epochs=1), backbone="gcn_gated").open(channel)
    process.begin()
    process.round(0)
    for program in process.programs:
        assert isinstance(program, HiFGLSilo)
        assert [bool(cast("GatedGCNLayer", layer).gate.any()) for layer in program.layers] == [moves] * 2
