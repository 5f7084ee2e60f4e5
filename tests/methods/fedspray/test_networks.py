"""FedSpray's networks and encoder against sums over neighbours, node by node."""

import warnings

import numpy as np
import pytest
import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.networks import GCN, SGC, GraphSAGE, ProxyEncoder, Subgraph, draw_encoder
from fgl_secure.training.silo import Silo
from tests.methods.fedspray.runs import digits, tiny

CPU = torch.device("cpu")


@pytest.mark.parametrize(("graph", "client"), [(digits(), 1), (tiny(), 0), (tiny(edges=False), 1)], ids=["a", "b", "c"])
def test_networks_are_those_of_torch_geometric(graph: FederatedGraph, client: int) -> None:
    """The same scores as PyG's GCNConv, SGConv and SAGEConv with the same weights, at isolated nodes too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.nn import GCNConv, SAGEConv, SGConv
    held, (d, c) = Subgraph.of(Silo.of(graph, client), CPU), (graph.graph.num_features, graph.num_classes)
    place = np.full(graph.num_devices, -1)
    place[held.members] = np.arange(len(held.members))
    renumbered = place[graph.edges]
    edges = torch.tensor(renumbered[:, (renumbered >= 0).all(axis=0)])
    x = torch.tensor(graph.features[held.members])
    gcn, sgc, sage = GCN(d, 5, c), SGC(d, 5, c), GraphSAGE(d, 5, c)
    first, second, only = GCNConv(d, 5), GCNConv(5, c), SGConv(d, c, K=2)
    first.load_state_dict({"lin.weight": gcn.first.weight.T, "bias": gcn.first.bias})
    second.load_state_dict({"lin.weight": gcn.second.weight.T, "bias": gcn.second.bias})
    torch.testing.assert_close(gcn.scores(held), second(first(x, edges).relu(), edges), rtol=1e-4, atol=1e-4)
    only.load_state_dict({"lin.weight": sgc.only.weight.T, "lin.bias": sgc.only.bias})
    torch.testing.assert_close(sgc.scores(held), only(x, edges), rtol=1e-4, atol=1e-4)
    sgc.propagations, only.K = 3, 3
    torch.testing.assert_close(sgc.scores(held), only(x, edges), rtol=1e-4, atol=1e-4)
    one, two = SAGEConv(d, 5), SAGEConv(5, c)
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
    held, encoder = Subgraph.of(Silo.of(graph, 0), CPU), ProxyEncoder(3, 4, 3)
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
