from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks import base
from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure import nsf_identity as nsf_matching
from fgl_secure.attacks.structure.knowledge import CrawledGraph
from fgl_secure.attacks.structure.nsf_identity import nearest, one_to_one
from fgl_secure.attacks.truth import foreign_neighbours
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import StructureConformance, claimed, communities, fedstar, record_rule


class Identity(StructureConformance):
    """What all ways of naming nodes keep."""

    rests_on = (frozenset({Phase.STRUCTURE_FEATURES}),)
    needs_edges = False

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_rule(graph, **network)

    def claims(self, guess: Any | Any) -> Claims:
        return claimed(guess.nodes, guess.names if guess.names.ndim == 1 else guess.names[:, 0])

    def figure(self, run: Run) -> float:
        """The first figure of the attack on a run."""
        return float(self.attack.score(self.guess(run), run.truth)[0].value)

    def test_noise_in_the_copy_costs_names(self) -> None:
        graph = communities()
        figures = [self.figure(record_rule(graph, rate=rate)) for rate in (1.0, 0.8, 0.3)]
        assert figures[0] > figures[1] > figures[2]

    def test_knows_names_by_features_and_not_by_number(self) -> None:
        """A list in another order gives the same share of right names."""
        run = record_rule(communities(3, nodes=60))
        graph, shuffle = run.graph, np.random.default_rng(1).permutation(60)
        place = np.argsort(shuffle)
        known = CrawledGraph(place[graph.edges], graph.silo_of[shuffle], structure_features=fedstar)
        view = run.transcript.views(Role.SILO)
        own = [
            replace(rows, values=np.stack([rows.values[:, 0], place[rows.values[:, 1]]], axis=1))
            if rows.name == "own names"
            else rows
            for rows in view.private
        ]
        guess = guess_of(self.attack, replace(view, private=tuple(own)), run.public, [known])
        value = self.attack.score(guess, replace(run.truth, identity=shuffle))[0].value
        assert value == pytest.approx(self.figure(run), abs=0.05)

    def test_refuses_a_rule_with_too_few_rows(self) -> None:
        run = self.run()
        short = replace(run.knows(CrawledGraph), structure_features=lambda edges, owners: fedstar(edges, owners)[1:])
        with pytest.raises(InputError, match="one row for each of 60 listed nodes"):
            guess_of(self.attack, run.transcript.views(Role.SILO), run.public, [short])


class TestNsfNearest(Identity):
    attack = named("nsf-nearest")

    def test_reaches_all_but_twins(self) -> None:
        """With all edges every node is named whose features nobody shares, and twins as often as luck has it."""
        run = record_rule(communities())
        guess = self.guess(run)
        alone = guess.alike == 1
        assert (guess.names[alone, 0] == guess.nodes[alone]).all()


class TestNsfAssignment(Identity):
    attack = named("nsf-assignment")


class TestNsfDegreeHashing(Identity):
    attack = named("nsf-degree-hashing")


class TestNsfPropagation(Identity):
    attack = named("nsf-propagation")
    beats_its_knowledge = False  # with the whole graph, own edges name every neighbour
    needs_edges = True

    def test_names_external_neighbours_alone(self) -> None:
        """Every claim is about a node with an edge to the claiming client."""
        run = record_rule(communities())
        guess = self.guess(run)
        client = guess.observers - int(run.transcript.parties.ids(Role.SILO)[0])
        assert foreign_neighbours(run.truth)[guess.nodes, client].all()

    def test_features_add_to_what_own_edges_tell(self) -> None:
        """The figure lies above the prior, which is the same attack without structure features."""
        run = record_rule(communities(), rate=0.9)
        guess = self.guess(run)
        (found,) = base.measure(self.attack, guess, run.truth, run.transcript.parties, run.knowledge)
        assert found.value > found.prior > 10 * found.random


def rows_of(seed: int, count: int, width: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width))


@given(st.integers(0, 10_000))
def test_nearest_are_in_order_of_distance(seed: int) -> None:
    """The listed rows are those of least distance, from near to far."""
    rows, table = rows_of(seed, 4), rows_of(seed + 1, 9)
    found = nearest(rows, table, 5, np.random.default_rng(0))
    distance = ((rows[:, None] - table[None]) ** 2).sum(axis=2)
    assert found.tolist() == distance.argsort(axis=1)[:, :5].tolist()


def test_equally_near_rows_come_in_random_order() -> None:
    """Among equal rows of a table none is preferred: not the first, and not always the same."""
    firsts = [
        int(nearest(np.zeros((1, 2)), np.zeros((4, 2)), 2, np.random.default_rng(seed))[0, 0]) for seed in range(200)
    ]
    assert np.bincount(firsts, minlength=4).min() > 25


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6))
def test_assignment_is_of_least_total_distance(seed: int, m: int, k: int) -> None:
    """No other way of giving each row a listed one of its own is shorter, and as many as possible get one."""
    rows, table = rows_of(seed, m), rows_of(seed + 1, k)
    found = one_to_one(rows, table, np.random.default_rng(0))
    distance = ((rows[:, None] - table[None]) ** 2).sum(axis=2)
    given_rows = found >= 0
    assert int(given_rows.sum()) == min(m, k)
    total = distance[np.flatnonzero(given_rows), found[given_rows]].sum()
    side = distance if m <= k else distance.T
    best = min(side[np.arange(min(m, k)), list(order)].sum() for order in permutations(range(max(m, k)), min(m, k)))
    assert total == pytest.approx(best)


@pytest.mark.parametrize("size", [30, 45])
def test_large_tables_are_matched_alike(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The ways for large tables give what those for small ones give, where the 50 nearest are all there are."""
    rows, table = rows_of(0, size), rows_of(1, 40)
    small = nearest(rows, table, 5, np.random.default_rng(0)), one_to_one(rows, table, np.random.default_rng(0))
    monkeypatch.setattr(nsf_matching, "DENSE", 1)
    large = nearest(rows, table, 5, np.random.default_rng(1)), one_to_one(rows, table, np.random.default_rng(1))
    assert (small[0] == large[0]).all()
    assert (small[1] == large[1]).all()
