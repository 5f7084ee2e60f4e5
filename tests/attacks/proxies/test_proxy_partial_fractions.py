from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.proxies import fractions as proxy_explanations
from fgl_secure.attacks.proxies.fractions import ExplainedCounts, ProxyPartialFractions, only_explanation, too_large
from fgl_secure.attacks.proxies.scope import ProxyKnowledge, ProxyTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.fedspray.alignment import shares_of
from fgl_secure.methods.fedspray.controls import drawn_sizes, graph_of, recorded_rounds
from fgl_secure.runtime import Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of, one_round, proxy_references
from tests.attacks.recorded import Run

__all__ = ["proxy_references"]

STEP = 2.0**-32
METRIC = "counts read off one sum"


def total_of(counts: list[int], labelled: tuple[int, ...]) -> float:
    """The sum of shares of one class on the numbers that sums work on."""
    return float(sum(np.rint(c / m / STEP) for c, m in zip(counts, labelled, strict=True)) * STEP)


class TestProxyPartialFractions(ProxyConformance):
    attack = ProxyPartialFractions()

    def claims(self, guess: ExplainedCounts) -> Claims:
        rows = zip(guess.clients.tolist(), guess.counts.tolist(), strict=True)
        return Counter((client, tuple(counts)) for client, counts in rows if -1 not in counts)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """One round in the clear of clients whose numbers of labelled nodes have no common divisor."""
        held = drawn_sizes(2)
        found = recorded_rounds([held], "a round", loss=loss, recording=recording)
        return Run(graph_of(held), found.public, found.transcript, found.truth(ProxyTruth), found.knowledge)

    def test_a_grid_leaves_many_explanations(self) -> None:
        """The very counts that an exact sum gives away are not read where shares are multiples of 1 / 1024."""
        run = recorded_rounds([drawn_sizes(2)], "a round", make_sums=masked, grid=1024)
        found = measured(self.attack, run)[METRIC]
        assert found.value <= found.prior

    def test_a_grid_does_not_help_few_labels(self) -> None:
        """A class that two clients hardly have is read all the same: a single node is the least that there can be."""
        run = recorded_rounds([nodes_of([[1, 4], [0, 7]])], "a round", make_sums=masked, grid=1024)
        assert self.read_counts(run)[:, 0].tolist() == [1, 0]

    def test_equal_numbers_are_not_told_apart(self) -> None:
        """With five labelled nodes each, the sum does not say whose they are."""
        run = one_round(nodes_of([[1, 4], [3, 2], [2, 3]]), masked)
        assert (self.read_counts(run) == -1).all()

    def test_needs_the_numbers_of_labelled_nodes(self) -> None:
        """Without them there is no guess."""
        run = one_round(nodes_of([[1, 4], [3, 1]]), masked)
        layout = run.knows(ProxyKnowledge).layout
        blind = [ProxyKnowledge(replace(layout, labelled=None))]
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, blind) is None

    def test_says_what_was_too_much_to_try(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Classes with more to try than the limit are left out, counted as wrong, and named in the finding."""
        monkeypatch.setattr(proxy_explanations, "MOST_SUMS", 3)
        found = measured(self.attack, one_round(nodes_of([[3, 4], [5, 6], [8, 9]]), masked))[METRIC]
        assert found.value == 0
        assert "For 2 classes there was too much to try" in found.finding

    def test_a_class_that_nobody_has_is_no_success(self) -> None:
        """Zeros that the sum tells anyway are not counted."""
        run = one_round(nodes_of([[3, 0, 4], [5, 0, 6], [8, 0, 9]]), masked)
        assert not self.read_counts(run)[:, 1].any()
        assert "6 of 6 times" in measured(self.attack, run)[METRIC].finding
        assert measured(self.attack, run)[METRIC].n == 3  # clients

    def read_counts(self, run: RecordedRun) -> np.ndarray:
        """The counts of the guess; none that is claimed may be wrong."""
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        claimed = guess.counts >= 0
        assert (guess.counts == run.truth(ProxyTruth).labelled[:, 0])[claimed].all()
        return guess.counts


@given(data=st.data(), grid=st.sampled_from([None, 7, 64]), clients=st.integers(1, 4))
@settings(deadline=None)
def test_claims_where_trying_everything_finds_one_choice(data: st.DataObject, grid: int | None, clients: int) -> None:
    """Agrees with trying every choice of counts, and of rounding up or down, one by one."""
    labelled = tuple(data.draw(st.lists(st.integers(1, 6), min_size=clients, max_size=clients)))
    counts = [data.draw(st.integers(0, m)) for m in labelled]
    ways = [[_ways(c, m, grid) for c in range(m + 1)] for m in labelled]
    total = float(sum(data.draw(st.sampled_from(ways[k][c])) for k, c in enumerate(counts)))
    fitting = [
        each
        for each in product(*(range(m + 1) for m in labelled))
        if any(abs(sum(way) - total) < STEP / 4 for way in product(*(ways[k][c] for k, c in enumerate(each))))
    ]
    found = only_explanation(total, labelled, STEP, 0.0 if grid is None else 1 / grid)
    if total < STEP / 2:
        assert found is not None
        assert not found.any()
    elif len(fitting) == 1:
        assert found is not None
        assert tuple(found.tolist()) == fitting[0] == tuple(counts)
    else:
        assert found is None


def test_known_sum() -> None:
    """3/7 + 2/11 + 5/13 is that and nothing else; there is nothing that fits half a unit more."""
    total = total_of([3, 2, 5], (7, 11, 13))
    found = only_explanation(total, (7, 11, 13), STEP, 0.0)
    assert found is not None
    assert found.tolist() == [3, 2, 5]
    assert only_explanation(total + STEP, (7, 11, 13), STEP, 0.0) is None


def test_rounded_shares_are_among_what_is_tried() -> None:
    """Whatever largest remainders do, a lone client's counts are found behind its rounded shares."""
    counts = np.array([5, 9, 1, 3])
    for share, count in zip(shares_of(counts, 1024), counts.tolist(), strict=True):
        found = only_explanation(float(share), (18,), STEP, 1 / 1024)
        assert found is not None
        assert found.tolist() == [count]


def test_limits_are_told() -> None:
    """Too much to try gives no explanation and says so; a sum of zero is never too much."""
    labelled = (10_000, 9_999, 9_998, 9_997)
    assert too_large(2.0, labelled, STEP, 0.0)
    assert only_explanation(2.0, labelled, STEP, 0.0) is None
    assert not too_large(0.0, labelled, STEP, 0.0)


def _ways(count: int, labelled: int, grid: int | None) -> list[float]:
    if grid is None:
        return [float(np.rint(count / labelled / STEP) * STEP)]
    units = {count * grid // labelled, -(-count * grid // labelled)}
    return [float(np.rint(unit / grid / STEP) * STEP) for unit in sorted(units)]
