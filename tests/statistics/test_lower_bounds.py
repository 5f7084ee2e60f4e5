"""Lower bounds on epsilon: tight where they can be, and below the truth as often as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from fgl_secure.dp import gaussian_epsilon
from fgl_secure.errors import InputError
from fgl_secure.statistics.lower_bounds import EpsilonLowerBound, Scores, classic_bound, gaussian_bound, one_run_bound
from tests.error_codes import about

DELTA = 1e-5
SIGMA = {1: 3.731, 2: 1.994, 4: 1.081, 8: 0.600}
GAUSSIAN = {(1, 1000): 0.40, (2, 1000): 1.32, (4, 250): 2.29, (4, 1000): 3.22, (8, 1000): 7.01, (4, 10_000): 3.75}


def scores(sigma: float, n: int, rng: np.random.Generator) -> tuple[Scores, Scores]:
    """Scores of n counted and n choosing runs of each input, for the Gaussian mechanism of sensitivity 1."""
    return 1 + rng.normal(0, sigma, 2 * n), rng.normal(0, sigma, 2 * n)


@pytest.mark.parametrize(("epsilon", "n"), GAUSSIAN)
def test_gaussian_bounds_reach_the_known_figures(epsilon: int, n: int) -> None:
    """Mean bound of 20 audits of the analytic Gaussian mechanism; for epsilon = 4 and n = 1000 about 3.2."""
    rng = np.random.default_rng(0)
    bounds = [gaussian_bound(*scores(SIGMA[epsilon], n, rng), delta=DELTA).epsilon for _ in range(20)]
    assert np.mean(bounds) == pytest.approx(GAUSSIAN[epsilon, n], abs=0.3 if n < 1000 else 0.16)


@pytest.mark.parametrize(("epsilon", "figure"), [(1, 0.08), (2, 0.50), (4, 1.26), (8, 2.49)])
def test_classic_bounds_reach_the_known_figures(epsilon: int, figure: float) -> None:
    """Mean classic bound of 20 audits with n = 1000: far below the truth, as it rests on rates alone."""
    rng = np.random.default_rng(1)
    bounds = [classic_bound(*scores(SIGMA[epsilon], 1000, rng), delta=DELTA).epsilon for _ in range(20)]
    assert np.mean(bounds) == pytest.approx(figure, abs=0.35)


@pytest.mark.parametrize(("n", "most"), [(100, 3.28), (200, 3.98), (500, 4.91), (1000, 5.60), (10_000, 7.90)])
def test_a_perfect_attack_proves_no_more_than_its_runs_allow(n: int, most: float) -> None:
    """Scores that tell the inputs apart without error give the known ceiling of the classic bound at 95 %."""
    bound = classic_bound(np.ones(2 * n), np.zeros(2 * n), delta=0.0)
    assert bound.epsilon == pytest.approx(most, abs=0.006)
    assert bound.n == n


@pytest.mark.parametrize("bound", [classic_bound, gaussian_bound])
def test_the_truth_is_violated_no_more_often_than_stated(bound: object) -> None:
    """Of 300 audits of a mechanism with epsilon = 2 at most 5 %, with slack for chance, exceed it."""
    assert callable(bound)
    rng = np.random.default_rng(2)
    found = [bound(*scores(SIGMA[2], 250, rng), delta=DELTA).epsilon for _ in range(300)]
    assert sum(value > 2.0 for value in found) <= 25  # P[binomial(300, .05) > 25] < .5 %


@pytest.mark.parametrize("bound", [classic_bound, gaussian_bound])
def test_scores_without_information_prove_nothing(bound: object) -> None:
    """The null control: equal distributions give bounds of almost always 0."""
    assert callable(bound)
    rng = np.random.default_rng(3)
    found = [bound(rng.normal(size=500), rng.normal(size=500), delta=DELTA).epsilon for _ in range(40)]
    assert sum(value > 0 for value in found) <= 6


def test_rates_without_intervals_would_violate_the_truth() -> None:
    """The broken twin: the same conversion of plain rates exceeds the truth in about half of all audits."""
    rng, found = np.random.default_rng(4), []
    for _ in range(100):
        present, absent = scores(SIGMA[2], 250, rng)
        mu = stats.norm.ppf((present[250:] >= 0.5).mean()) - stats.norm.ppf((absent[250:] >= 0.5).mean())
        found.append(gaussian_epsilon(1 / float(mu), DELTA))
    assert sum(value > 2.0 for value in found) > 30


def test_the_opposite_decision_counts_too() -> None:
    """Absent runs that are recognised with certainty prove as much as present ones (both directions of the bound)."""
    rng = np.random.default_rng(5)
    half = rng.random(2000) < 0.5
    sure_when_low = classic_bound(np.ones(2000), half.astype(float), delta=0.0).epsilon
    sure_when_high = classic_bound(half.astype(float), np.zeros(2000), delta=0.0).epsilon
    assert sure_when_low > 4
    assert sure_when_high > 4


@pytest.mark.parametrize(("present", "absent"), [([1.0], [0.0]), ([1.0, 2.0], [0.0]), ([1.0, math.nan], [0.0, 0.0])])
def test_scores_that_cannot_be_split_are_refused(present: list[float], absent: list[float]) -> None:
    """Scores must be finite, equally many, and enough for two halves."""
    with pytest.raises(InputError):
        classic_bound(np.array(present), np.array(absent), delta=DELTA)


def test_a_bound_states_its_terms() -> None:
    """A bound is a record of method, figure, size, confidence and delta; levels outside their range raise."""
    bound = classic_bound(np.ones(20), np.zeros(20), delta=DELTA, confidence=0.9)
    assert isinstance(bound, EpsilonLowerBound)
    assert (bound.n, bound.confidence, bound.delta) == (10, 0.9, DELTA)
    for delta, confidence in ((-0.1, 0.95), (1.0, 0.95), (DELTA, 1.0)):
        with pytest.raises(InputError):
            classic_bound(np.ones(20), np.zeros(20), delta=delta, confidence=confidence)
    with pytest.raises(InputError, check=about("delta")):
        gaussian_bound(np.ones(20), np.zeros(20), delta=0.0)


@pytest.mark.parametrize(("m", "share", "most"), [(1000, 1.0, 5.78), (1000, 0.1, 3.47), (10_000, 0.1, 5.53)])
def test_right_guesses_of_one_run_prove_no_more_than_their_number_allows(m: int, share: float, most: float) -> None:
    """The ceiling of Steinke et al. at delta 1e-5, when every guess is right."""
    included = np.arange(m) % 2 == 0
    bound = one_run_bound(included.astype(np.float64), included, delta=1e-5, share=share)
    assert bound.epsilon == pytest.approx(most, abs=0.01)


@pytest.mark.parametrize(("epsilon", "figure"), [(1, 0.18), (2, 0.58), (4, 1.34), (8, 2.57)])
def test_one_run_bounds_reach_the_known_figures(epsilon: int, figure: float) -> None:
    """Mean of 40 runs with 1,000 orthogonal canaries; and of equal scores nothing is concluded."""
    rng, found = np.random.default_rng(5), []
    for _ in range(40):
        included = rng.random(1000) < 0.5
        found.append(one_run_bound(included + rng.normal(0, SIGMA[epsilon], 1000), included, delta=DELTA).epsilon)
    assert np.mean(found) == pytest.approx(figure, abs=0.25)
    assert max(found) < epsilon
    assert one_run_bound(rng.normal(size=1000), included, delta=DELTA).epsilon < 0.8


@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_a_run_without_guesses_is_refused(share: float) -> None:
    with pytest.raises(InputError, check=about("share")):
        one_run_bound(np.zeros(100), np.zeros(100, dtype=np.bool_), delta=DELTA, share=share)
