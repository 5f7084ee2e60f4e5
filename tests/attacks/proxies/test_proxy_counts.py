from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.proxies import fractions as proxy_explanations
from fgl_secure.attacks.proxies.fractions import only_explanation, whole_numbers
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.methods.fedspray.audit_runs import drawn_nodes, drawn_sizes, graph_of, recorded_rounds
from fgl_secure.methods.fedspray.client import ProxyLayout
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.server_sums import ServerSums
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of, one_round
from tests.attacks.recorded import Run


class TellingSums(ServerSums):
    """The broken twin: masked sums, and beside them every client's shares as they are."""

    def __init__(self, channel: Channel) -> None:
        self._inner, self._channel = masked(channel), channel

    def __call__(self, rows: NDArray[np.float64], step: Step) -> NDArray[np.float64]:
        clients = self._channel.parties.ids(Role.SILO)
        server = np.full(len(clients), self._channel.parties.ids(Role.SERVER)[0])
        shares = ProxyLayout(3, 6, 8).shares
        self._channel.send(Phase.VECTORS, step, clients, server, rows[:, shares])
        return self._inner(rows, step)


class TestProxyClasses(ProxyConformance):
    attack = named("proxy-classes")

    def claims(self, guess: Any) -> Claims:
        return Counter(
            (client, kind, bool(there))
            for client, row in zip(guess.clients.tolist(), guess.present, strict=True)
            for kind, there in enumerate(row)
        )

    def test_reads_classes_that_are_there(self) -> None:
        """Zeros stand for classes without a labelled node, and for nothing else."""
        run = one_round(nodes_of([[2, 0, 1], [0, 3, 1]]))
        guess = self.guess(run)
        assert guess.present.tolist() == [[True, False, True], [False, True, True]]

    def test_masks_leave_what_all_have_together(self) -> None:
        """From the sum no client is told from another, and a class that nobody has is seen to be missing."""
        found = measured(self.attack, one_round(nodes_of([[2, 0, 1, 0], [0, 0, 1, 3], [1, 0, 0, 1]]), masked))
        presence = found["classes of clients"]
        assert not _verdict(presence).is_exposure
        assert "1 of 4 classes are labelled by no client" in presence.finding


@pytest.mark.parametrize(
    "attack",
    [named("proxy-classes"), named("proxy-counts"), named("proxy-singletons")],
    ids=lambda each: each.card.name,
)
def test_shares_in_the_clear_beside_a_masked_sum_are_caught(attack: Any) -> None:
    """The broken twin is read; the honest sum is not."""
    leaky, honest = (recorded_rounds([drawn_nodes(0)], "a round", make_sums=make) for make in (TellingSums, masked))
    bad, good = measured(attack, leaky), measured(attack, honest)
    exposed = [each for each in bad.values() if _verdict(each).is_exposure]
    assert exposed
    assert not any(_verdict(each).is_exposure for each in good.values())


def _verdict(found: Measurement) -> Verdict:
    return judge(found.value, found.interval, found.prior, exact=found.exact)


HALF_UNIT = 2.0**-33

Counts = st.lists(st.integers(0, 60), min_size=2, max_size=8).filter(any).map(np.array)


def rounded(values: np.ndarray) -> np.ndarray:
    """On the grid on which sums work."""
    return np.rint(values * 2.0**32) / 2.0**32


class TestProxyCounts(ProxyConformance):
    attack = named("proxy-counts")

    def claims(self, guess: Any) -> Claims:
        pairs = zip(guess.clients.tolist(), guess.counts.tolist(), strict=True)
        return Counter((client, tuple(counts)) for client, counts in pairs)

    def test_counts_but_for_a_common_divisor(self) -> None:
        """4 : 6 : 2 is read as 2 : 3 : 1, and 4 : 3 as it is."""
        run = one_round(nodes_of([[4, 6, 2], [4, 3, 0]]))
        guess = self.guess(run)
        assert guess.counts.tolist() == [[2, 3, 1], [4, 3, 0]]

    def test_masks_hide_counts(self) -> None:
        """From the sum nothing is counted, and what most clients have together is no news about one."""
        found = measured(self.attack, one_round(nodes_of([[5, 1, 0], [0, 4, 1], [1, 0, 6]]), masked))
        assert list(found) == ["most frequent labels"]
        assert found["most frequent labels"].value <= found["most frequent labels"].prior


@given(Counts)
def test_shares_tell_counts_but_for_their_divisor(counts: np.ndarray) -> None:
    """Rational reconstruction gives the counts over their greatest common divisor."""
    found = whole_numbers(rounded(counts / counts.sum()), HALF_UNIT)
    assert found is not None
    assert (found * np.gcd.reduce(counts) == counts).all()


class TestProxySingletons(ProxyConformance):
    attack = named("proxy-singletons")

    def claims(self, guess: Any) -> Claims:
        rows, kinds = (guess.counts == 1).nonzero()
        return Counter(
            (int(guess.clients[row]), int(kind), guess.proxies[row, kind].tobytes())
            for row, kind in zip(rows, kinds, strict=True)
        )

    def test_reads_single_nodes_exactly(self) -> None:
        """A class proxy of one node is that node's own; of two it is neither's."""
        held = nodes_of([[1, 3, 0], [2, 1, 4]])
        found = measured(self.attack, one_round(held))
        assert found["proxies of single nodes"].n == 2
        assert found["proxies of single nodes"].value == 1
        assert found["single nodes told"].value == 1

    def test_masks_hide_single_nodes_among_others_of_the_class(self) -> None:
        """The mean over several clients that have the class is nobody's proxy."""
        found = measured(self.attack, one_round(nodes_of([[1, 3], [2, 1], [1, 2]]), masked))
        assert list(found) == ["proxies of single nodes"]
        assert found["proxies of single nodes"].value == 0

    def test_masks_do_not_hide_the_only_node_of_a_class(self) -> None:
        """A class that one client alone has one node of comes through the sum as it is, as the claim says."""
        found = measured(self.attack, one_round(nodes_of([[1, 3], [0, 2], [0, 2]]), masked))
        assert found["proxies of single nodes"].value == 1


STEP = 2.0**-32
METRIC = "counts read off one sum"


class TestProxyPartialFractions(ProxyConformance):
    attack = named("proxy-partial-fractions")

    def claims(self, guess: Any) -> Claims:
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

    def test_equal_numbers_are_not_told_apart(self) -> None:
        """With five labelled nodes each, the sum does not say whose they are."""
        run = one_round(nodes_of([[1, 4], [3, 2], [2, 3]]), masked)
        assert (self.read_counts(run) == -1).all()

    def test_says_what_was_too_much_to_try(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Classes with more to try than the limit are left out, counted as wrong, and named in the finding."""
        monkeypatch.setattr(proxy_explanations, "MOST_SUMS", 3)
        found = measured(self.attack, one_round(nodes_of([[3, 4], [5, 6], [8, 9]]), masked))[METRIC]
        assert found.value == 0
        assert "For 2 classes there was too much to try" in found.finding

    def read_counts(self, run: RecordedRun) -> np.ndarray:
        """The counts of the guess; none that is claimed may be wrong."""
        guess = self.guess(run)
        counts: np.ndarray = guess.counts
        claimed = counts >= 0
        assert (counts == run.truth(ProxyTruth).labelled[:, 0])[claimed].all()
        return counts


@given(data=st.data(), grid=st.sampled_from([None, 7, 64]), clients=st.integers(1, 4))
@settings(deadline=None)
def test_claims_where_trying_everything_finds_one_choice(data: st.DataObject, grid: int | None, clients: int) -> None:
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


def _ways(count: int, labelled: int, grid: int | None) -> list[float]:
    if grid is None:
        return [float(np.rint(count / labelled / STEP) * STEP)]
    units = {count * grid // labelled, -(-count * grid // labelled)}
    return [float(np.rint(unit / grid / STEP) * STEP) for unit in sorted(units)]
