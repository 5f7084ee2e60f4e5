"""Rows on a grid, rounded at random: within the norm that is accounted for, and right on average."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import grid_clip, grid_rows, rounded_at_random, rounded_norm


@given(st.integers(1, 400), st.integers(0, 12), st.floats(1.0, 50.0), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_the_norm_is_never_beyond_what_is_accounted_for(
    width: int, bits: int, clip: float, length: float, seed: int
) -> None:
    """Whatever the vector, the grid and the coins, the rounded vector has the stated norm at most."""
    values = np.random.default_rng(seed).normal(size=width) * length
    limit = rounded_norm(clip, width, bits)
    rounded = rounded_at_random(values, clip, limit, bits, SimulationCoins(seed))
    assert grid_clip(clip, bits) <= limit
    assert int((rounded**2).sum()) <= limit**2


def test_numbers_below_the_grid_are_right_on_average() -> None:
    """A quarter of a unit becomes one unit in a quarter of the cases, where rounding to the nearest loses it all."""
    values = np.full(40_000, 0.25)
    clip = 60.0  # the vector's norm is 50
    rounded = rounded_at_random(values, clip, rounded_norm(clip, len(values), 0), 0, SimulationCoins(5))
    assert set(rounded.tolist()) == {0, 1}
    assert abs(rounded.mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / len(values))
    nearest = grid_rows(values[None], clip, 0).rows[0]  # the broken twin
    assert not abs(nearest.mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / len(values))


def test_numbers_on_the_grid_stay_and_long_vectors_are_clipped() -> None:
    """Multiples of the grid are not moved, and a vector beyond the clip keeps its direction."""
    coins = SimulationCoins(1)
    assert rounded_at_random(np.array([1.5, -2.0, 0.0]), 4.0, 99, 1, coins).tolist() == [3, -4, 0]
    clipped = rounded_at_random(np.array([300.0, -400.0]), 5.0, rounded_norm(5.0, 2, 10), 10, coins)
    assert clipped * 2.0**-10 == pytest.approx([3.0, -4.0], abs=2.0**-9)


def test_where_no_attempt_fits_the_vector_is_cut_towards_zero() -> None:
    """With a limit that random rounding cannot keep, the vector is cut, and within the clip all the same."""
    values = np.full(10_000, 0.01)  # norm 1: rounding to 100 ones has norm 10
    assert rounded_at_random(values, 1.0, 1, 0, SimulationCoins(3)).tolist() == [0] * 10_000


def test_the_norm_of_wide_vectors_on_coarse_grids_is_that_of_rounding() -> None:
    """On a fine grid the norm is the clip's; on a coarse one it is half the root of the width."""
    assert rounded_norm(1.0, 100, 20) <= 2**20 * 1.0001
    assert rounded_norm(1.0, 10**6, 0) == pytest.approx(500, rel=0.01)
    assert rounded_norm(4.0, 1, 0) == 4
