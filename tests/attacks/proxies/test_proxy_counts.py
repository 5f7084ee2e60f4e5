from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.proxies.counts import LabelledCounts, ProxyCounts, counts_of
from fgl_secure.attacks.proxies.fractions import MOST, joined, joined_on_grid, one_more, whole_numbers
from fgl_secure.attacks.proxies.scope import ProxyRows
from fgl_secure.methods.fedspray.alignment import shares_of
from fgl_secure.runtime import Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of, one_round, proxy_references

__all__ = ["proxy_references"]

HALF_UNIT = 2.0**-33

Counts = st.lists(st.integers(0, 60), min_size=2, max_size=8).filter(any).map(np.array)


def rounded(values: np.ndarray) -> np.ndarray:
    """On the grid on which sums work."""
    return np.rint(values * 2.0**32) / 2.0**32


class TestProxyCounts(ProxyConformance):
    attack = ProxyCounts()

    def claims(self, guess: LabelledCounts) -> Claims:
        pairs = zip(guess.clients.tolist(), guess.counts.tolist(), strict=True)
        return Counter((client, tuple(counts)) for client, counts in pairs)

    def test_counts_but_for_a_common_divisor(self) -> None:
        """4 : 6 : 2 is read as 2 : 3 : 1, and 4 : 3 as it is."""
        run = one_round(nodes_of([[4, 6, 2], [4, 3, 0]]))
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        assert guess.counts.tolist() == [[2, 3, 1], [4, 3, 0]]

    def test_no_shares_are_no_labelled_nodes(self) -> None:
        """A client that sends zeros has no labelled node, and shares that are no fractions are not counted."""
        shares = np.array([[0.0, 0.0], [0.5, 0.5], [2**0.5 - 1, 2 - 2**0.5]])
        rows = ProxyRows(0, np.arange(3), shares, np.zeros((3, 2, 1)), HALF_UNIT)
        assert counts_of(rows).tolist() == [[0, 0], [1, 1], [-1, -1]]

    def test_masks_hide_counts(self) -> None:
        """From the sum nothing is counted, and what most clients have together is no news about one."""
        found = measured(self.attack, one_round(nodes_of([[5, 1, 0], [0, 4, 1], [1, 0, 6]]), masked))
        assert list(found) == ["most frequent labels"]
        assert found["most frequent labels"].value <= found["most frequent labels"].prior


@pytest.mark.parametrize(
    ("counts", "smallest"),
    [
        ([1], [1]),
        ([7, 0], [1, 0]),
        ([1, 2], [1, 2]),
        ([2, 4], [1, 2]),
        ([355, 113], [355, 113]),
        ([16384, 16383, 0], [16384, 16383, 0]),
        ([6, 10, 15], [6, 10, 15]),
    ],
)
def test_known_whole_numbers(counts: list[int], smallest: list[int]) -> None:
    """The smallest whole numbers in the same ratio are found behind rounded shares."""
    found = whole_numbers(rounded(np.array(counts) / sum(counts)), HALF_UNIT)
    assert found is not None
    assert found.tolist() == smallest


@given(Counts)
def test_shares_tell_counts_but_for_their_divisor(counts: np.ndarray) -> None:
    """Rational reconstruction gives the counts over their greatest common divisor."""
    found = whole_numbers(rounded(counts / counts.sum()), HALF_UNIT)
    assert found is not None
    assert (found * np.gcd.reduce(counts) == counts).all()


def test_no_whole_numbers() -> None:
    """Irrational ratios have none, and neither have zeros or more nodes than are tried."""
    assert whole_numbers(np.array([2**0.5 - 1, 2 - 2**0.5]), HALF_UNIT) is None
    assert whole_numbers(np.zeros(3), HALF_UNIT) is None
    assert whole_numbers(np.array([1, MOST]) / (MOST + 1), HALF_UNIT) is None


@given(Counts, st.data())
def test_one_node_more_is_explained(counts: np.ndarray, data: st.DataObject) -> None:
    """What is found explains the shares before and after, and is no larger than the truth."""
    after = counts.copy()
    after[data.draw(st.integers(0, len(counts) - 1))] += 1
    whole = [whole_numbers(rounded(each / each.sum()), HALF_UNIT) for each in (counts, after)]
    assert whole[0] is not None
    assert whole[1] is not None
    found = one_more(whole[0], whole[1])
    assert found is not None
    before, kind = found
    assert before.sum() <= counts.sum()
    assert np.allclose(before / before.sum(), counts / counts.sum())
    more = before + np.eye(len(before))[kind]
    assert np.allclose(more / more.sum(), after / after.sum())


def test_one_node_more_tells_the_divisor() -> None:
    """2 : 4 with a node of the second class more is 2 : 5, which 1 : 2 is not."""
    found = one_more(np.array([1, 2]), np.array([2, 5]))
    assert found is not None
    assert found[0].tolist() == [2, 4]
    assert found[1] == 1


def test_nothing_explains_a_change_of_two_nodes() -> None:
    """Two nodes of different classes more are not taken for one."""
    assert one_more(np.array([3, 1, 1]), np.array([4, 2, 1])) is None


@given(st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4).filter(any), min_size=3, max_size=6), st.data())
def test_the_change_of_a_sum_is_one_client_s(counts: list[list[int]], data: st.DataObject) -> None:
    """Whoever the other clients are, the change of the sum of shares is explained by counts of one client."""
    before = np.array(counts)
    after = before.copy()
    client, kind = data.draw(st.tuples(st.integers(0, len(before) - 1), st.integers(0, 3)))
    after[client, kind] += 1
    sums = [rounded(each / each.sum(axis=1, keepdims=True)).sum(axis=0) for each in (before, after)]
    found = joined(sums[1] - sums[0], 2 * len(before) * HALF_UNIT)
    if np.count_nonzero(before[client]) == 1 and before[client, kind]:
        assert found is None  # the client has that class alone, and its shares stay
        return
    assert found is not None
    m = found[0].sum()
    explained = (found[0] + np.eye(4)[found[1]]) / (m + 1) - found[0] / max(m, 1)
    assert np.allclose(explained, sums[1] - sums[0])
    assert m <= before[client].sum()


def test_known_change_of_a_sum() -> None:
    """A client with 5 : 3 : 0 nodes that adds one of the third class is counted off the sum of three clients."""
    others = rounded(np.array([3 / 7, 4 / 7, 0])) + rounded(np.array([0, 1 / 3, 2 / 3]))
    before, after = (others + rounded(np.array(each) / sum(each)) for each in ([5, 3, 0], [5, 3, 1]))
    found = joined(after - before, 6 * HALF_UNIT)
    assert found is not None
    assert found[0].tolist() == [5, 3, 0]
    assert found[1] == 2


def test_a_first_node_and_no_change() -> None:
    """A client's first labelled node has its class as all of its shares; what does not change tells nothing."""
    found = joined(np.array([0.0, 1.0]), HALF_UNIT)
    assert found is not None
    assert found[0].tolist() == [0, 0]
    assert found[1] == 1
    assert joined(np.zeros(3), HALF_UNIT) is None


def test_rounding_may_speak_for_other_counts() -> None:
    """Of 24 nodes and one more the guess from the change misses, and 27 others round to the same change."""
    before = np.array([5, 5, 4, 5, 5])
    change = shares_of(before + np.array([1, 0, 0, 0, 0]), 1024) - shares_of(before, 1024)
    found = joined_on_grid(change, HALF_UNIT, 1 / 1024)
    assert found is not None
    assert found[0].sum() == 27


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6).filter(any), st.data())
def test_changes_of_rounded_shares_tell_few_labels(counts: list[int], data: st.DataObject) -> None:
    """What is found gives the very change of rounded shares, though perhaps from other counts; none where none is."""
    before, kind = np.array(counts), data.draw(st.integers(0, len(counts) - 1))
    change = shares_of(before + np.eye(len(counts), dtype=np.int64)[kind], 1024) - shares_of(before, 1024)
    found = joined_on_grid(change, HALF_UNIT, 1 / 1024)
    if np.count_nonzero(before) == 1 and before[kind]:
        assert found is None
    elif found is not None:
        more = found[0] + np.eye(len(counts), dtype=np.int64)[found[1]]
        assert (shares_of(more, 1024) - shares_of(found[0], 1024)).tolist() == change.tolist()
        assert 0 < found[0].sum() <= 32  # the square root of the grid, beyond which nothing is tried


def test_known_change_of_rounded_shares() -> None:
    """A client with 5 : 3 : 0 nodes that adds one of the third class is counted on the grid as well."""
    change = shares_of(np.array([5, 3, 1]), 1024) - shares_of(np.array([5, 3, 0]), 1024)
    found = joined_on_grid(change, HALF_UNIT, 1 / 1024)
    assert found is not None
    assert (found[0].tolist(), found[1]) == ([5, 3, 0], 2)
    first = joined_on_grid(np.array([0.0, 1.0]), HALF_UNIT, 1 / 1024)
    assert first is not None
    assert (first[0].tolist(), first[1]) == ([0, 0], 1)
