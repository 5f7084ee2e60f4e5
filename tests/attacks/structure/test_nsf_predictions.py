from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.knowledge import NodeClaims
from fgl_secure.attacks.structure.nsf_edges import TOLERANCE, DegreeMultisets
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, PublicParameters, Role
from tests.attacks.conformance import Claims, losing, losing_of_even
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import (
    StructureConformance,
    claimed,
    communities,
    one_hot_degrees,
    record_hop2vec,
    record_rule,
    without,
)

FEATURES = frozenset({Phase.STRUCTURE_FEATURES})


class Topology(StructureConformance):
    """What both figures keep."""

    rests_on = (FEATURES,)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_rule(graph, **network)

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)

    def test_needs_the_own_nodes(self) -> None:
        """Without features of its own nodes a client has nothing to compare with."""
        run = self.run()
        view = without(run.transcript.views(Role.SILO), "own features")
        assert self.attack.infer(view, run.public) is None


class TestNsfDegrees(Topology):
    attack = named("nsf-degrees")

    def test_one_hot_degrees_say_the_degree(self) -> None:
        """A one-hot degree that some own node has is the degree: all that is reachable is reached."""
        run = record_rule(self.run().graph, one_hot_degrees)
        guess = self.attack.infer(run.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.value == pytest.approx(found.reachable)


class TestNsfEgoNets(Topology):
    attack = named("nsf-ego-nets")

    def test_rests_on_messages(self) -> None:
        """Without features of others there is no claim, and with half of them none about the other half.

        Claims about one half may change with the other: neighbours of unknown degree make an own node useless.
        """
        everything, half = self.read(self.run()), self.read(self.run(losing_of_even(FEATURES)))
        assert 0 < half.total() < everything.total()
        assert not self.read(self.run(losing(FEATURES)))


class Learnt(StructureConformance):
    """What attacks on learnt features keep."""

    rests_on = (frozenset({Phase.STRUCTURE_FEATURES}),)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_hop2vec(graph, **network)

    def figure(self, run: Run) -> float:
        """The figure of the attack on a run."""
        return float(self.attack.score(self.guess(run), run.truth)[0].value)

    def test_reads_the_end_of_training(self) -> None:
        """The features as sent at the start say nothing; what clients hold in the end does."""
        run = self.recorded(communities())
        view = run.transcript.views(Role.SILO)
        start = replace(view, private=())
        guess = guess_of(self.attack, start, run.public, run.knowledge)
        assert abs(self.attack.score(guess, run.truth)[0].value) < 0.4 < self.figure(run)


class Labels(Learnt):
    """What both readings of labels keep."""

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)

    def test_task_agnostic_features_say_little(self) -> None:
        """Return probabilities have no labels in them: what is read is hardly better than a guess."""
        run = record_rule(communities())
        assert self.figure(run) < 0.5


class TestNsfLabels(Labels):
    attack = named("nsf-labels")


class TestNsfTrainingLabels(Labels):
    attack = named("nsf-training-labels")


class TestNsfMembership(Learnt):
    attack = named("nsf-membership")

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)


NUMBERS = np.array([2, 3, 4, 5, 6, 7, 9, 12, 20, 31, 61])
SOLVER = DegreeMultisets(NUMBERS)
DRAWN = st.lists(st.sampled_from(NUMBERS.tolist()), min_size=1, max_size=6)


def sums(chosen: list[int]) -> tuple[float, float]:
    values = np.array(chosen, dtype=np.float64)
    return float((1 / values).sum()), float((1 / values**2).sum())


@given(DRAWN)
def test_finds_the_multiset_or_says_that_there_are_several(chosen: list[int]) -> None:
    """The multiset behind both sums is found, unless brute force finds another one with the same sums."""
    reciprocals, squares = sums(chosen)
    found = SOLVER.solve(len(chosen), reciprocals, squares)
    if found is not None:
        assert found.tolist() == sorted(chosen)
        return
    others = [sums(list(each)) for each in combinations_with_replacement(NUMBERS.tolist(), len(chosen))]
    assert sum(abs(p - reciprocals) <= TOLERANCE and abs(q - squares) <= TOLERANCE for p, q in others) > 1
