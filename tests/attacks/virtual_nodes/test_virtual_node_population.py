from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.virtual_nodes.labels import METRIC, PopulationGuess, VirtualNodePopulation
from fgl_secure.attacks.virtual_nodes.scope import VirtualSlices, mean_states
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import Claims, losing_of_even, measured
from tests.attacks.virtual_nodes.virtual_node_conformance import VirtualNodeConformance, virtual_node_references
from tests.attacks.virtual_nodes.virtual_node_runs import Federation, record_rounds

__all__ = ["virtual_node_references"]

MASKED = Federation(scheme="pairwise-masking", rounds=3)


class TestVirtualNodePopulation(VirtualNodeConformance):
    attack = VirtualNodePopulation()
    setting = MASKED
    rests_on = ()  # what it reads is noted by the server, and sent by nobody

    def claims(self, guess: PopulationGuess) -> Claims:
        return Counter(tuple(shares) for shares in guess.shares.round(9).tolist())

    def test_tells_from_masked_sums_what_all_have(self) -> None:
        """Masks keep the sum exact, and the sum tells the label shares of all clients together."""
        found = measured(self.attack, record_rounds(MASKED))[METRIC]
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.LEAKS

    def test_adds_up_what_is_in_the_clear(self) -> None:
        """Summands in the clear tell what their sum tells."""
        masked, clear = (
            measured(self.attack, record_rounds(replace(MASKED, scheme=scheme)))[METRIC]
            for scheme in ("pairwise-masking", None)
        )
        assert np.isclose(masked.value, clear.value, atol=1e-6)

    def test_finds_nothing_where_labels_are_even(self) -> None:
        """As many graphs of each label leave nothing to be found out, and the finding says so."""
        found = measured(self.attack, record_rounds(replace(MASKED, skew=0.0)))[METRIC]
        assert "next to nothing to find" in found.finding
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.NOT_DETECTED

    def test_lost_summands_leave_no_sum(self) -> None:
        """Where one client's summand is missing, the mean of the others is not taken for the mean of all."""
        run = record_rounds(Federation(rounds=2), loss=losing_of_even(frozenset({Phase.VECTORS})))
        layout = run.knows(VirtualSlices)
        assert layout is not None
        assert mean_states(run.transcript.views(Role.SERVER), layout) == ()

    def test_the_null_control_moves_labels_on(self) -> None:
        """Shares of all clients together are the same for any order of clients, so labels change places instead."""
        truth = record_rounds(MASKED).truth
        first, second, third = truth.population.tolist()
        assert truth.permuted(1).population.tolist() == [third, first, second]
        assert len({first, second, third}) > 1

    def test_truth_without_shares_scores_nothing(self) -> None:
        """A run whose label shares nobody noted has no figure."""
        run = self.run()
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        assert self.attack.score(guess, replace(run.truth, population=None)) == ()
