from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import roc_auc_score

from fgl_secure.attacks.areas import Ranking, rank_advantage
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.neighbourhoods import undirected
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.hops import random_pairs, two_hop_pairs
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency
from fgl_secure.runtime import Step
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import HopConformance, record_exchange, record_rows, scale_free

HOPS = 4


class TestCombinedColumns(HopConformance):
    attack: Attack[tuple[Any, ...], Any] = named("combined-columns")
    rests_on = ()

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_exchange(graph, HOPS, **network)

    def claims(self, guess: tuple[Any, ...]) -> Claims:
        """Which nodes a client sees in the same direction: cosines above .99."""
        found: Claims = Counter()
        for seen in guess:
            alike = (seen.directions @ seen.directions.T).tocoo()
            high = alike.data > 0.99
            found.update(zip(alike.row[high].tolist(), alike.col[high].tolist(), strict=True))
        return found

    def test_needs_the_combined_rows_alone(self) -> None:
        """A client that holds no power sees the same as one that holds all."""
        graph = scale_free(120, 3)
        combined = combined_adjacency(adjacency_powers(graph.graph, HOPS))
        assert self.read(record_rows(graph, "combined rows", Step(0), combined)) == self.read(
            record_exchange(graph, HOPS)
        )

    def test_own_nodes_have_no_direction(self) -> None:
        """Columns of a client's own nodes are left out: its own edges are no secret."""
        run = record_exchange(scale_free(120, 3), HOPS)
        guess = self.guess(run)
        for seen in guess:
            lengths = np.sqrt(np.asarray(seen.directions.multiply(seen.directions).sum(axis=1)).ravel())
            assert not lengths[run.graph.silo_of == seen.client].any()
            assert lengths[lengths > 0] == pytest.approx(1)

    def test_rows_of_chance_tell_nothing(self) -> None:
        """The broken twin: rows with the pattern of another graph rank edges no better than chance."""
        graph, other = scale_free(200, 3, seed=1), scale_free(200, 3, seed=2)
        shuffled = np.random.default_rng(0).permutation(200)
        power = adjacency_powers(other.graph, HOPS)[-1][shuffled][:, shuffled]
        run = record_rows(graph, "combined rows", Step(0), power)
        guess = self.guess(run)
        assert all(found.interval.low < 0.05 for found in self.attack.score(guess, run.truth))


@pytest.fixture(scope="module")
def edges() -> sparse.csr_array:
    return undirected(record_exchange(scale_free(120, 3)).truth.edges, 120)


def _ranking(seed: int, *, nodes: int = 60, pairs: int = 300, ties: bool = False) -> Ranking:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=pairs)
    return Ranking(rng.integers(nodes, size=(2, pairs)), np.round(scores) if ties else scores, rng.random(pairs) < 0.4)


def test_observers_are_not_compared_with_each_other() -> None:
    """Adding a constant to all scores of one observer changes nothing."""
    one, other = _ranking(0), _ranking(1)
    shifted = Ranking(other.nodes, other.scores + 100, other.positive)
    assert rank_advantage([one, other], 60, 0, 100).value == pytest.approx(
        rank_advantage([one, shifted], 60, 0, 100).value
    )


def test_intervals_cover_chance_as_often_as_they_should() -> None:
    """Of 40 rankings that know nothing the 95 % intervals of at least 34 contain 0."""
    covered = [rank_advantage([_ranking(seed)], 60, 0, 200).interval.contains(0.0) for seed in range(40)]
    assert sum(covered) >= 34


def test_random_pairs_have_the_owners_of_the_edges(edges: sparse.csr_array) -> None:
    """Pairs that are drawn beside edges are no edges, and join the same clients."""
    owner = np.arange(120) % 3
    like = np.stack(sparse.triu(edges, 1).nonzero()).astype(np.int64)
    drawn = random_pairs(like, owner, edges, 0)
    assert 0.9 * like.shape[1] < drawn.shape[1] <= like.shape[1]
    assert not edges[drawn[0], drawn[1]].any()
    assert (drawn[0] != drawn[1]).all()
    assert _owners(owner[drawn]) <= _owners(owner[like])


def test_two_hop_pairs_have_a_common_neighbour_and_no_edge(edges: sparse.csr_array) -> None:
    """Every harder pair is two hops apart, and none touches a client that no edge touches."""
    owner = np.arange(120) % 3
    like = np.stack(sparse.triu(edges, 1).nonzero()).astype(np.int64)
    like = like[:, (owner[like] != 0).all(axis=0)]
    drawn = two_hop_pairs(like, owner, edges, 0)
    assert drawn.shape[1] == like.shape[1]
    assert not edges[drawn[0], drawn[1]].any()
    assert (edges @ edges)[drawn[0], drawn[1]].all()
    assert (owner[drawn] != 0).all()


def _owners(ends: NDArray[np.int64]) -> set[tuple[int, ...]]:
    return {tuple(pair) for pair in ends.T.tolist()}


@pytest.mark.parametrize("ties", [False, True])
def test_the_figure_is_twice_the_area_less_one(ties: bool) -> None:
    """2 AUC - 1 agrees with the area under the curve, ties counted half."""
    ranking = _ranking(0, ties=ties)
    found = rank_advantage([ranking], 60, seed=0, draws=100)
    assert found.value == pytest.approx(2 * roc_auc_score(ranking.positive, ranking.scores) - 1)
    assert found.n == 300
