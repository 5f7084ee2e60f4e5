from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.knowledge import EmbeddingModel
from fgl_secure.attacks.structure.nsf_edges import PairScores, rank_pairs
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, PublicParameters, Role
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import Claims, losing, losing_of_even
from tests.attacks.recorded import Run, star_and_path
from tests.attacks.structure.structure_runs import (
    StructureConformance,
    claimed,
    communities,
    one_hot_degrees,
    record_hop2vec,
    record_rule,
)

FEATURES = frozenset({Phase.STRUCTURE_FEATURES})


class Edges(StructureConformance):
    """What both rankings keep: a claim is one client's score of a pair of nodes that it looks at."""

    rests_on = (FEATURES,)
    needs_edges = False
    two_hops = 0.0

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_hop2vec(graph, **network)

    def claims(self, guess: Any) -> Claims:
        found: Claims = Claims()
        for each in guess:
            pairs = np.stack(np.triu_indices(len(each.nodes), 1))
            scores = each.of(each.nodes[pairs])
            found += claimed(*each.nodes[pairs], np.round(scores, 9))
        return found

    def test_ranks_edges_above_both_kinds_of_other_pairs(self) -> None:
        """Random pairs are easy, pairs two hops apart harder; learnt features hardly tell those from edges at all."""
        run = self.recorded(communities())
        guess = self.guess(run)
        ranking = rank_pairs(guess, run.truth)
        assert ranking is not None
        assert ranking.random > 0.8
        assert self.two_hops < ranking.two_hops < ranking.random
        assert ranking.precision > 1.5 * ranking.density


class TestNsfCosineEdges(Edges):
    attack = named("nsf-cosine-edges")

    def test_looks_through_the_embedding(self) -> None:
        """Where the features are noise but for what the model takes of them, its embedding is compared."""
        run = record_hop2vec(communities())
        rows = tuple(
            PairScores(each.observer, each.nodes, ((noise, noise),))
            for each in self.guess(run)
            for noise in [np.random.default_rng(0).normal(size=(len(each.nodes), 9))]
        )  # fmt: skip
        constant = run.told(EmbeddingModel(lambda features: np.ones((len(features), 1))))
        plain, blind, noisy = (
            self.attack.score(guess, run.truth)[0].value for guess in (self.guess(run), self.guess(constant), rows)
        )
        assert blind == 0
        assert abs(noisy) < 0.2 < plain


class TestNsfWalkEdges(Edges):
    attack = named("nsf-walk-edges")
    two_hops = 0.8

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_rule(graph, **network)

    def test_rests_on_messages(self) -> None:
        """Without features of others there is no score, and with half of them scores of fewer pairs.

        The scores themselves compare a node with all that are there, and change with them.
        """
        all_pairs, half, none = (
            self.read(self.run(loss)).total() for loss in (None, losing_of_even(FEATURES), losing(FEATURES))
        )
        assert all_pairs > half > none == 0

    def test_blind_without_return_probabilities(self) -> None:
        """One-hot degrees and learnt features give no guess."""
        for run in (record_rule(communities(), one_hot_degrees), record_hop2vec(communities())):
            assert self.attack.infer(run.transcript.views(Role.SILO), run.public) is None


class TestNsfWalkDegrees(StructureConformance):
    attack = named("nsf-walk-degrees")
    rests_on = (FEATURES,)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_rule(graph, **network)

    def claims(self, guess: list[Any]) -> Claims:
        found: Claims = Claims()
        for each in guess:
            found += claimed(each.nodes, each.degrees)
        return found

    def test_reads_a_star_and_a_path(self) -> None:
        run = record_rule(star_and_path())
        guess = self.attack.infer(run.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        assert [found.value for found in self.attack.score(guess, run.truth)] == [1, 1]


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
