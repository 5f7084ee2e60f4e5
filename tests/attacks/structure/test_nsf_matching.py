from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.structure import nsf_identity as nsf_matching
from fgl_secure.attacks.structure.nsf_identity import comparable, equal_rows, nearest, one_to_one, squared_distances


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


def test_rounding_is_no_difference() -> None:
    """Rows that differ by rounding to single precision are equally near, and count as equal."""
    exact = rows_of(0, 6)
    single = exact.astype(np.float32).astype(np.float64)
    assert (np.diag(squared_distances(single, exact)) == 0).all()
    assert equal_rows(np.concatenate([exact, single, rows_of(1, 2)])).tolist() == [2] * 12 + [1] * 2


def test_fewer_listed_than_asked_for() -> None:
    """A short table is listed whole."""
    assert nearest(rows_of(0, 2), rows_of(1, 3), 5, np.random.default_rng(0)).shape == (2, 3)


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


def test_counts_are_compared_by_their_logarithms() -> None:
    """Whole numbers become logarithms of one more, zeros and ones stay, and anything else is left alone."""
    assert comparable(np.array([[0.0, 1.0, 3.0]])).tolist() == [[0.0, 1.0, 2.0]]
    for other in (np.array([[0.5, 1.0]]), np.array([[-1.0, 2.0]])):
        assert comparable(other) is other
