"""Links from answers: distances against SciPy's, pairs of the stated kind, influence along paths alone."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy.spatial import distance

from fgl_secure.attacks.outputs import answer_distances, draw_pairs, influences, score_pairs
from fgl_secure.attacks.outputs.links import DISTANCES, NEGATIVES, Pairs
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from tests.error_codes import about

with warnings.catch_warnings():  # torch_geometric compiles a class with what torch deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GCN

SCIPY = {
    "cosine": distance.cosine,
    "correlation": distance.correlation,
    "Euclidean": distance.euclidean,
    "squared Euclidean": distance.sqeuclidean,
    "Manhattan": distance.cityblock,
    "Chebyshev": distance.chebyshev,
    "Bray-Curtis": distance.braycurtis,
    "Canberra": distance.canberra,
}


def _ring(nodes: int = 60, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    edges = np.concatenate([ring, ring[::-1]], axis=1)
    return Graph.from_arrays("ring", rng.random((nodes, 8)), rng.integers(0, 3, nodes), edges)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_are_those_of_scipy(name: str) -> None:
    rng = np.random.default_rng(0)
    answers = rng.dirichlet(np.ones(5), 40)
    pairs = Pairs(rng.integers(0, 40, (2, 30)), np.ones(30, np.bool_), "random")
    expected = [-SCIPY[name](answers[a], answers[b]) for a, b in pairs.ends.T]
    np.testing.assert_allclose(answer_distances(answers, pairs, name), expected, atol=1e-12)


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_pairs_are_of_the_stated_kind(negatives: str) -> None:
    graph = _ring()
    pairs = draw_pairs(graph, negatives)
    gap = (pairs.ends[1] - pairs.ends[0]) % 60
    near = np.minimum(gap, 60 - gap)
    assert (near[pairs.linked] == 1).all()
    assert (near[~pairs.linked] > 1).all()
    assert pairs.linked.sum() == 60
    assert len(np.unique(pairs.ends, axis=1).T) == len(pairs.linked)
    if negatives == "2 hops":
        assert (near[~pairs.linked] == 2).all()
    if negatives == "same class":
        first, second = graph.labels[pairs.ends[:, ~pairs.linked]]
        assert (first == second).all()


def test_influence_ends_where_paths_do() -> None:
    """A model of two layers: neighbours within two hops influence each other and no others; at three hops nothing."""
    graph, nodes = _ring(), np.arange(60)
    torch.manual_seed(0)
    model = GCN(8, 16, num_layers=2, out_channels=3).double().eval()
    edges = torch.from_numpy(np.array(graph.edges))

    def predict(features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(model(torch.from_numpy(features), edges))

    found = influences(predict, graph.features.astype(np.float64), nodes)
    gap = np.abs(nodes[:, None] - nodes)
    near = np.minimum(gap, 60 - gap)
    assert (found[near > 2] == 0).all()
    pairs = draw_pairs(graph, "random", seed=1)
    score = score_pairs(found[tuple(pairs.ends)], pairs, graph)
    assert score.auc > 0.95
    assert score.interval.low <= score.auc <= score.interval.high


def test_answers_of_a_model_without_edges_give_no_links() -> None:
    """Answers drawn at random: the area is one half within its interval in nearly all of 40 draws."""
    graph, held = _ring(200), 0
    for seed in range(40):
        answers = np.random.default_rng(seed).dirichlet(np.ones(3), 200)
        pairs = draw_pairs(graph, "random", seed=seed)
        interval = score_pairs(answer_distances(answers, pairs), pairs, graph).interval
        held += interval.low <= 0.5 <= interval.high
    assert held >= 33


def test_inputs_that_give_no_pairs_are_refused() -> None:
    lonely = Graph.from_arrays("lonely", np.ones((4, 1)), [0, 1, 0, 1], np.empty((2, 0), np.int64))
    full = Graph.from_arrays("full", np.ones((3, 1)), [0, 1, 0], np.array([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]))
    for call, argument in (
        (partial(draw_pairs, lonely, "random"), "graph"),
        (partial(draw_pairs, full, "random"), "graph"),
        (partial(draw_pairs, _ring(), "far"), "negatives"),
        (partial(answer_distances, np.ones((60, 3)), draw_pairs(_ring(), "random"), "far"), "distance"),
    ):
        with pytest.raises(InputError, check=about(argument)):
            call()
