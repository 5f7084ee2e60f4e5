from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.virtual_nodes.clients import LinkedSummands, Part, VirtualNodeClients, directions, links
from fgl_secure.attacks.virtual_nodes.scope import VirtualSlices
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.runtime import Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.virtual_nodes.virtual_node_conformance import VirtualNodeConformance, virtual_node_references
from tests.attacks.virtual_nodes.virtual_node_runs import Federation, record_rounds

__all__ = ["virtual_node_references"]

ROUNDS = Federation(rounds=4, pull=6.0)


class TestVirtualNodeClients(VirtualNodeConformance):
    attack = VirtualNodeClients()
    setting = ROUNDS

    def claims(self, guess: LinkedSummands) -> Claims:
        return Counter(zip(guess.rounds.tolist(), guess.places.tolist(), guess.names[Part.NODES].tolist(), strict=True))

    def test_is_at_chance_where_clients_pull_alike(self) -> None:
        """What is noise says nothing of who sent it, by virtual nodes or by the model's encoder."""
        run = record_rounds(Federation(clients=8, rounds=30, pull=0.0, skew=0.0))
        found = measured(self.attack, run)[Part.NODES.metric]
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.NOT_DETECTED
        assert found.interval.low <= 0 <= found.interval.high

    def test_compares_with_the_model_alone(self) -> None:
        """What model and scores tell is reported beside it, against the same chance."""
        run = record_rounds(Federation(clients=5, rounds=8))
        found = measured(self.attack, run)
        assert set(found) == {part.metric for part in Part}
        assert found[Part.NODES.metric].reachable == found[Part.MODEL.metric].reachable == pytest.approx(0.8)

    def test_looks_at_scores_where_they_are_sent(self) -> None:
        """Where the server learns no mean score vector, nothing is said about scores."""
        run = self.run()
        known = [replace(run.knows(VirtualSlices), scores=0)]
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, known)
        assert guess is not None
        assert set(guess.names) == {Part.NODES, Part.MODEL}

    def test_reads_nothing_under_masks(self) -> None:
        """Where the server learns the sum alone, there is nothing to put a name to."""
        run = record_rounds(replace(ROUNDS, scheme="pairwise-masking"))
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    def test_catches_clients_that_leak_under_masks(self) -> None:
        """The broken twin: whoever masks its summand and sends it in the clear as well is told by it."""
        run = record_rounds(replace(ROUNDS, rounds=8, scheme="pairwise-masking", leaking=True))
        found = measured(self.attack, run)[Part.NODES.metric]
        assert judge(found.value, found.interval, found.prior, exact=False).is_exposure

    def test_needs_two_rounds(self) -> None:
        """One round has nothing to be compared with."""
        run = record_rounds(Federation())
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    def test_needs_virtual_nodes(self) -> None:
        """A model without virtual nodes is no matter of this attack."""
        run = self.run()
        known = [replace(run.knows(VirtualSlices), virtual_nodes=0)]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, known) is None


def test_links_go_by_direction_from_the_mean() -> None:
    """What all have in common does not count, nor how far a client went."""
    own = np.random.default_rng(0).normal(size=(5, 40))
    assert links(directions(100 + own), directions(-50 + 7 * own), seed=0).tolist() == [0, 1, 2, 3, 4]


def test_the_place_in_the_record_decides_nothing() -> None:
    """Rows that say nothing are linked at random: over many rounds about one in six by its place."""
    same = directions(np.ones((6, 3)))
    assert not same.any()
    names = np.stack([links(same, same, seed) for seed in range(300)])
    assert 0.1 < np.mean(names == np.arange(6)) < 0.23
