"""Sums of few rows, solved piece by piece, against the dense solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fgl_secure.attacks.row_space import Equations, determined, solver


def system(matrix: ArrayLike, rows: NDArray[np.float64]) -> Equations:
    """The sums of given rows."""
    dense = np.asarray(matrix, dtype=np.float64)
    return Equations(sparse.csr_array(dense), dense @ rows, np.full(len(dense), 1e-12))


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.1, 0.25, 0.5]))
def test_pieces_determine_what_the_whole_determines(seed: int, sums: int, unknowns: int, density: float) -> None:
    """Of any whole-numbered system the same unknowns are read as by one dense decomposition, and rightly."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 4, size=(sums, unknowns)) * (rng.random((sums, unknowns)) < density)
    rows = rng.normal(size=(unknowns, 3))
    found = determined(system(matrix, rows))
    assert found.nodes.tolist() == solver(matrix.astype(np.float64)).unknowns.tolist()
    assert found.values == pytest.approx(rows[found.nodes], abs=1e-6)
    assert (found.error > 0).all()


def test_unknowns_that_are_never_apart_stay_together() -> None:
    """Of x + y and z nothing tells x from y."""
    found = determined(system([[1, 1, 0], [2, 2, 1], [0, 0, 1]], np.eye(3)))
    assert found.nodes.tolist() == [2]


def test_substitution_goes_on_with_what_it_reads() -> None:
    """x, x + y and y + z + z give all three, and errors add up on the way."""
    found = determined(system([[1, 0, 0], [1, 1, 0], [0, 1, 2]], np.arange(6.0).reshape(3, 2)))
    assert found.nodes.tolist() == [0, 1, 2]
    assert found.values.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert found.error.tolist() == pytest.approx([1e-12, 2e-12, 1.5e-12])


def test_a_cycle_of_odd_length_is_solved_as_a_whole() -> None:
    """x + y, y + z and z + x give all three without any substitution; of four in a ring nothing is read."""
    rows = np.arange(8.0).reshape(4, 2)
    odd = determined(system([[1, 1, 0], [0, 1, 1], [1, 0, 1]], rows[:3]))
    even = determined(system([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], rows))
    assert odd.nodes.tolist() == [0, 1, 2]
    assert odd.values == pytest.approx(rows[:3])
    assert even.nodes.tolist() == []
