"""Node2Vec: the loss of PyTorch Geometric, and vectors that tell neighbours from strangers."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.graph.structure_features import Node2VecSettings, add_loss_gradient, node2vec, out_edges, random_walks
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, graphs_and_silos

SMALL = Node2VecSettings(width=16, epochs=60, batch=16)


def _two_communities() -> Graph:
    random = nx.planted_partition_graph(2, 20, 0.85, 0.02, seed=1)
    return graph_from_pairs(40, [*random.edges, *((v, u) for u, v in random.edges)])


def _windows(walks: np.ndarray, context: int) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([walks[:, j : j + context] for j in range(walks.shape[1] - context + 1)]))


@pytest.mark.parametrize("spread", [0.1, 4.0])
def test_loss_and_gradient_are_those_of_pytorch_geometric(spread: float) -> None:
    with warnings.catch_warnings():  # PyTorch Geometric uses what PyTorch has deprecated
        warnings.simplefilter("ignore")
        from torch_geometric.nn import Node2Vec

    generator = np.random.default_rng(0)
    vectors = (spread * generator.standard_normal((12, 8))).astype(np.float32)
    walks, noise = generator.integers(12, size=(7, 6)), generator.integers(12, size=(9, 6))
    embedding = torch.nn.Embedding(12, 8, _weight=torch.from_numpy(vectors.copy()))
    model = SimpleNamespace(embedding=embedding, embedding_dim=8, EPS=1e-15)
    loss = Node2Vec.loss(model, _windows(walks, 4), _windows(noise, 4))
    loss.backward()
    gradient, touched = np.zeros_like(vectors), np.zeros(12, dtype=np.bool_)
    found = add_loss_gradient(vectors, walks, 4, True, gradient, touched)
    found += add_loss_gradient(vectors, noise, 4, False, gradient, touched)
    assert found == pytest.approx(loss.item(), rel=1e-5)
    assert embedding.weight.grad is not None
    np.testing.assert_allclose(gradient, embedding.weight.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert touched.all()


def test_only_nodes_in_windows_are_touched() -> None:
    """A node that no walk meets has no gradient and is not marked."""
    gradient, touched = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=np.bool_)
    add_loss_gradient(np.ones((4, 2), dtype=np.float32), np.array([[0, 2, 0]]), 2, True, gradient, touched)
    assert touched.tolist() == [True, False, True, False]
    assert not gradient[[1, 3]].any()


@pytest.mark.parametrize(("p", "q", "negatives"), [(10.0, 0.2, 3)])
def test_edges_have_larger_cosines(p: float, q: float, negatives: int) -> None:
    """In a graph of two communities the cosine of a joined pair is above that of another in 9 cases of 10."""
    graph = _two_communities()
    vectors = node2vec(graph, replace(SMALL, p=p, q=q, negatives=negatives), seed=0)
    assert vectors.dtype == np.float32
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = (unit @ unit.T)[np.triu_indices(40, 1)]
    joined = np.zeros((40, 40), dtype=np.bool_)
    joined[graph.edges[0], graph.edges[1]] = True
    edge = joined[np.triu_indices(40, 1)]
    assert (cosine[edge][:, None] > cosine[~edge]).mean() > 0.9


def test_seed_repeats_the_vectors() -> None:
    graph, quick = _two_communities(), replace(SMALL, epochs=2)
    first = node2vec(graph, quick, seed=5)
    np.testing.assert_array_equal(first, node2vec(graph, quick, seed=5))
    assert not np.array_equal(first, node2vec(graph, quick, seed=6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width"),
        ({"negatives": 0}, "negatives"),
        ({"context": 1}, "context"),
        ({"context": 21}, "context"),
        ({"p": 0.0}, "p"),
        ({"learning_rate": float("nan")}, "learning_rate"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        Node2VecSettings(**change)  # type: ignore[arg-type]  # each value has the type of its field


@given(graphs_and_silos(), st.sampled_from([(1.0, 1.0), (10.0, 0.2), (0.5, 4.0)]))
def test_walks_follow_edges_and_stay_where_none_leads_away(
    example: tuple[Graph, int], bias: tuple[float, float]
) -> None:
    """Every step is an edge in its direction, or a stay at a node without one."""
    graph, seed = example
    starts = np.arange(graph.num_nodes)
    walks = random_walks(*out_edges(graph), starts, 6, *bias, np.random.default_rng(seed))
    assert walks.shape == (graph.num_nodes, 7)
    np.testing.assert_array_equal(walks[:, 0], starts)
    edges = set(map(tuple, graph.edges.T.tolist()))
    stuck = set(starts.tolist()) - set(graph.edges[0].tolist())
    for source, target in zip(walks[:, :-1].ravel().tolist(), walks[:, 1:].ravel().tolist(), strict=True):
        assert (source, target) in edges or (source == target and source in stuck)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (4.0, 0.25), (0.25, 4.0)])
def test_second_steps_have_the_weights_of_node2vec(p: float, q: float) -> None:
    """From 0 by 1, the chances to go back to 0, to their common neighbour 2 and on to 3 are as 1/p, 1 and 1/q."""
    pairs = [(0, 1), (0, 2), (1, 2), (1, 3)]
    graph = graph_from_pairs(4, pairs + [(target, source) for source, target in pairs])
    walks = random_walks(*out_edges(graph), np.zeros(60000, dtype=np.int64), 2, p, q, np.random.default_rng(0))
    by_one = walks[walks[:, 1] == 1]
    assert len(by_one) == pytest.approx(30000, abs=5 * 123)
    weights = np.array([1 / p, 0, 1, 1 / q])
    shares = np.bincount(by_one[:, 2], minlength=4) / len(by_one)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=5 * 0.003)
