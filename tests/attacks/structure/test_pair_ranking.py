from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.areas import area, ranking_of_nodes
from fgl_secure.attacks.structure import nsf_edges as pair_ranking
from fgl_secure.attacks.structure.nsf_edges import PairScores, rank_pairs
from fgl_secure.attacks.structure.scope import StructureTruth
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.structure.structure_runs import communities

SCORES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12).map(np.array)


@given(SCORES, SCORES)
def test_area_counts_pairs(positive: np.ndarray, negative: np.ndarray) -> None:
    """The area is the share of pairs in the right order, ties counted half."""
    slow = np.mean([(p > q) + (p == q) / 2 for p in positive for q in negative])
    assert area(positive, negative) == pytest.approx(float(slow))


def test_area_without_pairs_is_a_guess() -> None:
    """With nothing to compare the area is one half."""
    assert area(np.empty(0), np.ones(3)) == area(np.ones(3), np.empty(0)) == 0.5


def scored(seed: int, size: int = 30) -> PairScores:
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(100, size, replace=False))
    left, right = rng.normal(size=(2, size, 3))
    return PairScores(1, nodes, ((left, left), (right, right)))


@pytest.mark.parametrize("cells", [4_000_000, 100])
def test_top_pairs_are_the_highest(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """The top pairs are those of the highest scores of all pairs, whatever is laid out at once."""
    monkeypatch.setattr(pair_ranking, "CELLS", cells)
    scores = scored(0)
    every = scores.nodes[np.stack(np.triu_indices(len(scores.nodes), 1))]
    top = scores.top(20)
    assert (top[0] < top[1]).all()
    assert sorted(scores.of(top)) == pytest.approx(sorted(scores.of(every))[-20:])


def test_the_edges_themselves_rank_perfectly_and_noise_does_not() -> None:
    """Rows of the adjacency's own factors rank every edge first; random rows rank at chance, within the interval."""
    graph = communities(nodes=120)
    truth, nodes = StructureTruth.of(hierarchy_of(graph), graph), np.arange(120)
    dense = np.zeros((120, 120))
    dense[graph.edges[0], graph.edges[1]] = 1
    perfect = rank_pairs((PairScores(1, nodes, ((dense, np.eye(120)),)),), truth)
    noise = np.random.default_rng(0).normal(size=(120, 2))
    nothing = rank_pairs((PairScores(1, nodes, ((noise, noise),)),), truth)
    assert perfect is not None
    assert nothing is not None
    assert perfect.same_owners == perfect.random == perfect.two_hops == perfect.precision == perfect.interval.high == 1
    assert 0.9 < perfect.interval.low < 1
    assert nothing.interval.contains(0.5)
    assert nothing.density == pytest.approx(len(graph.edges[0]) / (120 * 119))


def test_who_owns_a_node_is_no_finding() -> None:
    """Scores that say no more than that both ends have one owner are at chance against pairs of the same owners."""
    graph = communities(apart=True)
    truth = StructureTruth.of(hierarchy_of(graph), graph)
    owner = np.eye(3)[graph.silo_of]
    ranking = rank_pairs((PairScores(1, np.arange(240), ((owner, owner),)),), truth)
    assert ranking is not None
    assert ranking.random > 0.7
    assert ranking.same_owners == 0.5


def test_no_edge_to_find_gives_no_ranking() -> None:
    """Where a client's foreign nodes have no edge there is nothing to rank."""
    graph = communities()
    scores = PairScores(1, np.arange(1), ((np.ones((1, 1)), np.ones((1, 1))),))
    assert rank_pairs((scores,), StructureTruth.of(hierarchy_of(graph), graph)) is None


def test_intervals_cover_at_about_their_rate() -> None:
    """Among 25 draws of normal scores a standard deviation apart, nearly all intervals contain the true area."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(25):
        positive = rng.random(120) < 0.4
        found = ranking_of_nodes("nodes", rng.normal(size=120) + positive, positive, np.arange(120), "Nodes")
        inside += found.interval.contains(2 * 0.7602 - 1)
    assert inside >= 20


def test_one_node_seen_by_many_is_one_unit() -> None:
    """An interval is as wide for a node that ten observers score alike as for one that one observer scores."""
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=60), np.arange(60) < 20
    once = ranking_of_nodes("nodes", scores, positive, np.arange(60), "Nodes").interval
    often = ranking_of_nodes("nodes", np.tile(scores, 10), np.tile(positive, 10), np.tile(np.arange(60), 10), "Nodes")
    assert often.interval.low == pytest.approx(once.low)
    assert often.interval.high == pytest.approx(once.high)
