"""FedSpray's networks and encoder against sums over neighbours, node by node."""

import warnings

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.networks import (
    DENSE,
    GCN,
    NETWORKS,
    SGC,
    Affine,
    Encoder,
    GraphSAGE,
    Subgraph,
    draw_encoder,
    draw_weights,
    product,
)
from fgl_secure.training.silo import Silo
from tests.methods.fedspray.runs import digits, tiny

CPU = torch.device("cpu")


def neighbours(graph: FederatedGraph, client: int) -> list[list[int]]:
    """Places of the neighbours of each node of a client, edges to others left out."""
    members = graph.devices_of(client).tolist()
    edges = set(zip(*graph.edges.tolist(), strict=True))
    return [[members.index(u) for u in members if (u, v) in edges] for v in members]


def convolved(h: np.ndarray, near: list[list[int]]) -> np.ndarray:
    """Row v: the sum over v and its neighbours u of h_u / sqrt((deg u + 1) (deg v + 1))."""
    return np.array([
        sum(h[u] / np.sqrt((len(near[u]) + 1) * (len(near[v]) + 1)) for u in [v, *near[v]]) for v in range(len(near))
    ])  # fmt: skip


def averaged(h: np.ndarray, near: list[list[int]]) -> np.ndarray:
    """Row v: the mean of h over the neighbours; zeros without any."""
    return np.array([np.mean(h[us], axis=0) if us else np.zeros(h.shape[1]) for us in near])


def of(layer: Affine | torch.nn.Parameter) -> np.ndarray:
    """The weight, [in, out]."""
    weight: np.ndarray = (layer.weight if isinstance(layer, Affine) else layer).detach().numpy()
    return weight


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("client", [0, 1])
def test_networks_compute_what_their_papers_write(client: int, edges: bool) -> None:
    """GCN, SGC and GraphSAGE agree with sums over neighbours; an isolated node hears itself alone."""
    graph = tiny(edges=edges)
    held, near = Subgraph.of(Silo.of(graph, client), CPU), neighbours(graph, client)
    x, draws = graph.features[held.members], torch.Generator().manual_seed(0)
    gcn, sgc, sage = GCN(3, 4, 3), SGC(3, 4, 3), GraphSAGE(3, 4, 3)
    for network in (gcn, sgc, sage):
        draw_weights(network, draws, uniform=True)
    hidden = np.maximum(convolved(x @ of(gcn.first), near) + gcn.first.bias.detach().numpy(), 0)
    expected = convolved(hidden @ of(gcn.second), near) + gcn.second.bias.detach().numpy()
    np.testing.assert_allclose(gcn.scores(held).detach(), expected, rtol=1e-5)
    expected = convolved(convolved(x, near), near) @ of(sgc.only) + sgc.only.bias.detach().numpy()
    np.testing.assert_allclose(sgc.scores(held).detach(), expected, rtol=1e-5)
    own, bias = x @ of(sage.first_own), sage.first_neighbours.bias.detach().numpy()
    hidden = np.maximum(averaged(x, near) @ of(sage.first_neighbours) + own + bias, 0)
    own, bias = hidden @ of(sage.second_own), sage.second_neighbours.bias.detach().numpy()
    expected = averaged(hidden, near) @ of(sage.second_neighbours) + own + bias
    np.testing.assert_allclose(sage.scores(held).detach(), expected, rtol=1e-5)


def test_networks_are_those_of_torch_geometric() -> None:
    """The same scores as PyG's GCNConv, SGConv and SAGEConv with the same weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.nn import GCNConv, SAGEConv, SGConv
    graph = digits()
    held = Subgraph.of(Silo.of(graph, 1), CPU)
    place = np.full(graph.num_devices, -1)
    place[held.members] = np.arange(len(held.members))
    renumbered = place[graph.edges]
    edges = torch.tensor(renumbered[:, (renumbered >= 0).all(axis=0)])
    x = torch.tensor(graph.features[held.members])
    gcn, sgc, sage = GCN(64, 5, 10), SGC(64, 5, 10), GraphSAGE(64, 5, 10)
    first, second, only = GCNConv(64, 5), GCNConv(5, 10), SGConv(64, 10, K=2)
    first.load_state_dict({"lin.weight": gcn.first.weight.T, "bias": gcn.first.bias})
    second.load_state_dict({"lin.weight": gcn.second.weight.T, "bias": gcn.second.bias})
    torch.testing.assert_close(gcn.scores(held), second(first(x, edges).relu(), edges), rtol=1e-4, atol=1e-4)
    only.load_state_dict({"lin.weight": sgc.only.weight.T, "lin.bias": sgc.only.bias})
    torch.testing.assert_close(sgc.scores(held), only(x, edges), rtol=1e-4, atol=1e-4)
    one, two = SAGEConv(64, 5), SAGEConv(5, 10)
    for theirs, neighbour, own in (
        (one, sage.first_neighbours, sage.first_own),
        (two, sage.second_neighbours, sage.second_own),
    ):
        weights = {"lin_l.weight": neighbour.weight.T, "lin_l.bias": neighbour.bias, "lin_r.weight": own.T}
        theirs.load_state_dict(weights)
    torch.testing.assert_close(sage.scores(held), two(one(x, edges).relu(), edges), rtol=1e-4, atol=1e-4)


def test_the_encoder_sees_features_and_proxies_alone() -> None:
    """Classifier on embedding plus proxy, projector on the embedding; no edge enters."""
    graph = tiny()
    held, encoder = Subgraph.of(Silo.of(graph, 0), CPU), Encoder(3, 4, 3)
    draw_encoder(encoder, torch.Generator().manual_seed(0))
    x = torch.tensor(graph.features[held.members])
    e = torch.relu(x @ encoder.embedding.weight + encoder.embedding.bias)
    proxies = torch.rand(8, 4)
    torch.testing.assert_close(encoder.embed(held.features), e)
    expected = (e + proxies) @ encoder.classifier.weight + encoder.classifier.bias
    torch.testing.assert_close(encoder.classify(e, proxies), expected)
    torch.testing.assert_close(encoder.project(e), e @ encoder.projector.weight + encoder.projector.bias)
    assert encoder.embedding.weight.abs().max() <= 0.5  # one over the root of four columns
    assert encoder.classifier.weight.abs().max() <= 3**-0.5


@pytest.mark.parametrize("share", [DENSE / 2, 2 * DENSE, 0.0])
def test_sparse_and_full_products_are_one(share: float) -> None:
    """Both layouts give the product and its gradient, for an all-zero matrix too."""
    draws = np.random.default_rng(0)
    matrix = draws.normal(size=(9, 7)) * (draws.uniform(size=(9, 7)) < share)
    values = torch.rand(7, 3, requires_grad=True)
    found = product(sparse.csr_array(matrix), CPU)(values)
    expected = torch.tensor(matrix, dtype=torch.float32) @ values
    torch.testing.assert_close(found, expected)
    weights = torch.rand(9, 3)
    got = torch.autograd.grad((found * weights).sum(), values)
    torch.testing.assert_close(got, torch.autograd.grad((expected * weights).sum(), values))


@pytest.mark.parametrize("backbone", NETWORKS)
def test_initial_weights_depend_on_the_generator_alone(backbone: str) -> None:
    """Equal seeds draw equal weights; the public code's are in [0, 1), biases too; Glorot's come with zero biases."""
    one, two = NETWORKS[backbone](5, 4, 3), NETWORKS[backbone](5, 4, 3)
    for uniform in (True, False):
        for network in (one, two):
            draw_weights(network, torch.Generator().manual_seed(3), uniform)
        for (name, a), b in zip(one.named_parameters(), two.parameters(), strict=True):
            assert torch.equal(a, b)
            if uniform:
                assert a.min() >= 0
                assert 0 < a.max() < 1
            elif name.endswith("bias"):
                assert not a.any()
            else:
                assert a.min() < 0 < a.max()
