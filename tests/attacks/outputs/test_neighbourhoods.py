"""G-BASE: near the exact posterior where all training sets are enumerated, and each node's change its own."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from fgl_secure.attacks.areas import area
from fgl_secure.attacks.outputs import ShadowTraining, lira_online, rmia, train_shadows
from fgl_secure.attacks.outputs.neighbourhoods import draw_neighbourhoods, g_base, log_ratio
from fgl_secure.attacks.outputs.shadows import SubgraphAnswers
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from tests.error_codes import about

MODELS, SHADOWS, TARGETS = 400, 256, 20_000


class Toy:
    """Graph networks with drawn weights, each as likely after training as its loss on the training subgraph says."""

    def __init__(self, seed: int, nodes: int) -> None:
        rng = np.random.default_rng(seed)
        pairs = list(itertools.combinations(range(nodes), 2))
        edges = np.array([pair for pair in pairs if rng.random() < 0.5] or pairs[:1]).T
        self.graph = Graph.from_arrays("toy", rng.standard_normal((nodes, 3)), np.arange(nodes) % 2, edges)
        self._adjacency = np.eye(nodes)
        self._adjacency[edges[0], edges[1]] = self._adjacency[edges[1], edges[0]] = 1
        self._weights = rng.standard_normal((MODELS, 3, 4)), rng.standard_normal((MODELS, 4, 2))
        self.sets = np.array(list(itertools.product((False, True), repeat=nodes)))
        losses = np.array([(self.ask(present) * present).sum(axis=1) for present in self.sets])
        self.posterior = np.exp(losses - logsumexp(losses, axis=1, keepdims=True))
        joint = self.posterior / self.posterior.sum(axis=0)  # of sets given the model: all sets are equally likely
        self.exact = np.stack([joint[self.sets[:, node]].sum(axis=0) for node in range(nodes)], axis=1)

    def ask(self, present: np.ndarray) -> np.ndarray:
        """Log probabilities of labels [MODELS, n] on a subgraph."""
        inside = self._adjacency * present * present[:, None]
        degree = inside.sum(axis=1)
        scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
        propagate = scale[:, None] * inside * scale
        hidden = np.maximum(np.einsum("uv,vd,mdk->muk", propagate, self.graph.features, self._weights[0]), 0)
        logits = np.einsum("uv,mvk,mkc->muc", propagate, hidden, self._weights[1])
        log_p = logits - logsumexp(logits, axis=2, keepdims=True)
        return np.asarray(log_p[:, np.arange(len(present)), self.graph.labels])

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Training sets, and models that were trained on them."""
        chosen = rng.integers(len(self.sets), size=count)
        return self.sets[chosen], (self.posterior[chosen].cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)


@pytest.mark.parametrize("nodes", [4, 5, 6])
def test_g_base_is_near_the_exact_posterior(nodes: int) -> None:
    """All training sets are enumerated; no attack is above the posterior, and G-BASE is nearer to it than others."""
    toy, rng = Toy(nodes, nodes), np.random.default_rng(nodes)
    inside, drawn = toy.draw(SHADOWS, rng)
    member, targets = toy.draw(TARGETS, rng)
    even = np.full(nodes, 0.5)
    compared = draw_neighbourhoods(toy.graph, np.arange(nodes), even, sets=32).compare(toy.ask)
    joined = toy.ask(np.ones(nodes, np.bool_))
    scores = {
        "exact": toy.exact,
        "G-BASE": g_base(compared, compared[:, :, drawn], inside, even),
        "RMIA": np.stack([rmia(joined[each], joined[drawn]) for each in range(MODELS)]),
        "LiRA": np.stack([lira_online(joined[each], joined[drawn], inside) for each in range(MODELS)]),
    }
    areas = {name: area(each[targets][member], each[targets][~member]) for name, each in scores.items()}
    assert all(each <= areas["exact"] + 0.005 for each in areas.values()), areas
    assert areas["exact"] - areas["G-BASE"] < 0.01, areas
    assert areas["G-BASE"] > areas["RMIA"], areas


@given(st.integers(0, 10_000), st.integers(5, 40), st.floats(0, 0.15))
def test_nodes_of_one_query_do_not_touch_each_other(seed: int, nodes: int, density: float) -> None:
    """Changes that are asked for together equal those of each node alone."""
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((nodes, nodes)) < density, 1)).T
    graph = Graph.from_arrays("random", rng.standard_normal((nodes, 3)), rng.integers(0, 2, nodes), edges)
    even, training = np.full(nodes, 0.5), ShadowTraining(hidden=4, epochs=1)
    if len(np.unique(graph.labels)) < 2:
        return
    shadows = train_shadows(graph, 2, training=training)
    ask = SubgraphAnswers(shadows, graph).log_probabilities
    assert np.allclose(ask(np.ones(nodes, np.bool_)), shadows.joined[:, np.arange(nodes), graph.labels], atol=1e-5)
    together = draw_neighbourhoods(graph, np.arange(nodes), even, sets=2, seed=seed)
    answers = together.compare(ask)
    for node in range(nodes):
        alone = draw_neighbourhoods(graph, np.array([node]), even, sets=2, seed=seed)
        assert np.array_equal(alone.sets, together.sets)
        assert np.allclose(alone.compare(ask)[1, ..., 0], answers[1, ..., node], atol=1e-4)


@pytest.mark.parametrize("kinds", ["both", "without", "with"])
def test_the_normaliser_is_that_of_normal_changes(kinds: str) -> None:
    """N(c - v / 2, v) without a node and N(c + v / 2, v) with it have the ratio exp(c), as c alone makes it 1."""
    rng, level, variance = np.random.default_rng(0), np.linspace(-3, 3, 5), 1.0
    members = rng.random((4000, 5)) < {"both": 0.3, "without": 0.0, "with": 1.0}[kinds]
    changes = level + np.where(members, 1, -1) * variance / 2 + rng.standard_normal(members.shape)
    assert np.allclose(log_ratio(changes, members), level, atol=0.1)


def test_priors_move_scores() -> None:
    """The log odds of a prior are added where sets agree; sure nodes stay sure, whatever the model answers."""
    compared, members = np.zeros((2, 1, 6, 3)), np.tile([[True], [False]], (3, 3))
    scores = g_base(compared[:, :, :1], compared, members, np.array([0.2, 0.5, 0.9]))
    assert np.allclose(scores[0], np.log([0.25, 1, 9]), atol=1e-6)


@pytest.mark.parametrize(
    ("priors", "sets", "argument"),
    [
        (np.full(4, 2.0), 1, "priors"),
        (np.full(3, 0.5), 1, "priors"),
        (np.full(4, np.nan), 1, "priors"),
        (np.full(4, 0.5), 0, "sets"),
    ],
)
def test_nonsense_is_refused(priors: np.ndarray, sets: int, argument: str) -> None:
    graph = Graph.from_arrays("four", np.eye(4), np.array([0, 1, 0, 1]), np.array([[0, 1], [1, 2]]))
    with pytest.raises(InputError, check=about(argument)):
        draw_neighbourhoods(graph, np.arange(4), priors, sets=sets)
