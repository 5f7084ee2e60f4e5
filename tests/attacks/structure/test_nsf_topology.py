from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.attacks.structure.nsf_predictions import NsfDegrees, NsfEgoNets, standardised
from fgl_secure.attacks.structure.scope import NodeClaims, StructureTruth
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, PublicParameters, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims, losing, losing_of_even
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.structure_conformance import StructureConformance, claimed, structure_references
from tests.attacks.structure.structure_runs import Floats, Ids, communities, one_hot_degrees, record_rule, without

__all__ = ["structure_references"]

FEATURES = frozenset({Phase.STRUCTURE_FEATURES})


class Topology(StructureConformance):
    """What both figures keep."""

    rests_on = (FEATURES,)

    def recorded(self, graph: FederatedGraph, loss: Loss | None, recording: Recording | None) -> Run:
        return record_rule(graph, loss=loss, recording=recording)

    def claims(self, guess: NodeClaims) -> Claims:
        return claimed(guess.nodes, guess.values)

    def test_needs_the_own_nodes(self) -> None:
        """Without features of its own nodes a client has nothing to compare with."""
        run = self.run()
        view = without(run.transcript.views(Role.SILO), "own features")
        assert self.attack.infer(view, run.public) is None


class TestNsfDegrees(Topology):
    attack = NsfDegrees()

    def test_one_hot_degrees_say_the_degree(self) -> None:
        """A one-hot degree that some own node has is the degree: all that is reachable is reached."""
        run = record_rule(self.run().graph, one_hot_degrees)
        guess = self.attack.infer(run.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.value == pytest.approx(found.reachable)

    def test_random_baseline_is_a_random_own_node(self) -> None:
        """Where all nodes have one degree, any own node has the right one."""
        ring = federated(both_ways([(i, (i + 1) % 12) for i in range(12)]), np.arange(12) % 3)
        run = record_rule(ring)
        guess = self.attack.infer(run.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.random == found.prior == found.value == 1


class TestNsfEgoNets(Topology):
    attack = NsfEgoNets()

    def test_rests_on_messages(self) -> None:
        """Without features of others there is no claim, and with half of them none about the other half.

        Claims about one half may change with the other: neighbours of unknown degree make an own node useless.
        """
        everything, half = self.read(self.run()), self.read(self.run(losing_of_even(FEATURES)))
        assert 0 < half.total() < everything.total()
        assert not self.read(self.run(losing(FEATURES)))

    def test_degrees_alone_say_little_of_surroundings(self) -> None:
        """One-hot degrees tell far fewer ego networks than return probabilities do."""
        figures = []
        for rule_run in (self.run(), record_rule(self.run().graph, one_hot_degrees)):
            guess = self.attack.infer(rule_run.transcript.views(Role.SILO), PublicParameters())
            assert guess is not None
            figures.append(self.attack.score(guess, rule_run.truth)[0].value)
        assert figures[1] < figures[0]

    def test_ego_networks_of_alike_nodes_are_alike(self) -> None:
        """Among triangles, each inside a client, every ego network is that of every own node."""
        pairs = [(3 * k + a, 3 * k + b) for k in range(4) for a, b in ((0, 1), (1, 2), (0, 2))]
        run = record_rule(federated(both_ways(pairs), np.arange(12) // 3 % 3))
        guess = self.attack.infer(run.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        assert self.attack.score(guess, run.truth)[0].value == 1
        other = StructureTruth.of(run.transcript.parties, federated(both_ways(pairs[:-1]), np.arange(12) // 3 % 3))
        assert self.attack.score(guess, other)[0].value < 1


def test_flags_stay_as_they_are() -> None:
    """Columns of zeros and ones and constant columns keep their unit; others are measured in standard deviations."""
    table = np.array([[0.0, 3.0, 1.0], [1.0, 3.0, 5.0]])
    rows, same = standardised(table[:1], table)
    assert same.tolist() == [[0.0, 3.0, 0.5], [1.0, 3.0, 2.5]]
    assert rows.tolist() == same[:1].tolist()


def test_a_standardised_degree_is_read_like_a_plain_one() -> None:
    """One column that goes with the degree is enough, among others of any size and in any unit."""
    run = record_rule(communities(3, nodes=60), standardised_degree_among_noise)
    guess = NsfDegrees().infer(run.transcript.views(Role.SILO), PublicParameters())
    assert guess is not None
    (found,) = NsfDegrees().score(guess, run.truth)
    assert found.value == pytest.approx(found.reachable)


def standardised_degree_among_noise(edges: Ids, owners: Ids) -> Floats:
    degrees = np.bincount(edges[0], minlength=len(owners))
    noise = np.random.default_rng(0).normal(size=(len(owners), 30))
    return np.hstack([noise, ((degrees - 3.0) / 2.5)[:, None]])
