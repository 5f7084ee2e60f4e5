from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.row_space import exposed, leverages, row_basis, solver


def test_a_sum_of_one_exposes_it_and_a_sum_of_two_neither() -> None:
    """The leverage is 1 for an unknown that is alone in a sum, and 1/2 for two that are always summed together."""
    basis = row_basis(np.array([[3.0, 0.0, 0.0, 0.0], [0.0, 2.0, 2.0, 0.0]]))
    assert leverages(basis) == pytest.approx([1, 0.5, 0.5, 0])
    assert exposed(basis).tolist() == [True, False, False, False]


def test_differences_of_sums_expose() -> None:
    """Two sums that differ in one term expose that term although none is alone in any."""
    matrix = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    solution = solver(matrix)
    assert solution.unknowns.tolist() == [2]
    assert solution.weights @ matrix == pytest.approx(np.array([[0.0, 0.0, 1.0]]))


def test_the_rank_is_relative_to_the_largest_singular_value() -> None:
    """Scaling all sums by 1e-9 changes no leverage, and a relative error of 1e-13 exposes nobody."""
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-13]])
    for scale in (1.0, 1e-9, 1e9):
        assert leverages(row_basis(scale * matrix)) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_nothing_asked_exposes_nothing(shape: tuple[int, int]) -> None:
    """Without sums or without unknowns nothing is determined."""
    solution = solver(np.zeros(shape))
    assert solution.weights.shape == (0, shape[0])
    assert not exposed(row_basis(np.zeros(shape))).any()


@given(st.integers(0, 10_000))
def test_determined_unknowns_are_the_same_in_all_solutions(seed: int) -> None:
    """What a solver reads is right; what it does not read differs between two solutions of the same equations."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((4, 6)) < 0.35).astype(np.float64)
    secret = rng.normal(size=(6, 3))
    solution = solver(matrix)
    assert solution.weights @ (matrix @ secret) == pytest.approx(secret[solution.unknowns], abs=1e-9)
    basis = row_basis(matrix)
    free = np.eye(6) - basis.T @ basis  # every change that no sum shows
    moved = np.abs(free).max(axis=1) > 1e-6
    assert np.flatnonzero(~moved).tolist() == solution.unknowns.tolist()
