from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import roc_auc_score

from fgl_secure.attacks.areas import Ranking, rank_advantage
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.neighbourhoods import undirected_adjacency
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.hops import one_explanation, random_pairs, two_hop_pairs
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency
from fgl_secure.runtime import Phase, Step
from tests.attacks.conformance import Claims, guess_on
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.structure_runs import (
    EdgeConformance,
    HopConformance,
    record_exchange,
    record_rows,
    scale_free,
)


class TestHopShares(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = named("hop-shares")
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_exchange(graph, **network)


def test_equations_of_full_rank_hide_nothing() -> None:
    """Two foreign neighbours that are never alone are read as soon as three sums of pairs determine them."""
    pairs = [(0, 3), (0, 4), (1, 4), (1, 5), (2, 3), (2, 5), (3, 6), (4, 7), (5, 8)]
    graph = federated(both_ways(pairs), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    for sums, read in ((3, 3), (2, 0)):
        kept = [pair for pair in pairs if pair[0] < sums or pair[0] > 2]
        run = record_exchange(federated(both_ways(kept), graph.silo_of))
        guess = guess_on(named("hop-shares"), run)
        assert int((guess.clients == 0).sum()) == read


class TestHopUnfolding(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = named("hop-unfolding")
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_exchange(graph, 3, **network)

    def test_reaches_beyond_the_neighbours(self) -> None:
        """On a path a client reads its neighbour's row, by the third power that one's neighbour's, and no farther."""
        graph = federated(both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]), [0, 1, 2, 1, 2, 1])
        first = Counter({(1, 2): 1, (2, 3): 1})
        assert _of_client_0(named("hop-unfolding"), record_exchange(graph, 3)) == first
        assert _of_client_0(named("hop-unfolding"), record_exchange(graph, 2)) == Counter({(1, 2): 1})
        assert _of_client_0(named("hop-shares"), record_exchange(graph, 3)) == Counter({(1, 2): 1})

    @pytest.mark.parametrize("seed", range(2))
    def test_claims_are_certain_and_more_than_those_of_one_power(self, seed: int) -> None:
        run = record_exchange(scale_free(150, 4, 2, seed), 3)
        every, fewer = (_read(attack, run) for attack in (named("hop-unfolding"), named("hop-shares")))
        assert fewer < every
        edges = {tuple(pair) for pair in run.graph.edges.T.tolist()}
        assert set(every) <= edges


def _read(attack: Attack[ForeignEdges, Any], run: Run, client: int | None = None) -> Counter[tuple[int, int]]:
    guess = guess_on(attack, run)
    rows = zip(guess.clients.tolist(), guess.lower.tolist(), guess.upper.tolist(), strict=True)
    return Counter((lower, upper) for each, lower, upper in rows if client in (None, each))


def _of_client_0(attack: Attack[ForeignEdges, Any], run: Run) -> Counter[tuple[int, int]]:
    return _read(attack, run, 0)


class TestHopFingerprint(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = named("hop-fingerprint")
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_exchange(graph, **network)

    def test_needs_the_rows_alone(self) -> None:
        """Summed rows, as encryption leaves them, tell as much as a run in which all shares are seen."""
        graph = scale_free(120, 3)
        run = record_rows(graph, "hop rows", Step(0, layer=2), _squared(graph))
        assert self.read(run) == self.read(record_exchange(graph))

    def test_errors_of_encrypted_sums_do_not_help(self) -> None:
        """Errors up to a tenth of the tolerance in every entry change no claim on a sparse graph."""
        graph = scale_free(150, 3, 1)
        squared = _squared(graph)
        noisy = squared.copy()
        noisy.data += np.random.default_rng(0).uniform(-1e-6, 1e-6, len(noisy.data))
        found = [self.read(record_rows(graph, "hop rows", Step(0, layer=2), rows)) for rows in (squared, noisy)]
        assert found[0]
        assert found[0] == found[1]

    def test_tells_neighbours_of_unlike_degree_apart(self) -> None:
        """Of two neighbours with 2 and 3 edges the entries at their other neighbours are 1/3 and 1/4, and say whose."""
        graph = federated(both_ways([(0, 1), (0, 2), (1, 3), (2, 4), (2, 5)]), [0, 1, 1, 2, 2, 2])
        assert self.read(_alone(graph)) == Counter({(1, 3): 1, (2, 4): 1, (2, 5): 1})

    def test_neighbours_of_equal_degree_hide_each_other(self) -> None:
        """Where both have two edges no entry says which of the two has which neighbour, and nothing is claimed."""
        graph = federated(both_ways([(0, 1), (0, 2), (1, 3), (2, 4)]), [0, 1, 1, 2, 2])
        assert self.read(_alone(graph)) == Counter()


def _squared(graph: FederatedGraph) -> sparse.csr_array:
    return adjacency_powers(graph.graph, 2)[1]


def _alone(graph: FederatedGraph) -> Run:
    """A run in which client 0 alone has rows."""
    mine = sparse.diags_array((graph.silo_of == 0).astype(np.float64))
    return record_rows(graph, "hop rows", Step(0, layer=2), sparse.csr_array(mine @ _squared(graph)))


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), st.integers(0, 10_000))
def test_one_explanation_matches_all_subsets(degrees: list[int], seed: int) -> None:
    terms = 1 / np.array(degrees)
    rng = np.random.default_rng(seed)
    subsets = (np.arange(2 ** len(terms))[:, None] >> np.arange(len(terms))) & 1
    values = np.concatenate([(subsets @ terms)[rng.integers(len(subsets), size=4)], rng.random(3)])
    which, inside = one_explanation(terms, values, 1e-6)
    for position, value in enumerate(values):
        fitting = subsets[np.abs(subsets @ terms - value) <= 1e-6]
        assert (position in which) is (len(fitting) == 1)
        if len(fitting) == 1:
            assert (inside[:, which.tolist().index(position)] == fitting[0]).all()


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
        graph = scale_free(120, 3)
        combined = combined_adjacency(adjacency_powers(graph.graph, HOPS))
        assert self.read(record_rows(graph, "combined rows", Step(0), combined)) == self.read(
            record_exchange(graph, HOPS)
        )

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
    return undirected_adjacency(record_exchange(scale_free(120, 3)).truth.edges, 120)


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
    owner = np.arange(120) % 3
    like = np.stack(sparse.triu(edges, 1).nonzero()).astype(np.int64)
    drawn = random_pairs(like, owner, edges, 0)
    assert 0.9 * like.shape[1] < drawn.shape[1] <= like.shape[1]
    assert not edges[drawn[0], drawn[1]].any()
    assert (drawn[0] != drawn[1]).all()
    assert _owners(owner[drawn]) <= _owners(owner[like])


def test_two_hop_pairs_have_a_common_neighbour_and_no_edge(edges: sparse.csr_array) -> None:
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
