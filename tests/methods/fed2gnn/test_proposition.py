"""The models that are trained cannot tell local graphs with the branches they miss from the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure.graph import FederatedGraph
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.node_models import Matrix, Surroundings, degree_weights, make_model
from fgl_secure.training.node_models import backbone_of as backbone
from tests.methods.fed2gnn.oracles import random_graph
from tests.methods.fed2gnn.rooted_trees import gcn_rows, gcn_weights, missing_branches, sage_weights

HOPS = 3


def whole(graph: FederatedGraph, name: str) -> Surroundings:
    """All nodes and edges."""
    source, target = graph.edges
    degree, ones = graph.in_degree.astype(np.float64), np.ones(len(source))
    weights = degree_weights(source, target, ones, degree, backbone(name).propagation)
    return Surroundings(Matrix(sparse.csr_array(graph.features.astype(np.float64))), Matrix(weights))


def completed(graph: FederatedGraph, name: str, layers: int) -> Surroundings:
    """The local graphs of all clients with trees."""
    trees = missing_branches(graph, layers).folded()
    degrees, mean = trees.at(graph.in_degree), name == "sage"
    weights = sage_weights(trees.shape, degrees) if mean else gcn_weights(trees.shape, degrees)
    held = trees.holds if mean else gcn_rows(trees, graph.in_degree)
    return Surroundings(Matrix(sparse.csr_array(held @ graph.features.astype(np.float64))), Matrix(weights))


def scores(name: str, surroundings: Surroundings, seed: int) -> torch.Tensor:
    """Of a model with random weights and biases, float32."""
    model = make_model(name, (3, 8, 4), HOPS, seed).eval()
    coins = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=coins))
        found: torch.Tensor = model(surroundings, Dropout(0.0, 0))
    return found[:60]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "layers"), [("gcn", HOPS), ("sage", HOPS), ("dagnn", HOPS + 1)])
def test_models_see_no_difference(name: str, layers: int, seed: int) -> None:
    """GCN and GraphSAGE on trees of K layers, DAGNN on trees of one more, score every node as on the whole graph."""
    graph = random_graph(60, 90, 3, seed)
    expected = scores(name, whole(graph, name), seed)
    assert torch.allclose(scores(name, completed(graph, name, layers), seed), expected, atol=1e-4)
    assert not torch.allclose(scores(name, completed(graph, name, HOPS - 1), seed), expected, atol=1e-4)
    assert not torch.allclose(scores(name, whole(graph.restricted_to_silos(), name), seed), expected, atol=1e-4)


def test_leaves_do_not_serve_a_model_that_transforms_first() -> None:
    """DAGNN's perceptron of a sum is not the sum of its outputs, so K layers with leaves are too few."""
    graph = random_graph(60, 90, 3, 0)
    expected = scores("dagnn", whole(graph, "dagnn"), 0)
    assert not torch.allclose(scores("dagnn", completed(graph, "dagnn", HOPS), 0), expected, atol=1e-4)
