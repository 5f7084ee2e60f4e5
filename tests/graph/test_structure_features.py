"""Structure features: what each says of small graphs, and the names they go by."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Graph
from fgl_secure.graph import structure_features as module
from fgl_secure.graph.adjacency_powers import adjacency_powers
from fgl_secure.graph.graphlet_degrees import graphlet_degrees
from fgl_secure.graph.node2vec import Node2VecSettings, OutEdges, add_loss_gradient, node2vec, random_walks
from fgl_secure.graph.structure_features import (
    STRUCTURE_FEATURES,
    fedstar_features,
    hop2vec_start,
    one_hot_degree,
    return_probabilities,
    standardised,
    structure_features,
)
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, graphs_and_silos

STAR = graph_from_pairs(5, [(0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0)])


def test_degrees_are_one_hot() -> None:
    """The 1 is at the degree, and all degrees from the largest on share its column."""
    assert one_hot_degree(STAR, 4).argmax(axis=1).tolist() == [3, 1, 1, 1, 0]
    assert one_hot_degree(STAR, 2).argmax(axis=1).tolist() == [2, 1, 1, 1, 0]
    encoded = one_hot_degree(STAR, 4)
    assert encoded.shape == (5, 5)
    assert encoded.dtype == np.float32
    assert (np.sort(encoded, axis=1) == [0, 0, 0, 0, 1]).all()


def test_edges_in_one_direction_count_half() -> None:
    """In a directed path of three the ends have half a neighbour, rounded to none, and the middle two halves."""
    assert one_hot_degree(graph_from_pairs(3, [(0, 1), (1, 2)]), 2).argmax(axis=1).tolist() == [0, 1, 0]


def test_fedstar_has_the_walk_first_and_the_degree_behind() -> None:
    """A walk from a leaf of a star is back after one step with chance 1/2, from the centre of four nodes with 1/4."""
    features = fedstar_features(STAR, 2, largest=3)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features[:, 2:], one_hot_degree(STAR, 3))
    np.testing.assert_allclose(features[:, 0], [1 / 4, 1 / 2, 1 / 2, 1 / 2, 1])
    # Two steps: stay twice, or go to the centre and come back.
    np.testing.assert_allclose(features[1, 1], 1 / 4 + 1 / 2 * 1 / 4)
    np.testing.assert_array_equal(fedstar_features(STAR, 2), features[:, :2])


def test_hop2vec_starts_from_small_normal_numbers() -> None:
    """The start has mean 0 and deviation 0.05, and the seed repeats it."""
    start = hop2vec_start(400, 100, seed=3)
    assert start.shape == (400, 100)
    assert start.dtype == np.float32
    assert abs(start.mean()) < 5 * 0.05 / 200
    assert start.std() == pytest.approx(0.05, rel=5 / np.sqrt(2 * 40000))
    np.testing.assert_array_equal(start, hop2vec_start(400, 100, seed=3))
    assert not np.array_equal(start, hop2vec_start(400, 100, seed=4))


def test_standardised_columns_have_mean_0_and_variance_1() -> None:
    """Counts as large as graphlets' are standardised exactly, and a constant column becomes 0."""
    counts = np.array([[10**15, 7, 0], [10**15 + 2, 7, 4], [10**15 + 4, 7, 8]])
    scaled = standardised(counts)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, np.outer([-1, 0, 1], [np.sqrt(1.5), 0, np.sqrt(1.5)]), rtol=1e-6)


@pytest.mark.parametrize("name", list(STRUCTURE_FEATURES))
@given(graphs_and_silos())
def test_every_name_gives_finite_features_of_any_graph(name: str, example: tuple[Graph, int]) -> None:
    """By name come float32 features of the width asked for, 73 for graphlets, and the seed repeats them."""
    graph, seed = example
    if name == "node2vec" and graph.num_nodes > 3:
        return  # 50 epochs each; test_node2vec.py has the rest
    found = structure_features(name, graph, 60, seed)
    assert found.shape == (graph.num_nodes, 73 if name == "graphlet" else 60)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, structure_features(name, graph, 60, seed))


def test_names_stand_for_what_the_experiments_use() -> None:
    """Degrees fill the width, fedstar has 50 steps before the degree, and graphlets are standardised."""
    np.testing.assert_array_equal(structure_features("degree", STAR, 4, 0), one_hot_degree(STAR, 3))
    np.testing.assert_array_equal(structure_features("fedstar", STAR, 60, 0), fedstar_features(STAR, 50, 9))
    np.testing.assert_array_equal(structure_features("graphlet", STAR, 9, 0), standardised(graphlet_degrees(STAR)))
    np.testing.assert_array_equal(structure_features("hop2vec", STAR, 9, 1), hop2vec_start(5, 9, 1))


def test_bad_arguments_are_refused() -> None:
    """Sizes below 1, a width without room for the degree, negative seeds and unknown names are refused."""
    with pytest.raises(InputError, check=about("largest")):
        one_hot_degree(STAR, 0)
    with pytest.raises(InputError, check=about("steps")):
        fedstar_features(STAR, 0)
    with pytest.raises(InputError, check=about("n and d")):
        hop2vec_start(5, 0, 0)
    with pytest.raises(InputError, check=about("seed")):
        hop2vec_start(5, 2, -1)
    with pytest.raises(InputError, check=about("width")):
        structure_features("fedstar", STAR, 50, 0)
    with pytest.raises(UnknownNameError, check=about("structure features")):
        structure_features("spectral", STAR, 50, 0)


def _mirrored(graph: Graph) -> Graph:
    both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    return graph_from_pairs(graph.num_nodes, [(int(source), int(target)) for source, target in both.T])


@pytest.mark.parametrize("block", [1, 5, 32])
@given(example=graphs_and_silos(), steps=st.integers(1, 7), mirror=st.booleans())
def test_they_are_the_diagonals_of_the_powers(block: int, example: tuple[Graph, int], steps: int, mirror: bool) -> None:
    """For directed and undirected graphs, and however the columns are cut, column t is the diagonal of A^ to the t."""
    graph = _mirrored(example[0]) if mirror else example[0]
    expected = np.stack([power.diagonal() for power in adjacency_powers(graph, steps)], axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        np.testing.assert_allclose(return_probabilities(graph, steps), expected, atol=1e-13)


def test_they_tell_degrees() -> None:
    """After one step the chance to be back is 1 over one more than the degree."""
    graph = _mirrored(graph_from_pairs(4, [(0, 1), (0, 2), (1, 2)]))
    np.testing.assert_allclose(return_probabilities(graph, 1)[:, 0], 1 / (graph.in_degree + 1))


def test_walks_without_steps_are_refused() -> None:
    """There is no return after less than one step."""
    with pytest.raises(InputError, check=about("steps")):
        return_probabilities(graph_from_pairs(1, []), 0)


@given(graphs_and_silos(), st.sampled_from([(1.0, 1.0), (10.0, 0.2), (0.5, 4.0)]))
def test_walks_follow_edges_and_stay_where_none_leads_away(
    example: tuple[Graph, int], bias: tuple[float, float]
) -> None:
    """Every step is an edge in its direction, or a stay at a node without one."""
    graph, seed = example
    starts = np.arange(graph.num_nodes)
    walks = random_walks(OutEdges.of_graph(graph), starts, 6, *bias, np.random.default_rng(seed))
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
    walks = random_walks(OutEdges.of_graph(graph), np.zeros(60000, dtype=np.int64), 2, p, q, np.random.default_rng(0))
    by_one = walks[walks[:, 1] == 1]
    assert len(by_one) == pytest.approx(30000, abs=5 * 123)
    weights = np.array([1 / p, 0, 1, 1 / q])
    shares = np.bincount(by_one[:, 2], minlength=4) / len(by_one)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=5 * 0.003)


SMALL = Node2VecSettings(width=16, epochs=100, batch=16)


def _two_communities() -> Graph:
    random = nx.planted_partition_graph(2, 20, 0.85, 0.02, seed=1)
    return graph_from_pairs(40, [*random.edges, *((v, u) for u, v in random.edges)])


def _windows(walks: np.ndarray, context: int) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([walks[:, j : j + context] for j in range(walks.shape[1] - context + 1)]))


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
def test_loss_and_gradient_are_those_of_pytorch_geometric(spread: float) -> None:
    """The mean loss of true and random walks and its gradient are PyTorch Geometric's, saturated or not."""
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


@pytest.mark.parametrize(("p", "q", "negatives"), [(1.0, 1.0, 1), (10.0, 0.2, 3)])
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


def test_untrained_vectors_do_not_tell_edges() -> None:
    """With a learning rate of next to nothing the vectors are as random as at the start, which training moved."""
    graph = _two_communities()
    still = node2vec(graph, replace(SMALL, learning_rate=1e-9, epochs=1), seed=0)
    assert abs(still.mean()) < 5 / np.sqrt(still.size)
    assert still.std() == pytest.approx(1, abs=5 / np.sqrt(2 * still.size))
    assert not np.allclose(still, node2vec(graph, SMALL, seed=0), atol=0.1)


def test_seed_repeats_the_vectors() -> None:
    """Equal seeds give equal vectors, others don't."""
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
    """Settings out of range are refused when they are made."""
    with pytest.raises(InputError, check=about(message)):
        Node2VecSettings(**change)  # type: ignore[arg-type]  # each value has the type of its field


def test_negative_seeds_are_refused() -> None:
    """A negative seed is refused."""
    with pytest.raises(InputError, check=about("seed")):
        node2vec(_two_communities(), SMALL, -1)
