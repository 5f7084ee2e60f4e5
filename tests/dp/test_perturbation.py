"""Settings of noisy sums: calibrated, checked, and refused where they cannot be met."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.dp import (
    Budget,
    BudgetExhaustedError,
    DiscreteGaussian,
    IntegerNoise,
    Perturbation,
    PrivacyTarget,
    Relation,
    Skellam,
    TabulatedNoise,
    Unit,
    gaussian_delta,
    gaussian_epsilon,
    noise_multiplier,
)
from fgl_secure.dp.accountant import GaussianAccount, SkellamAccount
from fgl_secure.dp.perturbation import GRID_PART, RESERVED, TABLE_PART
from fgl_secure.errors import InputError
from tests.error_codes import about

DELTA = 1e-5
MESSAGE, NODE = Relation(Unit.MESSAGE), Relation(Unit.NODE, 19)
FAMILIES = (DiscreteGaussian, Skellam)


def target(epsilon: float = 8.0, relation: Relation = MESSAGE, releases: int = 1) -> PrivacyTarget:
    """A target at delta = 1e-5."""
    return PrivacyTarget(epsilon, DELTA, relation, releases)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("relation", "releases", "honest"), [
    (MESSAGE, 1, 1), (Relation(Unit.EDGE), 10, 3), (NODE, 100, 5),
])  # fmt: skip
def test_calibrated_settings_meet_their_target(
    family: type[TabulatedNoise], relation: Relation, releases: int, honest: int
) -> None:
    """All releases cost at most epsilon and nearly that; shares fit their tables, and drawing them fits delta."""
    aim = target(4.0, relation, releases)
    settings = Perturbation.calibrate(aim, clip=2.0, width=16, honest=honest, family=family)
    assert 3.99 < settings.epsilon(honest) <= 4.0
    assert settings.noise.sigma <= 2**12
    assert settings.sampling_delta <= DELTA / 16
    assert settings.open_budget().affords(releases)


def test_a_sum_needs_all_its_shares() -> None:
    """Fewer shares than the noise is split over cost more: the broken twin of a dropped sender."""
    settings = Perturbation.calibrate(target(2.0), clip=1.0, width=8, honest=4)
    costs = [settings.epsilon(shares) for shares in (4, 3, 2, 1)]
    assert costs == sorted(costs)
    assert costs[0] <= 2.0 < costs[1]
    assert settings.account(1).epsilon(1, DELTA) > 1.5 * costs[0]


def test_every_share_pays_for_its_table() -> None:
    """As many shares as are in a sum are drawn from tables, and each draw costs a part of delta."""
    aim, noise = target(4.0, Relation(Unit.EDGE), 10), DiscreteGaussian(1000.0)
    costs = [Perturbation(aim, 2.0, 16, 4, shares, noise).sampling_delta for shares in (1, 3)]
    assert costs[1] == pytest.approx(3 * costs[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_impossible_noise_says_so_with_its_figures(family: type[TabulatedNoise]) -> None:
    """So many releases that the noise fits no table raise, naming the budget and the width that it would take."""
    with pytest.raises(InputError):
        Perturbation.calibrate(target(0.1, NODE, 100_000), clip=1.0, width=4, honest=1, family=family)


def test_settings_are_checked_against_their_target() -> None:
    """Noise below what the target needs raises when the settings are made, not when the sums are."""
    good = Perturbation.calibrate(target(), clip=1.0, width=4, honest=2)
    with pytest.raises(BudgetExhaustedError):
        Perturbation(good.target, 1.0, 4, good.fraction_bits, 2, DiscreteGaussian(good.noise.sigma * 0.9))
    with pytest.raises(BudgetExhaustedError):
        Perturbation(good.target, 1.0, 4, good.fraction_bits, 1, good.noise)


def test_tables_must_be_fine_enough_for_delta() -> None:
    """Where drawing from tables of 63 bits would eat up delta, settings are refused and calibration is coarser."""
    strict = PrivacyTarget(8.0, 1e-6, NODE, 100)
    with pytest.raises(InputError, check=about("fraction_bits")):
        Perturbation(strict, 0.01, 64, 14, 3, DiscreteGaussian(4096.0))
    coarse = Perturbation.calibrate(strict, clip=1.0, width=64, honest=3)
    assert coarse.sampling_delta <= 1e-6 / 16
    assert coarse.noise.sigma < 2**11
    with pytest.raises(InputError):
        Perturbation.calibrate(PrivacyTarget(8.0, 1e-9, NODE, 100), clip=1.0, width=64, honest=3)


@pytest.mark.parametrize(("width", "honest", "bits"), [(0, 1, 4), (1, 0, 4), (1, 1, -1), (1, 1, 41)])
def test_counts_outside_their_range_are_refused(width: int, honest: int, bits: int) -> None:
    """There must be a coordinate, a share, and a grid of 0 to 40 bits."""
    with pytest.raises(InputError):
        Perturbation(target(), 1.0, width, bits, honest, DiscreteGaussian(100.0))


def exact_delta(noise: IntegerNoise, shift: int, epsilon: float) -> float:
    """Delta of one release of one coordinate under this noise, by its definition, from the table that is drawn from."""
    pmf = np.diff(np.append(0, table_pmf_steps(noise)))
    padded = np.pad(pmf, shift)
    return float(np.clip(padded - math.exp(epsilon) * np.roll(padded, shift), 0, None).sum())


def table_pmf_steps(noise: IntegerNoise) -> NDArray[np.float64]:
    """The distribution function on -largest .. largest."""
    table: Any = noise
    steps = np.array([int(c) / 2**63 for c in table._table.cumulative[: 2 * noise.largest]])
    return np.append(steps, 1.0)


SHIFTS = (3, 9, 16, 20, 27, 32, 41)


@pytest.mark.parametrize("noise", [DiscreteGaussian(16.0), Skellam(256.0)], ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-7])
def test_what_is_accounted_for_covers_the_grid(noise: IntegerNoise, delta: float) -> None:
    """At the accounted epsilon the delta of the noise, worked out exactly, leaves what tables are paid from."""
    released = delta * (1 - RESERVED)
    for shift in SHIFTS:
        epsilon = noise.account(1, shift, shift).epsilon(1, released)
        assert exact_delta(noise, shift, epsilon) <= delta * (1 - TABLE_PART)


def test_a_discrete_gaussian_is_not_quite_the_continuous_one() -> None:
    """The reserve is needed, and is enough: delta is more than the continuous Gaussian's, by up to a part in 80."""
    ratios = [
        exact_delta(DiscreteGaussian(16.0), shift, epsilon) / gaussian_delta(16 / shift, epsilon)
        for shift in SHIFTS
        for epsilon in (gaussian_epsilon(16 / shift, 1e-6) + step * shift / 256 for step in (0, 0.25, 0.5, 0.75))
    ]
    assert 1.005 < max(ratios) < 1 + GRID_PART / (1 - RESERVED)
    coarse = [exact_delta(DiscreteGaussian(6.0), 16, e) / gaussian_delta(6 / 16, e) for e in np.linspace(15, 15.5, 8)]
    assert max(coarse) > 1 + GRID_PART / (1 - RESERVED)  # what `SMALLEST_GAUSSIAN_SHARE` is for


@pytest.mark.parametrize("family", FAMILIES)
def test_replacing_a_row_costs_more_than_leaving_it_out(family: type[TabulatedNoise]) -> None:
    """Epsilon 4 for a row that is present or zero is about 9 for one that is another, the cost of twice the norm."""
    settings = Perturbation.calibrate(target(4.0), clip=1.0, width=30, honest=4, family=family)
    replaced = settings.replacing_epsilon(4)
    assert 8.9 < replaced < 9.6
    if isinstance(settings.noise, DiscreteGaussian):
        assert replaced == pytest.approx(gaussian_epsilon(settings.multiplier / 2, DELTA * (1 - RESERVED)), rel=1e-3)
    assert settings.replacing_epsilon(8) < replaced


@pytest.mark.parametrize(
    "relation", [MESSAGE, NODE, Relation(Unit.EDGE), Relation(Unit.CLIENT)], ids=lambda relation: relation.unit
)
def test_wherever_an_epsilon_is_printed_the_relation_is(relation: Relation) -> None:
    """Targets, budgets and noise say what neighbouring inputs differ in, and that it is there or all zero."""
    aim = target(4.0, relation)
    settings = Perturbation.calibrate(aim, clip=1.0, width=4, honest=2)
    for said in (str(aim), repr(settings.open_budget())):
        assert f"epsilon=4, delta=1e-05 of {relation.unit}" in said
        assert "present or all zero" in said


EDGE = Relation(Unit.EDGE)
TARGET = PrivacyTarget(4.0, DELTA, EDGE, 5)
ACCOUNT = GaussianAccount(noise_multiplier(4.0, DELTA, 5))


@given(st.lists(st.integers(0, 3), max_size=8))
def test_spending_beyond_the_budget_changes_nothing(asked: list[int]) -> None:
    """Releases are counted while they fit; the first that does not raises and leaves the count as it was."""
    budget, counted = Budget(TARGET, ACCOUNT), 0
    for releases in asked:
        if counted + releases <= 5:
            assert budget.affords(releases)
            budget.spend(releases)
            counted += releases
        else:
            assert not budget.affords(releases)
            with pytest.raises(BudgetExhaustedError, check=about("releases")):
                budget.spend(releases)
        assert budget.spent_releases == counted
    assert budget.epsilon_spent <= TARGET.epsilon
    assert (budget.epsilon_spent == 0) == (counted == 0)


def test_noise_that_does_not_last_is_refused_at_once() -> None:
    """A budget whose releases would cost more than its epsilon raises when it is made, for either kind of noise."""
    for account in (GaussianAccount(ACCOUNT.multiplier * 0.99), SkellamAccount(100.0, 10.0, 10.0)):
        with pytest.raises(BudgetExhaustedError, check=about("noise")):
            Budget(TARGET, account)


def test_exhausted_budgets_are_input_errors() -> None:
    """Whoever catches InputError catches an exhausted budget as well."""
    assert issubclass(BudgetExhaustedError, InputError)


def test_negative_releases_are_refused() -> None:
    """A budget cannot be refilled."""
    with pytest.raises(InputError, check=about("releases")):
        Budget(TARGET, ACCOUNT).spend(-1)


@pytest.mark.parametrize(("epsilon", "delta", "releases"), [
    (0.0, DELTA, 1), (1.0, 0.0, 1), (1.0, 1.5, 1), (1.0, DELTA, 0),
])  # fmt: skip
def test_targets_outside_their_range_are_refused(epsilon: float, delta: float, releases: int) -> None:
    """Epsilon must be positive, delta inside (0, 1), and there must be a release."""
    with pytest.raises(InputError):
        PrivacyTarget(epsilon, delta, EDGE, releases)
