from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.virtual_nodes.knowledge import LocalWork, VirtualSlices, mean_states
from fgl_secure.attacks.virtual_nodes.summands import (
    COMMONEST,
    METRIC,
    SHARES,
    Change,
    LinkKey,
    directions,
    label_shares,
    links,
)
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.errors import InputError
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims, losing_of_even, measured
from tests.attacks.recorded import Run
from tests.attacks.summand_conformance import SummandConformance
from tests.attacks.virtual_nodes.virtual_node_runs import (
    ENCODER,
    NODES,
    SCORES,
    WIDTH,
    Federation,
    Holding,
    record_rounds,
    slices,
    trained,
)
from tests.error_codes import about


class VirtualNodeConformance(SummandConformance):
    """Inherit as `Test...`, name the attack, list its claims and say how its run is recorded.

    Attributes:
        setting: how the rounds are trained that the attack reads.
    """

    setting = Federation()

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Rounds of a few clients."""
        return record_rounds(self.setting, loss=loss, recording=recording)


ONE_STEP = LocalWork(0.3, 64, 1, 1000)
"""Every client takes one step on all that it has."""


class TestVirtualNodeLabels(VirtualNodeConformance):
    attack = named("virtual-node-labels")

    def claims(self, guess: Any) -> Claims:
        return Counter(zip(guess.clients.tolist(), guess.shares.argmax(axis=1).tolist(), strict=True))

    def test_finds_nothing_where_clients_are_alike(self) -> None:
        found = measured(self.attack, record_rounds(Federation(skew=0.0, rounds=3)))[SHARES]
        assert "next to nothing to find" in found.finding
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.NOT_DETECTED

    def test_reads_nothing_under_masks(self) -> None:
        """Where the server learns the sum alone, no client's shares can be told."""
        run = record_rounds(Federation(scheme="pairwise-masking", rounds=2))
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    def test_catches_clients_that_leak_under_masks(self) -> None:
        """The broken twin: whoever masks its summand and sends it in the clear as well is read as before."""
        found = measured(self.attack, record_rounds(Federation(scheme="pairwise-masking", leaking=True)))
        assert judge(found[SHARES].value, found[SHARES].interval, 0.0, exact=False).is_exposure
        assert found[COMMONEST].value == 1

    def test_refuses_summands_of_another_layout(self) -> None:
        """Rows that are too short are an error, and not read as something else."""
        run = self.run()
        known = [replace(run.knows(VirtualSlices), virtual_nodes=50)]
        with pytest.raises(InputError, check=about("summands")):
            guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, known)


def holding(counts: list[int], scale: float, seed: int = 0) -> Holding:
    """A client with so many graphs of each label."""
    labels = np.repeat(np.arange(len(counts)), counts)
    rows = scale * np.random.default_rng(seed).normal(size=(len(labels), slices().hidden))
    return Holding(rows, labels, np.zeros(ENCODER + NODES * WIDTH), np.zeros(SCORES))


@pytest.mark.parametrize("counts", [[8, 0, 0], [5, 2, 1], [0, 7, 4], [3, 3, 3]])
def test_a_bias_alone_tells_counts_exactly(counts: list[int]) -> None:
    """With rows of zeros every graph is predicted the soft-max of the bias, and one step tells shares exactly."""
    layout, setting = slices(), Federation(work=ONE_STEP)
    sent = np.zeros(layout.entries)
    sent[layout.head_bias] = [0.5, -0.2, 0.1]
    state = trained(setting, sent, holding(counts, 0.0), np.random.default_rng(0))
    found = label_shares([Change(sent, state, 1)], layout, ONE_STEP)[0]
    np.testing.assert_allclose(found, np.array(counts) / sum(counts), atol=1e-12)


def test_steps_are_counted_as_clients_take_them() -> None:
    """As many as there are batches, the last one smaller, in each epoch."""
    work = LocalWork(0.1, 32, 2, 500)
    assert [work.steps(graphs / 500) for graphs in (0, 1, 32, 33, 64)] == [2, 2, 2, 4, 4]


MASKED = Federation(scheme="pairwise-masking", rounds=3)


class TestVirtualNodePopulation(VirtualNodeConformance):
    attack = named("virtual-node-population")
    setting = MASKED
    rests_on = ()  # what it reads is noted by the server, and sent by nobody

    def claims(self, guess: Any) -> Claims:
        return Counter(tuple(shares) for shares in guess.shares.round(9).tolist())

    def test_tells_from_masked_sums_what_all_have(self) -> None:
        found = measured(self.attack, record_rounds(MASKED))[METRIC]
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.LEAKS

    def test_lost_summands_leave_no_sum(self) -> None:
        run = record_rounds(Federation(rounds=2), loss=losing_of_even(frozenset({Phase.VECTORS})))
        layout = run.knows(VirtualSlices)
        assert layout is not None
        assert mean_states(run.transcript.views(Role.SERVER), layout) == ()


ROUNDS = Federation(rounds=4, pull=6.0)


class TestVirtualNodeClients(VirtualNodeConformance):
    attack = named("virtual-node-clients")
    setting = ROUNDS

    def claims(self, guess: Any) -> Claims:
        return Counter(
            zip(guess.rounds.tolist(), guess.places.tolist(), guess.names[LinkKey.NODES].tolist(), strict=True)
        )

    def test_is_at_chance_where_clients_pull_alike(self) -> None:
        """What is noise says nothing of who sent it, by virtual nodes or by the model's encoder."""
        run = record_rounds(Federation(clients=8, rounds=30, pull=0.0, skew=0.0))
        found = measured(self.attack, run)[LinkKey.NODES.metric]
        assert judge(found.value, found.interval, found.prior, exact=False) is Verdict.NOT_DETECTED
        assert found.interval.low <= 0 <= found.interval.high

    def test_reads_nothing_under_masks(self) -> None:
        """Where the server learns the sum alone, there is nothing to put a name to."""
        run = record_rounds(replace(ROUNDS, scheme="pairwise-masking"))
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None

    def test_catches_clients_that_leak_under_masks(self) -> None:
        """The broken twin: whoever masks its summand and sends it in the clear as well is told by it."""
        run = record_rounds(replace(ROUNDS, rounds=8, scheme="pairwise-masking", leaking=True))
        found = measured(self.attack, run)[LinkKey.NODES.metric]
        assert judge(found.value, found.interval, found.prior, exact=False).is_exposure

    def test_needs_two_rounds(self) -> None:
        run = record_rounds(Federation())
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) is None


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
