from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.structure import nsf_walk_degrees as degree_multisets
from fgl_secure.attacks.structure.nsf_walk_degrees import TOLERANCE, DegreeMultisets

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


def test_one_sum_alone_is_often_not_enough() -> None:
    """1/2 + 1/6 is 1/3 + 1/3: only the squares tell them apart."""
    assert SOLVER.solve(2, 2 / 3, float("nan")) is None
    assert SOLVER.solve(2, 2 / 3, 2 / 9).tolist() == [3, 3]  # type: ignore[union-attr]
    assert SOLVER.solve(2, 2 / 3, 10 / 36).tolist() == [2, 6]  # type: ignore[union-attr]


def test_triangles_may_add_to_the_squares() -> None:
    """Where no multiset has just these squares, one that leaves room for triangles is taken."""
    found = SOLVER.solve(2, 1 / 4 + 1 / 5, 1 / 16 + 1 / 25 + 2 / 20)
    assert found is not None
    assert found.tolist() == [4, 5]


@pytest.mark.parametrize("count", [0, 7])
def test_too_few_or_too_many_are_left_open(count: int) -> None:
    """No number has no sum to solve, and more than six are not tried."""
    assert SOLVER.solve(count, 0.5, 0.1) is None


def test_sums_of_no_multiset_have_no_solution() -> None:
    """A sum that no multiset has is not forced on the nearest one."""
    assert SOLVER.solve(2, 0.123, 0.01) is None


def test_many_numbers_are_combined_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit on combinations larger multisets stay open and smaller ones are solved."""
    monkeypatch.setattr(degree_multisets, "MOST_COMBINATIONS", 60)
    small = DegreeMultisets(NUMBERS)
    assert small.solve(2, *sums([4, 5])) is not None
    assert small.solve(6, *sums([4, 5, 4, 4, 5, 5])) is None
