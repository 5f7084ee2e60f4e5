"""Noise: what is drawn has the distribution that is accounted for."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import DiscreteGaussian, IntegerNoise, Skellam, sum_divergence
from fgl_secure.dp.mechanisms import NoiseTable, discrete_gaussian_table, skellam_table
from fgl_secure.errors import InputError
from tests.error_codes import about

ALPHA = 1e-6
SIGMAS = (0.4, 1.0, 4.0, 60.5, 1024.0)


def gaussian_pmf(sigma: float) -> NDArray[np.float64]:
    """The definition, term by term, on -k .. k."""
    k = np.arange(-math.ceil(12 * sigma) - 9, math.ceil(12 * sigma) + 10)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


def skellam_pmf(variance: float) -> NDArray[np.float64]:
    """As scipy has it, on -k .. k."""
    reach = math.ceil(12 * math.sqrt(variance)) + 9
    return np.asarray(stats.skellam.pmf(np.arange(-reach, reach + 1), variance / 2, variance / 2))


def table_pmf(table: NoiseTable) -> NDArray[np.float64]:
    """Probabilities of -largest .. largest, by integers."""
    steps = [0, *map(int, table.cumulative[: 2 * table.largest]), 2**63]
    return np.array([(b - a) / 2**63 for a, b in pairwise(steps)])


def centred(pmf: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The middle `size` entries, or all of them between zeros."""
    gap = (size - len(pmf)) // 2
    return np.pad(pmf, gap) if gap >= 0 else pmf[-gap:gap]


def chi_square(draws: NDArray[np.int64], pmf: NDArray[np.float64]) -> float:
    """p-value of draws against the pmf on -k .. k, in cells of at least 20 expected draws."""
    reach = len(pmf) // 2
    observed = np.bincount(draws + reach, minlength=len(pmf)).astype(float)
    cell = np.floor(np.cumsum(pmf) * min(len(draws) / 20, 200)).astype(int)
    seen, expected = (np.bincount(cell, weights=w) for w in (observed, pmf * len(draws)))
    kept = expected > 5
    seen = np.append(seen[kept], seen[~kept].sum())
    expected = np.append(expected[kept], max(len(draws) - expected[kept].sum(), 1e-9))
    last = expected[-1] < 5
    if last:
        seen, expected = np.append(seen[:-2], seen[-2:].sum()), np.append(expected[:-2], expected[-2:].sum())
    return float(stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_tables_hold_the_true_distributions(sigma: float) -> None:
    """Every probability of a table is the definition's, and the table ends where less than 2^-60 is left."""
    for table, pmf in ((discrete_gaussian_table(sigma), gaussian_pmf(sigma)),
                       (skellam_table(sigma**2), skellam_pmf(sigma**2))):  # fmt: skip
        ours = table_pmf(table)
        assert ours.sum() == pytest.approx(1, abs=1e-12)
        assert np.abs(ours - centred(pmf, len(ours))).max() < 1e-9 * ours.max()
        assert np.array_equal(ours, ours[::-1])
        assert table.total_variation < 2.0**-60 * max(4 * sigma, 8)


def test_total_variation_counts_what_is_cut() -> None:
    """The stated distance is the real one: half the sum of all differences, here for a width that has few terms."""
    ours = table_pmf(discrete_gaussian_table(0.5))
    tail = math.exp(-2 * (len(ours) // 2 + 1) ** 2)  # the first term beyond the table
    assert tail < discrete_gaussian_table(0.5).total_variation < len(ours) * 2.0**-63


@pytest.mark.parametrize("sigma", SIGMAS)
def test_draws_pass_chi_square(sigma: float) -> None:
    """200,000 draws fit the exact distribution, for both kinds."""
    coins = SimulationCoins(7)
    assert chi_square(DiscreteGaussian(sigma).sample(coins, (200_000,)), gaussian_pmf(sigma)) > ALPHA
    assert chi_square(Skellam(sigma**2).sample(coins, (200_000,)), skellam_pmf(sigma**2)) > ALPHA


def test_a_rounded_gaussian_fails_chi_square() -> None:
    """The broken twin: a continuous Gaussian rounded to integers is not a discrete Gaussian."""
    rounded = np.rint(np.random.default_rng(0).normal(0, 0.8, 200_000)).astype(np.int64)
    assert chi_square(rounded, gaussian_pmf(0.8)) < ALPHA


def test_skellam_shares_add_up_to_skellam() -> None:
    """Sums of 5 shares of variance 1.8 pass as Skellam of variance 9; as many narrow discrete Gaussians do not."""
    shares = Skellam(1.8).sample(SimulationCoins(1), (200_000, 5)).sum(axis=1)
    assert chi_square(shares, skellam_pmf(9.0)) > ALPHA
    narrow = DiscreteGaussian(0.35).sample(SimulationCoins(1), (200_000, 5)).sum(axis=1)
    assert chi_square(narrow, gaussian_pmf(0.35 * math.sqrt(5))) < ALPHA


@pytest.mark.parametrize("shares", [2, 3, 8])
@pytest.mark.parametrize("sigma", [0.5, 0.6, 0.8])
def test_sums_of_discrete_gaussians_stay_within_the_published_bound(sigma: float, shares: int) -> None:
    """The exact convolution differs from one discrete Gaussian by a factor within e^tau, and by one at all."""
    single = total = gaussian_pmf(sigma)
    for _ in range(shares - 1):
        total = np.convolve(total, single)
    whole = gaussian_pmf(sigma * math.sqrt(shares))
    reach = math.ceil(3 * sigma * math.sqrt(shares))
    ratio = np.log(centred(total, 2 * reach + 1) / centred(whole, 2 * reach + 1))
    assert 1e-9 < np.abs(ratio).max() <= sum_divergence(sigma, shares)


def test_one_share_differs_from_itself_by_nothing() -> None:
    """The bound is 0 for one share, negligible for wide ones, and unknown below 1/2."""
    assert sum_divergence(1.0, 1) == 0
    assert sum_divergence(4.0, 10_000) < 1e-60
    with pytest.raises(InputError, check=about("sigma")):
        sum_divergence(0.4, 2)


@pytest.mark.parametrize("noise", [DiscreteGaussian(3.0), Skellam(9.0)])
def test_noise_comes_from_the_coins_alone(noise: IntegerNoise) -> None:
    """Equal coins give equal noise, other coins other noise, in any shape and never beyond the largest."""
    first, again, other = (noise.sample(SimulationCoins(seed), (40, 25)) for seed in (1, 1, 2))
    assert first.shape == (40, 25)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.abs(first).max() <= noise.largest
    assert noise.sample(SimulationCoins(1), (0, 3)).shape == (0, 3)


class _Ends(Coins):
    """The least and the greatest coin."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return np.array([0, modulus - 1], dtype=np.int64).reshape(shape)


@given(st.floats(0.05, 200.0))
def test_extreme_coins_give_the_largest_noise(sigma: float) -> None:
    """The first and the last coin are mapped to the two ends of the table."""
    for noise in (DiscreteGaussian(sigma), Skellam(sigma**2)):
        assert noise.sample(_Ends(), (2,)).tolist() == [-noise.largest, noise.largest]


@given(st.floats(0.3, 50.0), st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_inversion_is_the_quantile(sigma: float, coins: list[int]) -> None:
    """A coin u gives the least x with u < 2^63 P[X <= x], as a plain search finds it."""
    table = discrete_gaussian_table(sigma)
    uniform = np.array(coins, dtype=np.int64)
    plain = np.searchsorted(table.cumulative, uniform.astype(np.uint64), side="right") - table.largest
    assert np.array_equal(table.invert(uniform), plain)


def test_the_search_takes_the_same_steps_for_every_value() -> None:
    """Tables are a power of two long and filled up, so that halving ends after equally many steps everywhere."""
    for sigma in SIGMAS:
        table = discrete_gaussian_table(sigma)
        assert len(table.cumulative).bit_count() == 1
        assert len(table.cumulative) > 2 * table.largest
        assert (table.cumulative[2 * table.largest :] == 2**63).all()


@pytest.mark.parametrize("sigma", [0.0, -1.0, 5000.0, math.nan, math.inf])
def test_widths_without_a_table_are_refused(sigma: float) -> None:
    """Sigma must be positive and at most 2^12 grid units."""
    with pytest.raises(InputError):
        DiscreteGaussian(sigma)
    with pytest.raises(InputError):
        Skellam(math.copysign(sigma**2, sigma))


def test_narrow_shares_are_not_accounted_as_gaussian() -> None:
    """Shares below 16 grid units are refused by the discrete Gaussian's account and accepted by Skellam's."""
    with pytest.raises(InputError, check=about("sigma of one share")):
        DiscreteGaussian(15.9).account(3, 10.0, 10.0)
    assert Skellam(15.9**2).account(3, 10.0, 10.0).epsilon(1, 1e-5) > 0


def multiples(noisy: NDArray[np.floating], value: float) -> float:
    """The share of outputs that cannot come from `value`: |y| < value / 2, yet no multiple of half its last place."""
    step = np.spacing(np.asarray(value, dtype=noisy.dtype)) / 2
    near = np.abs(noisy) < value / 2
    return float((near & (np.mod(noisy, step) != 0)).mean())


def test_outputs_lie_on_one_grid_whatever_the_value() -> None:
    """Last places tell 0 from 1 under float32 noise in more than a fifth of the outputs, and under ours in none.

    Mironov 2012; Haney et al. 2022; Jin et al. 2022.
    """
    bits, values = 10, (0.0, 1.0)
    rng = np.random.default_rng(3)
    noise = DiscreteGaussian(2.0**bits).sample(SimulationCoins(3), (100_000,))
    ours = [(round(v * 2**bits) + noise) * 2.0**-bits for v in values]
    floats = [np.float32(v) + rng.standard_normal(100_000).astype(np.float32) for v in values]
    assert [multiples(y, 1.0) for y in ours] == [0, 0]
    assert [np.mod(y, 2.0**-bits).any() for y in ours] == [False, False]
    assert multiples(floats[0], 1.0) > 0.2
    assert multiples(floats[1], 1.0) == 0
