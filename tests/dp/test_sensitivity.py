"""Clipping, grids, and how far one unit can move the sums."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import (
    Relation,
    Unit,
    clip_rows,
    grid_clip,
    grid_rows,
    rounded_at_random,
    rounded_norm,
    rounding_excess,
)
from fgl_secure.errors import InputError
from fgl_secure.typing import Ids
from tests.error_codes import about

ROWS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
                  elements=st.floats(-1e6, 1e6))  # fmt: skip
EDGE, MESSAGE = Relation(Unit.EDGE), Relation(Unit.MESSAGE)


@given(ROWS, st.floats(0.01, 100.0))
def test_clipped_rows_are_within_the_norm_and_short_rows_untouched(values: np.ndarray, clip: float) -> None:
    """Rows beyond the clip keep their direction at that norm, all others keep every bit, and the count is right."""
    clipped, norms = clip_rows(values, clip), np.linalg.norm(values, axis=1)
    assert (np.linalg.norm(clipped.rows, axis=1) <= clip * (1 + 1e-12)).all()
    inside = norms < clip * (1 - 1e-12)
    assert np.array_equal(clipped.rows[inside], values[inside])
    assert np.allclose(clipped.rows * np.maximum(norms, 1e-300)[:, None], values * np.minimum(norms, clip)[:, None])
    assert (norms > clip * (1 + 1e-12)).sum() <= clipped.count <= (norms >= clip * (1 - 1e-12)).sum()


def test_clipping_survives_the_ends_of_the_floats() -> None:
    """Rows whose squares overflow are clipped, rows whose squares vanish are kept, and NaN raises."""
    rows = clip_rows(np.array([[1e300, 1e300], [1e-300, 0.0], [0.0, 0.0]]), 1.0).rows
    assert np.allclose(rows, np.array([[math.sqrt(0.5)] * 2, [0, 0], [0, 0]]))
    assert rows[1, 0] == 1e-300
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, check=about("values")):
            clip_rows(np.array([[bad]]), 1.0)
    with pytest.raises(InputError, check=about("clip")):
        clip_rows(np.ones((1, 1)), 0.0)


@given(ROWS, st.floats(0.5, 100.0), st.integers(1, 12))
def test_integer_rows_keep_the_clip_exactly(values: np.ndarray, clip: float, bits: int) -> None:
    """In integer arithmetic no row is longer than the clip, and each coordinate is within a unit of its own."""
    limit = grid_clip(clip, bits)
    rows = grid_rows(values, clip, bits).rows
    assert all(sum(int(x) ** 2 for x in row) <= limit**2 for row in rows)
    exact = clip_rows(values, limit * 2.0**-bits).rows * 2.0**bits
    assert np.abs(rows - exact).max(initial=0) <= 1


def test_rounding_alone_breaks_the_clip() -> None:
    """The broken twin: rounding without the second clip exceeds the norm, by no more than sqrt(d) / 2 units."""
    d, bits = 64, 2
    row = np.full((1, d), 0.51 * 2.0**-bits)
    clip = float(np.linalg.norm(row))
    rounded = np.linalg.norm(np.rint(row * 2**bits))
    assert grid_clip(clip, bits) < rounded <= clip * 2**bits + rounding_excess(d)
    assert np.linalg.norm(grid_rows(row, clip, bits).rows) <= grid_clip(clip, bits)


@pytest.mark.parametrize(("clip", "bits"), [(0.1, 3), (2.0**20, 11), (math.inf, 0), (math.nan, 0)])
def test_grids_that_cannot_hold_the_clip_are_refused(clip: float, bits: int) -> None:
    """A clip below one unit or beyond 2^30 units raises with its figures."""
    with pytest.raises(InputError, check=about("clip * 2^fraction_bits")):
        grid_clip(clip, bits)


@given(st.data())
def test_no_unit_moves_the_sums_beyond_the_sensitivity(data: st.DataObject) -> None:
    """Leaving out the messages of any unit moves the vector of all sums by at most the stated L2 and L1 norms."""
    relation = data.draw(st.sampled_from([MESSAGE, EDGE, Relation(Unit.NODE, 3)]))
    targets = np.array(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=relation.messages, unique=True)))
    rows = data.draw(hnp.arrays(np.int64, (len(targets), 4), elements=st.integers(-3, 3)))
    clip = math.sqrt(max(int((rows**2).sum(axis=1).max()), 1))
    change = np.zeros((6, 4))
    np.add.at(change, targets, rows)
    l2 = relation.l2_sensitivity(clip)
    assert np.linalg.norm(change) <= l2 * (1 + 1e-12)
    assert np.abs(change).sum() <= relation.l1_sensitivity(l2, 4) * (1 + 1e-12)


def test_sensitivities_are_those_derived() -> None:
    """C for a message, sqrt(2) C for an edge, sqrt(B) C for a device; the largest change reaches each."""
    relations = (MESSAGE, EDGE, Relation(Unit.NODE, 19))
    assert [r.l2_sensitivity(2.0) / 2 for r in relations] == pytest.approx([1, math.sqrt(2), math.sqrt(19)])


@pytest.mark.parametrize(("senders", "targets", "found"), [
    ([0, 0, 0, 1], [0, 1, 2, 0], "messages of one device in one pass"),
    ([0, 0], [1, 1], "messages"),
])  # fmt: skip
def test_messages_that_the_noise_is_not_made_for_are_refused(senders: Ids, targets: Ids, found: str) -> None:
    """A sender beyond the cap, or two messages to one group, raise; nothing is dropped instead."""
    with pytest.raises(InputError, check=about(found)):
        Relation(Unit.NODE, 2).check(np.array(senders), np.array(targets))
    MESSAGE.check(np.array(senders), np.array(targets))


@pytest.mark.parametrize(("unit", "cap"), [(Unit.NODE, None), (Unit.NODE, 0), (Unit.EDGE, 3)])
def test_a_cap_belongs_to_devices(unit: Unit, cap: int | None) -> None:
    """The relation of devices needs a cap of at least one message, and no other relation takes one."""
    with pytest.raises(InputError, check=about("cap")):
        Relation(unit, cap)


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
