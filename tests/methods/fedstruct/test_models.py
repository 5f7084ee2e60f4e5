"""The models of FedStruct: fast forms against the formulas they stand for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import normalised_adjacency
from fgl_secure.methods.fedstruct.client import (
    DecoupledGCN,
    FixedRows,
    Sage,
    SageLayer,
    feature_model,
    neighbour_means,
    without_last_loops,
)
from fgl_secure.methods.fedstruct.preset import FeatureModelKind, FedStructPreset
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.sparse_products import SparseMatrix
from tests.graphs import two_communities

CPU = torch.device("cpu")
GRAPH = two_communities()
PRESET = FedStructPreset("quick", 4, 0.02, 0.02, 1e-3, 0.5, (6,), 2, (6, 5), (7,), 3)


def silent() -> Dropout:
    return Dropout(0.5, 0)


def norm_of(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    return norm


@pytest.mark.parametrize("share", [0.05, 0.9], ids=["sparse", "dense"])
def test_fixed_rows_are_a_layer_norm_and_a_linear_layer(share: float) -> None:
    """Value and all gradients are torch's, whichever way the rows are kept, and for a row of zeros too."""
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(12, 40)) * (rng.random((12, 40)) < share)).astype(np.float32)
    rows[3] = 0
    torch.manual_seed(0)
    norm, linear = norm_of(40), nn.Linear(40, 5)
    fast = FixedRows(rows, CPU).product(norm, linear)
    slow = linear(norm(torch.from_numpy(rows)))
    assert torch.allclose(fast, slow, atol=1e-5)
    weights = [*norm.parameters(), *linear.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad((fast**2).sum(), weights), torch.autograd.grad((slow**2).sum(), weights), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def inputs() -> NDArray[np.float32]:
    return GRAPH.features.copy()


def test_a_decoupled_gcn_multiplies_outputs_by_powers() -> None:
    """f is (D^-1 (A + I))^L of the perceptron's outputs."""
    adjacency = normalised_adjacency(GRAPH.graph)
    model = DecoupledGCN((8, 6, 2), SparseMatrix(adjacency), 3).eval()
    plain = model.perceptron(FixedRows(inputs(), CPU), silent())
    power = torch.from_numpy(np.linalg.matrix_power(adjacency.toarray(), 3).astype(np.float32))
    assert torch.allclose(model(FixedRows(inputs(), CPU), silent()), power @ plain, atol=1e-5)


def test_sage_takes_means_over_neighbours() -> None:
    """Two layers and a head are the formula of GraphSAGE after a LayerNorm, ReLU between the layers alone."""
    mean = neighbour_means(GRAPH)
    model = Sage((8, 6, 5), 2, SparseMatrix(mean)).eval()
    h, m = model.norm(torch.from_numpy(inputs())), torch.from_numpy(mean.toarray().astype(np.float32))
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, SageLayer)
        h = torch.relu(h) if number else h
        h = layer.own(h) + layer.neighbours(m @ h) + layer.bias
    assert torch.allclose(model(FixedRows(inputs(), CPU), silent()), model.head(h), atol=1e-5)


def test_means_are_over_sources_of_incoming_edges() -> None:
    """Rows add up to 1, or to 0 without a neighbour; a directed edge counts at its target."""
    graph = directed([[0, 1], [2, 2]], 4)
    assert np.array_equal(neighbour_means(graph).toarray()[2], [0.5, 0.5, 0, 0])
    assert neighbour_means(graph).sum() == 1


def directed(edges: list[list[int]], nodes: int, clients: list[int] | None = None) -> FederatedGraph:
    graph = Graph.from_arrays("small", np.eye(nodes), np.zeros(nodes, dtype=np.int64), edges)
    everything, nothing = np.ones(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, clients or [0] * nodes, SplitMasks(everything, nothing, nothing))


def test_forgotten_loops_are_those_after_the_last_node_with_an_edge() -> None:
    """Each client by itself: isolated nodes before its last joined node keep their loop, later ones lose it."""
    graph = directed([[0, 4, 1, 3], [4, 0, 3, 1]], 8, [0, 1, 0, 1, 0, 1, 0, 1])
    kept = without_last_loops(normalised_adjacency(graph.graph), graph).sum(axis=1)
    assert np.allclose(kept, [1, 1, 1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("kind", FeatureModelKind)
def test_f_sees_local_edges_alone(kind: FeatureModelKind) -> None:
    """Features of another client's nodes do not change a node's scores, and those of its own client's do."""
    model = feature_model(GRAPH, replace(PRESET, feature_model=kind), CPU).eval()
    changed = inputs().copy()
    changed[GRAPH.silo_of == 1] += np.arange(8)
    moved = (model(FixedRows(changed, CPU), silent()) - model(FixedRows(inputs(), CPU), silent())).abs().sum(dim=1)
    assert moved[torch.from_numpy(GRAPH.silo_of == 0)].max() == 0
    assert moved[torch.from_numpy(GRAPH.silo_of == 1)].min() > 0
