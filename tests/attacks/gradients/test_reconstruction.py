"""Graphs behind gradients: recovered exactly where they are determined, and never claimed where they are not."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx import connected_watts_strogatz_graph, cycle_graph, path_graph, star_graph, to_numpy_array
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.attacks import reconstruct_graph
from fgl_secure.errors import InputError
from tests.error_codes import about

with warnings.catch_warnings():  # torch_geometric compiles a class with what torch deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GATConv, GCNConv

WORDS, OWN, DEGREES, CLASSES, WIDTH = 80, 40, 10, 3, 96
COLUMNS = slice(WORDS, WORDS + DEGREES)


class Model(torch.nn.Module):
    """Two convolutions and two linear layers, which features enter again unless `plain`."""

    def __init__(self, convolution: Any = GCNConv, *, plain: bool = False, pooled: bool = False) -> None:
        super().__init__()
        self.plain, self.pooled = plain, pooled
        self.one, self.two = convolution(WORDS + DEGREES, WIDTH), convolution(WIDTH, WIDTH)
        self.three = torch.nn.Linear(WIDTH if plain else WIDTH + WORDS + DEGREES, WIDTH)
        self.four = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.two(self.one(x, edges).relu(), edges)
        h = self.four(self.three(h.relu() if self.plain else torch.cat([x, h], 1)).relu())
        return h.mean(0, keepdim=True) if self.pooled else h


def model(*args: Any, seed: int = 0, **kwargs: Any) -> Model:
    torch.manual_seed(seed)
    return Model(*args, **kwargs).double()


Graph = tuple[NDArray[Any], NDArray[Any]]


def with_degrees(words: NDArray[Any], adjacency: NDArray[Any]) -> Graph:
    return np.concatenate([words, np.eye(DEGREES)[adjacency.sum(axis=1).astype(int)]], axis=1), adjacency


def draw(rng: np.random.Generator, nodes: int, own: int = 0) -> Graph:
    """A connected graph whose nodes have ten words each, one of them their own; own words begin behind `own` others."""
    adjacency = to_numpy_array(path_graph(nodes))
    for one, two in rng.integers(nodes, size=(nodes // 3, 2)):
        adjacency[one, two] = adjacency[two, one] = float(one != two)
    for one, two in zip(range(nodes - 1), range(1, nodes), strict=True):
        adjacency[one, two] = adjacency[two, one] = 1
    words = np.zeros((nodes, WORDS))
    for row in words:
        row[rng.choice(WORDS - OWN, 9, replace=False)] = 1
    words[np.arange(nodes), WORDS - OWN + (own + np.arange(nodes)) % OWN] = 1
    return with_degrees(words, adjacency)


def gradient(net: Model, graph: Graph, labels: NDArray[Any]) -> list[torch.Tensor]:
    x, edges = torch.from_numpy(graph[0]), torch.from_numpy(np.stack(np.nonzero(graph[1])))
    loss = functional.cross_entropy(net(x, edges), torch.from_numpy(labels))
    return list(torch.autograd.grad(loss, list(net.parameters())))


@pytest.mark.parametrize("convolution", [GCNConv, GATConv], ids=["gcn", "gat"])
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.integers(3, 12))
def test_graphs_are_recovered_exactly(convolution: Any, seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    net, graph, labels = model(convolution, seed=seed), draw(rng, nodes), rng.integers(CLASSES, size=nodes)
    result = reconstruct_graph(net, gradient(net, graph, labels), COLUMNS, truth=graph)
    assert result.exact
    assert result.distance < 1e-9
    # A few words and edges may describe two graphs with one gradient; then the labels cannot be compared.
    if result.same:
        assert result.agreement == (1.0, 1.0, 1.0)
        assert result.score == 1.0
        assert np.bincount(result.labels, minlength=CLASSES).tolist() == np.bincount(labels, minlength=CLASSES).tolist()
    assert (result.adjacency == result.adjacency.T).all()
    assert (result.adjacency.sum(axis=1) == result.features[:, COLUMNS].argmax(axis=1)).all()


def test_the_order_of_nodes_does_not_matter() -> None:
    rng, net = np.random.default_rng(1), model()
    graph, labels, order = draw(rng, 9), rng.integers(CLASSES, size=9), rng.permutation(9)
    permuted = graph[0][order], graph[1][np.ix_(order, order)]
    one = reconstruct_graph(net, gradient(net, graph, labels), COLUMNS, truth=graph)
    two = reconstruct_graph(net, gradient(net, permuted, labels[order]), COLUMNS, truth=graph)
    assert one.same
    assert two.same
    assert one.exact
    assert two.exact


@pytest.mark.parametrize("shape", ["mapping", "flat"])
def test_gradients_come_by_name_or_flat(shape: str) -> None:
    rng, net = np.random.default_rng(2), model()
    graph = draw(rng, 6)
    parts = gradient(net, graph, rng.integers(CLASSES, size=6))
    named = dict(zip(dict(net.named_parameters()), parts, strict=True))
    given_parts: Any = named if shape == "mapping" else torch.cat([part.ravel() for part in parts])
    assert reconstruct_graph(net, given_parts, COLUMNS, truth=graph).same


@pytest.mark.parametrize("nodes", [2, 5, 8])
def test_paths_with_singular_adjacency_need_features_in_the_readout(nodes: int) -> None:
    """A + I of a path of 2, 5 or 8 nodes has a null vector, which cuts rows off the first layer's gradient."""
    rng = np.random.default_rng(nodes)
    graph = with_degrees(draw(rng, nodes)[0][:, :WORDS], to_numpy_array(path_graph(nodes)))
    assert np.linalg.matrix_rank(graph[1] + np.eye(nodes)) < nodes
    labels = rng.integers(CLASSES, size=nodes)
    for plain in (False, True):
        net = model(plain=plain)
        result = reconstruct_graph(net, gradient(net, graph, labels), COLUMNS, truth=graph)
        assert result.same is result.exact is not plain


@pytest.mark.parametrize("adjacency", [cycle_graph(6), star_graph(4), connected_watts_strogatz_graph(7, 2, 0.0)])
def test_nodes_of_equal_features_are_counted(adjacency: Any) -> None:
    """Atoms of two types, as in a molecule with one label: several nodes share a row of features."""
    edges = to_numpy_array(adjacency)
    words = np.zeros((len(edges), WORDS))
    words[:, 0] = 1
    words[0, :2] = 0, 1
    graph, net = with_degrees(words, edges), model(pooled=True)
    result = reconstruct_graph(net, gradient(net, graph, np.array([1])), COLUMNS, truth=graph)
    assert result.exact
    assert result.same
    assert result.labels.tolist() == [1]


@pytest.mark.parametrize("clients", [2, 5])
def test_a_sum_gives_the_graphs_of_all_clients(clients: int) -> None:
    rng, net = np.random.default_rng(clients), model()
    graphs = [draw(rng, 5, 5 * client) for client in range(clients)]
    total = [torch.stack(parts).sum(0) for parts in
             zip(*(gradient(net, graph, rng.integers(CLASSES, size=5)) for graph in graphs), strict=True)]  # fmt: skip
    result = reconstruct_graph(net, total, COLUMNS, clients=clients)
    assert result.exact
    assert len(result.features) == 5 * clients
    assert not reconstruct_graph(net, total, COLUMNS).exact, "the sum is no single client's gradient"


def test_a_sum_over_more_nodes_than_units_is_not_solved() -> None:
    rng, net = np.random.default_rng(3), model()
    graphs = [draw(rng, 6) for _ in range(20)]
    total = [torch.stack(parts).sum(0) for parts in
             zip(*(gradient(net, graph, rng.integers(CLASSES, size=6)) for graph in graphs), strict=True)]  # fmt: skip
    assert not reconstruct_graph(net, total, COLUMNS, clients=20).exact


def test_a_gradient_of_another_model_gives_no_exact_graph() -> None:
    """Features do not depend on weights, but edges do: a wrong round's weights are noticed."""
    rng, net = np.random.default_rng(4), model()
    graph = draw(rng, 8)
    parts = gradient(net, graph, rng.integers(CLASSES, size=8))
    result = reconstruct_graph(model(seed=1), parts, COLUMNS, truth=graph)
    assert not result.exact
    assert not result.same


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_noise_hides_the_graph(share: float) -> None:
    rng, net = np.random.default_rng(5), model()
    graph = draw(rng, 8)
    parts = gradient(net, graph, rng.integers(CLASSES, size=8))
    flat = torch.cat([part.ravel() for part in parts])
    deviation = share * float(flat.norm()) / len(flat) ** 0.5
    noisy = flat + deviation * torch.from_numpy(rng.standard_normal(len(flat)))
    for stated in (0.0, deviation):
        assert not reconstruct_graph(net, noisy, COLUMNS, noise=stated).exact


def test_rounding_to_sixteen_bits_does_not() -> None:
    rng, net = np.random.default_rng(6), model()
    graph = draw(rng, 6)
    parts = gradient(net, graph, rng.integers(CLASSES, size=6))
    step = max(float(part.abs().max()) for part in parts) / 2**15
    rounded = [torch.round(part / step) * step for part in parts]
    assert reconstruct_graph(net, rounded, COLUMNS, noise=step / 12**0.5, truth=graph).same


def test_dead_units_lower_the_rank_and_claim_nothing() -> None:
    rng, net = np.random.default_rng(7), model(plain=True)
    graph = draw(rng, 8)
    with torch.no_grad():
        net.one.bias[4:] = -100  # of 96 units four are left, for eight nodes
    result = reconstruct_graph(net, gradient(net, graph, rng.integers(CLASSES, size=8)), COLUMNS, truth=graph)
    assert not result.exact
    assert not result.same


def test_features_that_are_not_discrete_give_no_nodes() -> None:
    rng, net = np.random.default_rng(8), model()
    graph = draw(rng, 6)
    scaled = graph[0] * rng.uniform(0.2, 0.8, graph[0].shape), graph[1]
    result = reconstruct_graph(net, gradient(net, scaled, rng.integers(CLASSES, size=6)), COLUMNS)
    assert not result.exact
    assert not len(result.features)
    assert result.score is None


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("gradient", {"gradient": "nan"}),
        ("gradient", {"gradient": "zero"}),
        ("gradient", {"gradient": "short"}),
        ("model", {"model": torch.nn.Linear(WORDS + DEGREES, 2)}),
        ("model", {"model": GCNConv(WORDS + DEGREES, 2)}),
        ("degrees", {"degrees": slice(500, 600)}),
        ("degrees", {"degrees": 3}),
        ("clients", {"clients": 0}),
        ("noise", {"noise": float("nan")}),
        ("truth", {"truth": (np.full((3, WORDS + DEGREES), 0.5), np.zeros((3, 3)))}),
        ("truth", {"truth": (np.ones((3, 4)), np.zeros((3, 3)))}),
        ("truth", {"truth": (np.ones((3, WORDS + DEGREES)), np.zeros((2, 3)))}),
    ],
)
def test_bad_arguments(argument: str, change: dict[str, Any]) -> None:
    net = change.get("model") or model()
    flat = torch.cat([part.detach().ravel() for part in net.parameters()]).double()
    if change.get("gradient") == "nan":
        flat[3] = torch.nan
    elif change.get("gradient") == "zero":
        flat = torch.zeros_like(flat)
    elif change.get("gradient") == "short":
        flat = flat[:-1]
    others = {key: value for key, value in change.items() if key not in ("gradient", "model", "degrees")}
    with pytest.raises(InputError, check=about(argument)):
        reconstruct_graph(net, flat, change.get("degrees", COLUMNS), **others)


def test_models_with_other_convolutions_are_refused() -> None:
    net = model(lambda one, two: GCNConv(one, two, improved=True))
    with pytest.raises(InputError, check=about("model")):
        reconstruct_graph(net, [part.detach() for part in net.parameters()], COLUMNS)
