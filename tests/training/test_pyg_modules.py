"""Modules of torch_geometric as backbones: the same scores and gradients, trained under schemes, or refused."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fgl_secure import backbones, train
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.backbones import Degrees, MessageLayer
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.graphs import two_communities

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own imports are deprecated in torch
    from torch_geometric.nn import GAT, GCN, GIN, GCNConv, GINConv, GraphSAGE, SAGEConv, Sequential

RATE = 0.4


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities()


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of backbones are forgotten after each test."""
    monkeypatch.setattr(backbones, "_registered", {})
    torch.manual_seed(0)


class Net(nn.Module):
    """Convolutions of three kinds as attributes, registered in another order than they are called."""

    def __init__(self, skip: float = 0.0, twice: bool = False, before: float = 0.0, head: bool = False) -> None:
        super().__init__()
        self.last = GINConv(nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 2)), eps=0.3)
        self.first, self.second = GCNConv(8, 6), SAGEConv(6, 7, aggr="sum")
        self.skip, self.twice, self.before = skip, twice, before
        self.head = nn.Linear(2, 2) if head else None

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x, self.before, self.training)
        h = functional.dropout(self.first(x, edge_index).relu(), RATE, self.training)
        h = functional.dropout(functional.relu(self.second(h, edge_index)), RATE, self.training) + self.skip
        h = self.last(h, edge_index) + (self.last(h, edge_index) if self.twice else 0)
        return torch.log_softmax(h if self.head is None else self.head(h), dim=1)


def chained(*parts: Any) -> nn.Module:
    """Convolutions and what stands between them."""
    return cast(
        nn.Module,
        Sequential(
            "x, edge_index", [(each, "x, edge_index -> x") if hasattr(each, "aggr") else each for each in parts]
        ),
    )


def tied() -> nn.Module:
    """One weight in two layers."""
    module = GCN(8, 8, 3, 2)
    module.convs[1].lin.weight = module.convs[0].lin.weight
    return cast(nn.Module, module)


def frozen() -> nn.Module:
    module = GCN(8, 4, 2, 2)
    module.convs[0].bias.requires_grad_(False)
    return cast(nn.Module, module)


SERVED: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: GCN(8, 6, 3, 2),
    "GCN without loops": lambda: GCN(8, 6, 2, 2, add_self_loops=False),
    "GraphSAGE": lambda: GraphSAGE(8, 6, 2, 2),
    "GraphSAGE, sum": lambda: GraphSAGE(8, 6, 2, 2, aggr="sum"),
    "GIN": lambda: GIN(8, 6, 2, 2),
    "one layer": lambda: GCNConv(8, 2),
    "three kinds": Net,
    "GIN of one product": lambda: chained(GINConv(nn.Linear(8, 4)), nn.ReLU(), GCNConv(4, 2)),
}


def on_whole_graph(layers: nn.ModuleList, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """The scores of layers where one place has all edges."""
    number = torch.bincount(edges[1], minlength=len(x))[:, None].float()
    h, degrees = x, Degrees(number, number, number)
    for each in layers:
        layer = cast(MessageLayer, each)
        kept = layer.local_state(h)
        message = layer.message(kept, degrees)
        h = layer.update(kept, torch.zeros_like(message).index_add(0, edges[1], message[edges[0]]), degrees)
        h = h if layer is layers[-1] else torch.relu(h)
    return h


@pytest.mark.parametrize("name", SERVED)
def test_scores_and_gradients_are_those_of_the_module(graph: FederatedGraph, name: str) -> None:
    """Of every node and of every parameter, to 1e-4."""
    module = SERVED[name]().eval()
    adapted = backbones.register_backbone("mine", module)
    layers = adapted.copy_layers(8, 2)
    x, edges, labels = torch.tensor(graph.features), torch.tensor(graph.edges), torch.tensor(graph.labels)
    theirs, ours = module(x, edges), on_whole_graph(layers, x, edges)
    expected = ours if name != "three kinds" else torch.log_softmax(ours, dim=1)
    torch.testing.assert_close(expected, theirs, rtol=1e-4, atol=1e-4)
    for scores in (theirs, ours):
        torch.autograd.backward(functional.cross_entropy(scores, labels))
    for origin, each in zip(adapted.origins, layers.parameters(), strict=True):
        assert origin.grad is not None
        torch.testing.assert_close(each.grad, origin.grad.t(), rtol=1e-3, atol=1e-4)


SCHEMES = ("plaintext", "secmp", "relay-coded[k_min=1]")


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GIN", "three kinds"])
def test_modules_train_alike_under_every_scheme(graph: FederatedGraph, name: str) -> None:
    """Losses agree to 1e-2 and accuracies are equal; loaded weights score as the last round's models do."""
    start = SERVED[name]().eval()
    runs = []
    for number, scheme in enumerate(SCHEMES):
        module = copy.deepcopy(start)
        adapted = backbones.register_backbone(f"net{number}", module)
        found = train(HiFGL(backbone=f"net{number}", epochs=6), graph, scheme, device="cpu")
        assert adapted.load(found.result.report["theta"]) is module
        runs.append((found, module))
    (plain, trained), *secured = runs
    x, edges = torch.tensor(graph.features), torch.tensor(graph.edges)
    assert plain.result.losses[-1] < plain.result.losses[0]
    assert not torch.allclose(trained(x, edges), start(x, edges), atol=1e-2)
    for found, module in secured:
        assert np.allclose(found.result.losses, plain.result.losses, atol=1e-2)
        assert found.accuracy == plain.accuracy
        torch.testing.assert_close(module(x, edges), trained(x, edges), rtol=0.05, atol=0.05)


@pytest.mark.parametrize(("kind", "backbone"), [(GCN, "gcn"), (GraphSAGE, "sage")])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_module_learns_as_the_shipped_backbone_of_its_kind(
    graph: FederatedGraph, kind: Callable[..., nn.Module], backbone: str, scheme: str
) -> None:
    """On the same data, from other initial weights: within a fifth of its test nodes."""
    backbones.register_backbone("mine", kind(8, 64, 2, 2))
    found = [train(HiFGL(backbone=each, epochs=12), graph, scheme, device="cpu") for each in ("mine", backbone)]
    mine, shipped = (each.accuracy.test or 0 for each in found)
    assert abs(mine - shipped) <= 0.2
    assert mine > 0.7


def test_weights_widths_and_dropout_are_the_modules() -> None:
    """Not the preset's, whatever the seed; a graph of another shape is refused, and so are weights of another size."""
    adapted = backbones.register_backbone("mine", Net())
    chosen = HiFGL(backbone="mine").training("digits")
    assert (chosen.layers, chosen.hidden, chosen.dropout) == (3, 9, RATE)
    assert [p.tolist() for p in adapted.copy_layers(8, 2).parameters()] == [p.t().tolist() for p in adapted.origins]
    with pytest.raises(InputError, check=about("theta")):
        adapted.load(np.zeros(3))
    with pytest.raises(InputError, check=about("backbone")):
        train(HiFGL(backbone="mine", epochs=1), "digits", "plaintext", device="cpu")


class _Gelu(Net):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        h = self.second(functional.gelu(self.first(x, edge_index)), edge_index)
        return cast(torch.Tensor, self.last(h.relu(), edge_index))


class Two(nn.Module):
    """Two convolutions whose call a test changes."""

    def __init__(self, call: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor], classes: int = 2) -> None:
        super().__init__()
        self.first, self.second, self.call = GCNConv(8, 4), GCNConv(4, classes), call

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.call(self, x, edge_index)


def cut(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, net.second(net.first(x, edges).relu().detach(), edges))


def reversed_edges(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, net.second(net.first(x, edges.flip(0)).relu(), edges.flip(0)))


def few_edges(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, net.second(net.first(x, edges[:, :200]).relu(), edges[:, :200]))


def one_class(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(net.second(net.first(x, edges).tanh(), edges), dim=1)


def hooked() -> nn.Module:
    module = GCN(8, 4, 2, 2)
    module.convs[0].bias.register_hook(torch.zeros_like)
    return cast(nn.Module, module)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "attention": (lambda: GAT(8, 4, 2, 2), "module.convs.0"),
    "another mean": (lambda: GraphSAGE(8, 4, 2, 2, aggr="max"), "convs.0.aggr"),
    "not normalised": (lambda: GCN(8, 4, 2, 2, normalize=False), "convs.0.normalize"),
    "improved": (lambda: GCN(8, 4, 2, 2, improved=True), "convs.0.improved"),
    "cached": (lambda: GCN(8, 4, 2, 2, cached=True), "convs.0.cached"),
    "projected": (lambda: GraphSAGE(8, 4, 2, 2, project=True), "convs.0.project"),
    "no root": (lambda: GraphSAGE(8, 4, 2, 2, root_weight=False), "convs.0.root_weight"),
    "reversed": (lambda: GCN(8, 4, 2, 2, flow="target_to_source"), "convs.0.flow"),
    "no bias": (lambda: GCN(8, 4, 2, 2, bias=False), "convs.0"),
    "lazy": (lambda: GCN(-1, 4, 2, 2), "lin.weight"),
    "frozen": (frozen, "convs.0.bias"),
    "epsilon trained": (lambda: GIN(8, 4, 2, 2, train_eps=True), "GINConv"),
    "tied": (tied, "module"),
    "batch normalisation": (lambda: GCN(8, 4, 2, 2, norm="batch"), "module"),
    "its statistics alone": (lambda: GCN(8, 4, 2, 2, norm="batch", norm_kwargs={"affine": False}), "module"),
    "normalised pairs": (lambda: GCN(8, 4, 2, 2, norm="PairNorm"), "module"),
    "jumping knowledge": (lambda: GCN(8, 4, 2, 2, jk="cat"), "module"),
    "a head": (lambda: Net(head=True), "module"),
    "a skip": (lambda: Net(skip=0.1), "module"),
    "a layer twice": (lambda: Net(twice=True), "module"),
    "dropout of features": (lambda: Net(before=0.5), "module"),
    "another dropout": (lambda: chained(GCNConv(8, 4), nn.AlphaDropout(), nn.ReLU(), GCNConv(4, 2)), "module"),
    "GELU": (_Gelu, "module"),
    "ReLU6": (lambda: chained(GCNConv(8, 4), nn.ReLU6(), GCNConv(4, 2)), "module"),
    "ELU": (lambda: GCN(8, 4, 2, 2, act="elu"), "module"),
    "no activation": (lambda: chained(GCNConv(8, 4), GCNConv(4, 2)), "module"),
    "no forward": (lambda: nn.ModuleList([GCNConv(8, 2)]), "module"),
    "no convolution": (lambda: nn.Linear(8, 2), "module"),
    "no module": (lambda: "GCN", "layer"),
    "a part without gradients": (lambda: Two(cut), "module"),
    "other edges": (lambda: Two(reversed_edges), "module"),
    "a number of edges": (lambda: Two(few_edges), "module"),
    "a score that says nothing": (lambda: Two(one_class, classes=1), "module"),
    "a skip in many layers": (lambda: Net(skip=1e-3), "module"),
    "a hook": (hooked, "convs.0.bias"),
    "all dropped": (lambda: GCN(8, 4, 2, 2, dropout=1.0), "dropout of module"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sums_do_not_serve_is_refused(name: str) -> None:
    """By the part or option that it is about; nothing is registered."""
    make, argument = REFUSED[name]
    with pytest.raises(InputError, check=about(argument)):
        backbones.register_backbone("mine", make())
    assert "mine" not in backbones.names()
    with pytest.raises(InputError, check=about("name of a backbone")):
        backbones.register_backbone("gcn", GCNConv(8, 2))


def test_registering_leaves_the_module_and_the_generator_as_they_are() -> None:
    module = Net()
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    backbones.register_backbone("mine", module)
    assert module.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_trained_weights_reach_parameters_that_were_replaced(graph: FederatedGraph) -> None:
    """`load_state_dict(assign=True)` makes new parameters; a module that has lost one is refused."""
    module = GCN(8, 4, 2, 2)
    adapted = backbones.register_backbone("mine", module)
    module.load_state_dict(copy.deepcopy(module.state_dict()), assign=True)
    trained = train(HiFGL(backbone="mine", epochs=2), graph, "plaintext", device="cpu")
    adapted.load(trained.result.report["theta"])
    assert np.array_equal(module.convs[0].bias.detach().numpy(), trained.result.report["theta"][32:36])
    del module.convs[0].bias
    with pytest.raises(InputError, check=about("module")):
        adapted.load(trained.result.report["theta"])


def test_every_run_of_hifgl_drops_at_the_modules_rate(graph: FederatedGraph) -> None:
    module, losses = GCN(8, 4, 2, 2), []
    for rate in (0.0, 0.5):
        module.dropout.p = rate
        backbones.register_backbone("mine", module)
        losses.append(silos_of(graph, Plaintext(), replace(HONEST, epochs=2), backbone="mine").train().losses)
    assert losses[0] != losses[1]
