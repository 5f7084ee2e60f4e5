"""Coins of the kit: all tapes once each, independent batches, and a count of what a run draws."""

import itertools

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import InputError
from fgl_secure.testing import BatchCoins, CountingCoins, Tapes
from fgl_secure.testing.coins import CoinDraw, tape_count
from tests.error_codes import about


def test_tapes_of_one_range_are_tape_coins() -> None:
    """With one range for all coins the tapes are those of `TapeCoins`, in the same order."""
    ours, theirs = Tapes([CoinDraw(5, 2), CoinDraw(5, 1)]), TapeCoins(5, 3)
    assert ours.batch_shape == theirs.batch_shape
    for shape in ((2,), ()):
        assert np.array_equal(ours.uniform(5, shape), theirs.uniform(5, shape))
    assert ours.is_exhausted


def test_every_tape_of_mixed_ranges_occurs_once() -> None:
    """Coins below 2, 3 and 3 make eighteen tapes, each seen once, together or one by one."""
    draws = [CoinDraw(2, 1), CoinDraw(3, 2)]
    tapes = Tapes(draws)
    rows = np.concatenate([tapes.uniform(2, (1,)), tapes.uniform(3, (2,))], axis=1)
    assert sorted(map(tuple, rows.tolist())) == sorted(itertools.product(range(2), range(3), range(3)))
    for number in range(tape_count(draws)):
        one = Tapes(draws, number)
        assert [int(one.uniform(2, (1,))[0]), *one.uniform(3, (2,)).tolist()] == rows[number].tolist()


def test_draws_that_no_dry_run_made_are_refused() -> None:
    """A tape is as long as the dry run said."""
    tapes = Tapes([CoinDraw(5, 1)])
    with pytest.raises(InputError, check=about("draws")):
        tapes.uniform(5, (2,))
    tapes.uniform(5, (1,))
    with pytest.raises(InputError, check=about("draws")):
        tapes.uniform(5, (1,))


def test_counting_coins_note_every_draw() -> None:
    """The dry run returns zeros of the right shape and remembers ranges and counts in order."""
    coins = CountingCoins((1,))
    assert coins.uniform(7, (2, 3)).shape == (1, 2, 3)
    coins.uniform(2, ())
    assert coins.draws == [CoinDraw(7, 6), CoinDraw(2, 1)]


def test_batches_are_the_coins_of_many_runs() -> None:
    """A batch draws the source's coins with a leading axis, none of them twice."""
    batch = BatchCoins(SimulationCoins(1), 4)
    assert batch.batch_shape == (4,)
    drawn = np.concatenate([batch.uniform(2**31 - 1, (2, 3)).reshape(-1), batch.uniform(2**31 - 1, (2,)).reshape(-1)])
    assert np.array_equal(drawn[:24], SimulationCoins(1).uniform(2**31 - 1, (24,)))
    assert len(set(drawn.tolist())) == len(drawn)
    assert "SimulationCoins" in repr(batch)


def test_batches_of_batches_and_empty_batches_are_refused() -> None:
    """One leading axis is all that a channel carries."""
    with pytest.raises(InputError, check=about("source")):
        BatchCoins(TapeCoins(3, 1), 2)
    with pytest.raises(InputError, check=about("source")):
        BatchCoins(SimulationCoins(1), 0)
