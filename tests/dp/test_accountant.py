"""Accounting: figures of the literature, independent implementations, exact divergences."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from fgl_secure.dp import (
    GaussianAccount,
    SkellamAccount,
    analytic_multiplier,
    epsilon_spent,
    gaussian_delta,
    gaussian_epsilon,
    noise_multiplier,
    skellam_epsilon,
    skellam_rdp,
    skellam_variance,
)
from fgl_secure.errors import InputError
from tests.dp.test_mechanisms import gaussian_pmf, skellam_pmf
from tests.error_codes import about

DELTA = 1e-5
dp.enable_features("contrib")


@pytest.mark.parametrize(("epsilon", "sigma"), [(1, 3.731), (2, 1.994), (4, 1.081), (8, 0.600)])
def test_analytic_gaussian_mechanism(epsilon: float, sigma: float) -> None:
    """Sigma for sensitivity 1 at delta = 1e-5 (Balle and Wang 2018), well below sqrt(2 ln(1.25 / delta)) / eps."""
    assert analytic_multiplier(epsilon, DELTA) == pytest.approx(sigma, abs=6e-4)
    assert analytic_multiplier(epsilon, DELTA) < math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


def test_the_textbook_bound_understates_large_epsilon() -> None:
    """The broken twin: at sigma = .5 the textbook says 9.69 where the truth is 9.997."""
    textbook = math.sqrt(2 * math.log(1.25 / DELTA)) / 0.5
    assert textbook == pytest.approx(9.69, abs=0.005)
    assert gaussian_epsilon(0.5, DELTA) == pytest.approx(9.997, abs=5e-4)


@pytest.mark.parametrize(("sigma", "epsilon"), [(2.0, 1.993), (1.0, 4.377), (0.5, 9.997)])
def test_loss_distribution_of_one_release(sigma: float, epsilon: float) -> None:
    """Figures of one Gaussian release at delta = 1e-5, by privacy loss distribution."""
    assert epsilon_spent(sigma, 1, DELTA) == pytest.approx(epsilon, abs=6e-4)


@pytest.mark.parametrize(("multiplier", "releases"), [(1.0, 1), (3.0, 7), (20.0, 100)])
def test_releases_cost_what_dp_accounting_makes_of_them(multiplier: float, releases: int) -> None:
    """The closed form is what dp-accounting finds by convolving loss distributions on a grid, pessimistically."""
    library = privacy_loss_distribution.from_gaussian_mechanism(multiplier).self_compose(releases)
    assert epsilon_spent(multiplier, releases, DELTA) == pytest.approx(library.get_epsilon_for_delta(DELTA), rel=1e-6)


@given(st.floats(0.3, 20.0), st.floats(0.0, 6.0))
def test_delta_is_the_integral_of_the_hockey_stick(multiplier: float, epsilon: float) -> None:
    """delta = integral of max(p - e^eps q, 0) for unit sensitivity."""
    edge = multiplier**2 * epsilon + 0.5  # where p = e^eps q, seen from the nearer mean
    tail, _ = integrate.quad(
        lambda x: max(stats.norm.pdf(x, 1, multiplier) - math.exp(epsilon) * stats.norm.pdf(x, 0, multiplier), 0),
        edge, edge + 12 * multiplier,
    )  # fmt: skip
    assert gaussian_delta(multiplier, epsilon) == pytest.approx(tail, rel=1e-5, abs=1e-12)


@given(st.floats(0.01, 1000.0), st.sampled_from([1e-9, 1e-5, 0.1]))
def test_epsilon_and_multiplier_are_inverse(epsilon: float, delta: float) -> None:
    """Calibrating and accounting agree over five orders of magnitude."""
    assert gaussian_epsilon(analytic_multiplier(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "releases"), [(0.5, 1), (8.0, 1), (8.0, 100), (1.0, 2000)])
def test_calibrated_noise_stays_within_the_budget(epsilon: float, releases: int) -> None:
    """All releases cost at most epsilon, hardly less, and half a percent less noise would cost more."""
    multiplier = noise_multiplier(epsilon, DELTA, releases)
    assert epsilon * 0.999 < epsilon_spent(multiplier, releases, DELTA) <= epsilon
    assert epsilon_spent(multiplier * 0.995, releases, DELTA) > epsilon


def test_node_level_noise_of_hundred_releases() -> None:
    """(8, 1e-5) for 19 messages of norm C takes sigma = 2.6 C for one release and 26 C for a hundred."""
    assert noise_multiplier(8, DELTA, 1) * math.sqrt(19) == pytest.approx(2.6, abs=0.03)
    assert noise_multiplier(8, DELTA, 100) * math.sqrt(19) == pytest.approx(26, abs=0.3)


@pytest.mark.parametrize(("sigma", "figure"), [(2.0, 2.011), (1.0, 4.430), (0.5, 9.961)])
def test_narrow_discrete_gaussians_cost_something_else(sigma: float, figure: float) -> None:
    """At sensitivity 1 the discrete Gaussian's own epsilon is the known one, above or below the continuous."""
    ours = exact_epsilon(gaussian_pmf(sigma), 1, DELTA)
    assert ours == pytest.approx(figure, abs=2e-3)
    assert abs(ours - gaussian_epsilon(sigma, DELTA)) > 0.01


@pytest.mark.parametrize(("sigma", "shift"), [(16.0, 1), (16.0, 7), (16.0, 16), (16.0, 40), (200.0, 300)])
def test_wide_discrete_gaussians_cost_what_gaussians_do(sigma: float, shift: int) -> None:
    """From 16 grid units on, the smallest share allowed, epsilon is the continuous Gaussian's within one in 2000."""
    ours = exact_epsilon(gaussian_pmf(sigma), shift, DELTA)
    assert ours == pytest.approx(gaussian_epsilon(sigma / shift, DELTA), rel=5e-4)
    library = privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, shift)
    assert ours == pytest.approx(library.get_epsilon_for_delta(DELTA), rel=2e-3)


@pytest.mark.parametrize("sigma", [4.0, 50.0])
def test_opendp_agrees_on_the_discrete_gaussian(sigma: float) -> None:
    """OpenDP's integer Gaussian has the same zCDP, and its epsilon from it bounds ours from above, not by far."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=sigma)
    assert measurement.map(d_in=10.0) == pytest.approx((10 / sigma) ** 2 / 2, rel=1e-9)
    profile = dp.c.make_zCDP_to_approxDP(measurement).map(d_in=10.0)
    bound = profile.epsilon(delta=DELTA)
    assert gaussian_epsilon(sigma / 10, DELTA) <= bound <= 1.2 * gaussian_epsilon(sigma / 10, DELTA)
    assert exact_epsilon(gaussian_pmf(sigma), 10, DELTA) <= bound


@pytest.mark.parametrize(("variance", "shift"), [(9.0, 1), (9.0, 3), (100.0, 3), (0.5, 1)])
@pytest.mark.parametrize("order", [2, 3, 10, 40])
def test_skellam_bound_is_above_the_exact_divergence(variance: float, shift: int, order: int) -> None:
    """The published Renyi bound covers the exact divergence in one dimension, and is not vacuous at wide noise."""
    exact = exact_renyi(variance, shift, order)
    bound = skellam_rdp(variance, shift, shift, order)
    assert exact <= bound
    if variance == 100.0:
        assert bound < 1.6 * exact


@pytest.mark.parametrize(
    ("variance", "l2", "l1", "order", "expected"),
    [
        (2.0, 1.0, 1.0, 2, 0.5 + 9 / 16),  # a l2^2 / 2v, and ((2 a - 1) l2^2 + 6 l1) / 4 v^2
        (8.0, 2.0, 4.0, 3, 0.75 + 44 / 256),
        (1.0, 1.0, 1.0, 2, 1.0 + 1.5),  # where 3 l1 / 2v is less
        (1.0, 3.0, 9.0, 40, 180.0 + 13.5),
    ],
)
def test_skellam_noise_costs_what_the_theorem_says(
    variance: float, l2: float, l1: float, order: int, expected: float
) -> None:
    """Both branches of Theorem 3.5, worked out by hand: of many coordinates the exact cost isn't known."""
    assert skellam_rdp(variance, l2, l1, order) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [2, 3, 10])
def test_skellam_noise_that_is_too_narrow_breaks_the_bound(order: int) -> None:
    """The broken twin: the exact divergence of noise with half the variance exceeds what is accounted."""
    assert exact_renyi(50.0, 3, order) > skellam_rdp(100.0, 3, 3, order)


@pytest.mark.parametrize(("epsilon", "releases"), [(1.0, 1), (8.0, 50)])
def test_skellam_calibration(epsilon: float, releases: int) -> None:
    """The variance found meets the budget, and one release in one dimension truly costs no more."""
    l2 = 40.0
    variance = skellam_variance(epsilon, DELTA, releases, l2, l2)
    assert epsilon * 0.999 < skellam_epsilon(variance, l2, l2, releases, DELTA) <= epsilon
    assert exact_epsilon(skellam_pmf(variance), 40, DELTA) <= skellam_epsilon(variance, l2, l2, 1, DELTA)
    gaussian = noise_multiplier(epsilon, DELTA, releases) * l2
    assert gaussian < math.sqrt(variance) < 1.2 * gaussian


def test_accounts_count_nothing_for_no_release() -> None:
    """No release costs nothing, and each further release costs more."""
    for account in (GaussianAccount(3.0), SkellamAccount(900.0, 10.0, 30.0)):
        costs = [account.epsilon(n, DELTA) for n in (0, 1, 2, 8)]
        assert costs[0] == 0
        assert costs == sorted(set(costs))


@pytest.mark.parametrize(("epsilon", "delta", "releases", "named"), [
    (0.0, DELTA, 1, "epsilon"),
    (-1.0, DELTA, 1, "epsilon"),
    (math.inf, DELTA, 1, "epsilon"),
    (math.nan, DELTA, 1, "epsilon"),
    (1.0, 0.0, 1, "delta"),
    (1.0, 1.0, 1, "delta"),
    (1.0, DELTA, 0, "releases"),
])  # fmt: skip
def test_impossible_budgets_are_refused(epsilon: float, delta: float, releases: int, named: str) -> None:
    """A budget outside its range raises and names the argument, the rule and the value."""
    with pytest.raises(InputError, check=about(named)):
        noise_multiplier(epsilon, delta, releases)
    with pytest.raises(InputError, check=about(named)):
        skellam_variance(epsilon, delta, releases, 1.0, 1.0)


def exact_epsilon(pmf: np.ndarray, shift: int, delta: float) -> float:
    """Smallest epsilon of integer noise under a shift, by summing the hockey-stick divergence over all outcomes."""
    p, q = np.pad(pmf, (shift, 0)), np.pad(pmf, (0, shift))
    low, high = 0.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        missing = np.maximum(p - math.exp(middle) * q, 0).sum()
        low, high = (low, middle) if missing <= delta else (middle, high)
    return high


def exact_renyi(variance: float, shift: int, order: int) -> float:
    """Renyi divergence of Skellam noise under a shift, by summing over all outcomes that floats can hold."""
    x = np.arange(-200, 201)
    p, q = (special.ive(np.abs(x - s), variance) for s in (shift, 0))
    p, q = (np.log(weights[(p > 0) & (q > 0)]) for weights in (p, q))
    return float(np.logaddexp.reduce(order * p - (order - 1) * q) / (order - 1))
