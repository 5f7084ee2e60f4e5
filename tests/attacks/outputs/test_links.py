"""Links from answers: distances against SciPy's, pairs of the stated kind, influence along paths alone."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy.spatial import distance

from fgl_secure.attacks.outputs import answer_distances, draw_pairs, influences, learn_links, score_pairs
from fgl_secure.attacks.outputs.links import DISTANCES, NEGATIVES, KnownPairs, Pairs, attack_links, pair_features
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


def _two_sided(nodes: int, classes: int, seed: int) -> tuple[Graph, np.ndarray]:
    """A graph whose edges join nodes that are answered differently, and the answers."""
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, nodes)
    answers = rng.dirichlet(np.ones(classes), nodes) * 0.3
    answers[np.arange(nodes), side] += 0.7
    ends = rng.integers(0, nodes, (2, 6 * nodes))
    ends = ends[:, side[ends[0]] != side[ends[1]]]
    return Graph.from_arrays("two sides", rng.random((nodes, 6)), side, ends), answers


def test_known_pairs_teach_what_distances_do_not() -> None:
    """Edges join what is answered differently: closeness is worse than a guess, and learning on another graph works."""
    graph, answers = _two_sided(300, 4, 0)
    pairs = draw_pairs(graph, "random")
    assert score_pairs(answer_distances(answers, pairs), pairs, graph).auc < 0.35
    other, others = _two_sided(200, 7, 1)
    known = KnownPairs(draw_pairs(other, "random"), others)
    assert score_pairs(learn_links(answers, pairs, [known]), pairs, graph).auc > 0.7
    areas = attack_links(answers, pairs, graph)
    assert set(areas) == {0, 2, 3, 6}
    assert areas[3].interval.low > 0.65
    assert areas[6].interval.low > 0.65
    assert areas[3].pairs < areas[0].pairs  # known pairs are not scored


def test_nothing_is_learned_where_answers_say_nothing() -> None:
    """Over 60 graphs whose edges are independent of answers and features, areas are those of a guess."""
    areas = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = Graph.from_arrays("none", rng.random((80, 5)), rng.integers(0, 2, 80), rng.integers(0, 80, (2, 200)))
        answers = rng.dirichlet(np.ones(3), 80)
        pairs = draw_pairs(graph, "random", seed=seed)
        areas.append([attack_links(answers, pairs, graph, known=0.3, seed=seed)[number].auc for number in (0, 2, 3, 6)])
    error = np.std(areas, axis=0) / np.sqrt(len(areas))
    assert (np.abs(np.mean(areas, axis=0) - 0.5) < 4 * error).all(), np.mean(areas, axis=0)


def test_descriptions_do_not_depend_on_the_order_of_ends() -> None:
    rng = np.random.default_rng(0)
    answers, features = rng.dirichlet(np.ones(4), 30), rng.random((30, 9))
    ends = rng.integers(0, 30, (2, 50))
    assert pair_features(answers, ends).shape == (50, 12)
    np.testing.assert_allclose(
        pair_features(answers, ends, features), pair_features(answers, ends[::-1], features), atol=1e-12
    )


@pytest.mark.parametrize(
    ("linked", "featured", "argument"),
    [(True, False, "known pairs"), (False, False, "known pairs"), (None, True, "features")],
)
def test_pairs_that_teach_nothing_are_refused(linked: bool | None, featured: bool, argument: str) -> None:
    answers = np.full((4, 2), 0.5)
    pairs = Pairs(np.array([[0, 1], [2, 3]]), np.array([True, False]), "random")
    known = Pairs(pairs.ends, pairs.linked if linked is None else np.full(2, linked), "random")
    with pytest.raises(InputError, check=about(argument)):
        learn_links(answers, pairs, [KnownPairs(known, answers, np.eye(4) if featured else None)])
