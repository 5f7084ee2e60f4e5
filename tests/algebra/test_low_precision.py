"""Numbers at few bits: right on average, within a unit, and exact beside them what is whole."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra.quantization import LowPrecision, check_lengths, rounded_stochastically
from fgl_secure.coins import Coins, SimulationCoins, TapeCoins
from fgl_secure.errors import FieldRangeError, InputError
from tests.error_codes import about

Rounds = Callable[[NDArray[np.float64], Coins, int], NDArray[np.int64]]
TAPES = 16


def to_nearest(values: NDArray[np.float64], coins: Coins, steps: int) -> NDArray[np.int64]:
    """A broken twin: the nearest integer."""
    return np.rint(values + 0 * coins.uniform(steps, values.shape)).astype(np.int64)


def one_outcome_too_many(values: NDArray[np.float64], coins: Coins, steps: int) -> NDArray[np.int64]:
    """A broken twin: up once more often than it should."""
    low = np.floor(values)
    return low.astype(np.int64) + (coins.uniform(steps, values.shape) <= (values - low) * steps)


def coarse(values: NDArray[np.float64], coins: Coins, steps: int) -> NDArray[np.int64]:
    """A broken twin: by coins of four bits."""
    low = np.floor(values)
    return low.astype(np.int64) + (coins.uniform(steps, values.shape) % 16 < np.floor((values - low) * 16))


def exact_bias(rounds: Rounds, value: float) -> Fraction:
    """The mean of what a number is rounded to over all coins, less the number."""
    found = rounds(np.array([value]), TapeCoins(TAPES, 1), TAPES)
    return Fraction(int(found.sum()), TAPES) - Fraction(value)


def scores(rounds: Rounds, samples: int = 200_000) -> list[float]:
    """By how many standard errors the mean over many draws is off, for some numbers; at the resolution in use."""
    found = []
    for number, value in enumerate((0.3, -0.3, 1 / 3, 5.02, -7.98, 0.5)):
        drawn = rounds(np.full(samples, value), SimulationCoins(number), 2**53)
        share = value - np.floor(value)
        found.append(float((drawn - value).mean() / np.sqrt(share * (1 - share) / samples)))
    return found


@pytest.mark.parametrize("value", [k / TAPES for k in range(-40, 41)])
def test_rounding_is_right_on_average_over_all_coins(value: float) -> None:
    """Exactly so, and to one of the two integers beside a number."""
    assert exact_bias(rounded_stochastically, value) == 0
    found = rounded_stochastically(np.array([value]), TapeCoins(TAPES, 1), TAPES)
    assert set(found.ravel().tolist()) <= {int(np.floor(value)), int(np.ceil(value))}


@pytest.mark.parametrize("twin", [to_nearest, one_outcome_too_many])
def test_rounding_that_is_not_is_told_apart(twin: Rounds) -> None:
    """To the nearest integer, or by a coin that is a 16th off."""
    assert any(exact_bias(twin, k / TAPES) != 0 for k in range(TAPES))


def test_rounding_is_right_on_average_at_the_resolution_in_use() -> None:
    """Within 4.5 standard errors of 200,000 draws, which a coin of four bits and the nearest integer are not."""
    assert max(map(abs, scores(rounded_stochastically))) < 4.5
    assert max(map(abs, scores(coarse))) > 10
    assert max(abs(score) for score in scores(to_nearest)) > 10


@given(st.sampled_from([8, 16, 32]), st.data())
def test_sums_are_those_of_the_numbers_within_a_unit_each(bits: int, data: st.DataObject) -> None:
    """Of numbers in parts of different ranges, at their bounds too; integers are exact, entries within their bits."""
    bounds = tuple(data.draw(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=3)))
    lengths = tuple(data.draw(st.integers(0, 4)) for _ in bounds)
    whole, most, clients = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 2**50)), data.draw(st.integers(1, 5))
    numbers, coins = LowPrecision(bits, lengths, bounds, whole, most), SimulationCoins(0)
    part = st.floats(-1.0, 1.0)
    every = np.repeat(bounds, lengths)
    reals = np.array([[data.draw(part) for _ in every] for _ in range(clients)]).reshape(clients, -1) * every
    integers = np.array([[data.draw(st.integers(-most, most)) for _ in range(whole)] for _ in range(clients)])
    integers = integers.reshape(clients, whole).astype(np.int64)
    encoded = [numbers.round(*pair, coins) for pair in zip(reals, integers, strict=True)]
    vectors = np.stack([vector for vector, _ in encoded])
    assert vectors.shape == (clients, numbers.width)
    assert np.abs(vectors).max(initial=0) <= numbers.largest == 2 ** (bits - 1) - 1
    found, sums = numbers.split(vectors.sum(axis=0))
    units = np.repeat(numbers.units, lengths)
    assert (np.abs(found - reals.sum(axis=0)) <= clients * units * (1 + 1e-9)).all()
    assert np.array_equal(sums, integers.sum(axis=0))
    errors = np.stack([error for _, error in encoded]).sum(axis=0)
    np.testing.assert_allclose(found + errors, reals.sum(axis=0), rtol=1e-9, atol=1e-9 * every.max(initial=1.0))


def test_what_does_not_fit_is_refused() -> None:
    """Too large, not finite, of another length, or in parts that are none; no number is shown."""
    numbers, coins = LowPrecision(8, (2,), (1.0,), 1, 10), SimulationCoins(0)
    one = np.array([1])
    for reals, integers, error in (
        (np.array([np.nan, 0.0]), one, InputError),
        (np.array([0.0, 7.7]), one, FieldRangeError),
        (np.array([0.0, 0.0]), np.array([11]), FieldRangeError),
        (np.array([0.0]), one, InputError),
    ):
        with pytest.raises(error) as caught:
            numbers.round(reals, integers, coins)
        assert "7.7" not in str(caught.value)
    for bounds in ((0.0,), (np.inf,), (1e-320,), (1.0, 1.0)):
        with pytest.raises(InputError, check=about("bounds")):
            LowPrecision(8, (2,), bounds)
    with pytest.raises(InputError, check=about("parts")):
        check_lengths((1, 3), 5)
