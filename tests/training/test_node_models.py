"""The models are those of their papers, whatever their matrices are kept as."""

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.node_models import (
    DAGNNModel,
    GCNModel,
    Matrix,
    NodeModel,
    PerceptronModel,
    Propagation,
    SageModel,
    Surroundings,
    degree_weights,
    make_model,
)
from tests.methods.fed2gnn.oracles import random_graph

GRAPH = random_graph(12, 16, 1, 3)
ADJACENCY = np.zeros((12, 12))
ADJACENCY[GRAPH.edges[1], GRAPH.edges[0]] = 1
DEGREE = ADJACENCY.sum(axis=1)
ROWS = torch.from_numpy(GRAPH.features.copy())
NO_DROPOUT = CoinDropout(0.0, 0)


def weights(kind: Propagation) -> sparse.csr_array:
    source, target = GRAPH.edges
    return degree_weights(source, target, np.ones(len(source)), DEGREE, kind)


def scores(model: NodeModel, kind: Propagation) -> torch.Tensor:
    surroundings = Surroundings(Matrix(sparse.csr_array(GRAPH.features)), Matrix(weights(kind)))
    found: torch.Tensor = model(surroundings, NO_DROPOUT)
    return found


def looped() -> torch.Tensor:
    root = np.sqrt(DEGREE + 1)
    return torch.from_numpy(((ADJACENCY + np.eye(12)) / root / root[:, None]).astype(np.float32))


def test_gcn_is_kipf_and_wellings() -> None:
    """D^-1/2 (A + I) D^-1/2 in both layers, ReLU in between."""
    model = make_model("gcn", (3, 5, 2), 2, seed=0)
    assert isinstance(model, GCNModel)
    first, second = model.weights
    hidden = torch.relu(looped() @ (ROWS @ first) + model.biases[0])
    torch.testing.assert_close(scores(model, Propagation.SYMMETRIC), looped() @ hidden @ second + model.biases[1])


def test_graphsage_takes_means() -> None:
    """A node without neighbours hears zero."""
    model = make_model("sage", (3, 5, 2), 2, seed=0)
    assert isinstance(model, SageModel)
    mean = torch.from_numpy((ADJACENCY / np.maximum(DEGREE, 1)[:, None]).astype(np.float32))
    hidden = torch.relu(ROWS @ model.own[0] + mean @ ROWS @ model.told[0] + model.biases[0])
    wanted = hidden @ model.own[1] + mean @ hidden @ model.told[1] + model.biases[1]
    torch.testing.assert_close(scores(model, Propagation.MEAN), wanted)


@pytest.mark.parametrize("hops", [1, 5, 10])
def test_dagnn_gates_every_hop(hops: int) -> None:
    """The sum over l = 0..K of sigmoid(H_l s + b) H_l with H_l = A-hat^l Z."""
    model = make_model("dagnn", (3, 5, 2), hops, seed=0)
    assert isinstance(model, DAGNNModel)
    z = torch.relu(ROWS @ model.weights[0] + model.biases[0]) @ model.weights[1] + model.biases[1]
    layers = [torch.linalg.matrix_power(looped(), hop) @ z for hop in range(hops + 1)]
    wanted = sum(torch.sigmoid(h @ model.gate + model.gate_bias) * h for h in layers)
    torch.testing.assert_close(scores(model, Propagation.SYMMETRIC), wanted, rtol=1e-4, atol=1e-5)


def test_a_sparse_matrix_multiplies_like_a_dense_one() -> None:
    thin = sparse.random_array((40, 60), density=0.05, rng=np.random.default_rng(0), format="csr")
    values = torch.ones(60, 3, requires_grad=True)
    product = Matrix(thin) @ values
    torch.testing.assert_close(product, torch.from_numpy(thin.toarray().astype(np.float32)) @ values)
    product.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert values.grad is not None
    np.testing.assert_allclose(values.grad[:, 0].numpy(), thin.sum(axis=0), rtol=1e-6)
    full = sparse.csr_array(np.ones((2, 3)))
    torch.testing.assert_close(Matrix(full) @ torch.ones(3, 1), torch.full((2, 1), 3.0))


@pytest.mark.parametrize("kind", list(Propagation))
def test_a_node_that_stands_for_several_sends_what_they_would(kind: Propagation) -> None:
    """Three equal leaves below a node, and one that counts for three, give the node the same."""
    ends = np.array([[1, 2, 3], [0, 0, 0]])
    degree = np.array([3.0, 1, 1, 1])
    apart = degree_weights(ends[0], ends[1], np.ones(3), degree, kind).toarray()[0]
    together = degree_weights(ends[0, :1], ends[1, :1], np.array([3.0]), degree[:2], kind).toarray()[0]
    np.testing.assert_allclose([apart[0], apart[1:].sum()], together)


def test_a_perceptron_looks_at_no_edge() -> None:
    model = PerceptronModel((3, 5, 2), torch.Generator().manual_seed(0))
    assert torch.equal(scores(model, Propagation.MEAN), scores(model, Propagation.SYMMETRIC))
