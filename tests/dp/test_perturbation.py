"""Settings of noisy sums: calibrated, checked, and refused where they cannot be met."""

from __future__ import annotations

import math

import pytest

from fgl_secure.dp import (
    BudgetExhaustedError,
    DiscreteGaussian,
    DiscreteGaussianFamily,
    Family,
    Perturbation,
    PrivacyTarget,
    Relation,
    SkellamFamily,
    Unit,
)
from fgl_secure.errors import InputError

DELTA = 1e-5
MESSAGE, NODE = Relation(Unit.MESSAGE), Relation(Unit.NODE, 19)
FAMILIES = (DiscreteGaussianFamily(), SkellamFamily())


def target(epsilon: float = 8.0, relation: Relation = MESSAGE, releases: int = 1) -> PrivacyTarget:
    """A target at delta = 1e-5."""
    return PrivacyTarget(epsilon, DELTA, relation, releases)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("relation", "releases", "honest"), [
    (MESSAGE, 1, 1), (Relation(Unit.EDGE), 10, 3), (NODE, 100, 5),
])  # fmt: skip
def test_calibrated_settings_meet_their_target(family: Family, relation: Relation, releases: int, honest: int) -> None:
    """All releases cost at most epsilon and nearly that; shares fit their tables, and drawing them fits delta."""
    aim = target(4.0, relation, releases)
    settings = Perturbation.calibrated(aim, clip=2.0, width=16, honest=honest, family=family)
    assert 3.99 < settings.epsilon(honest) <= 4.0
    assert settings.noise.sigma <= 2**12
    assert settings.sampling_delta <= DELTA / 16
    assert settings.open_budget().affords(releases)


def test_a_sum_needs_all_its_shares() -> None:
    """Fewer shares than the noise is split over cost more: the broken twin of a dropped sender."""
    settings = Perturbation.calibrated(target(2.0), clip=1.0, width=8, honest=4)
    costs = [settings.epsilon(shares) for shares in (4, 3, 2, 1)]
    assert costs == sorted(costs)
    assert costs[0] <= 2.0 < costs[1]
    assert settings.account(1).epsilon(1, DELTA) > 1.5 * costs[0]


def test_noise_of_devices_with_many_messages() -> None:
    """(8, 1e-5) for 19 messages takes 2.6 C a coordinate once and 26 C a hundred times, whatever C."""
    for clip, releases, sigma in ((1.0, 1, 2.6), (3.0, 1, 2.6), (1.0, 100, 26.0)):
        settings = Perturbation.calibrated(target(8.0, NODE, releases), clip=clip, width=64, honest=3)
        assert settings.sigma / clip == pytest.approx(sigma, rel=0.03)
        assert settings.multiplier * math.sqrt(19) * settings.grid_clip * 2.0**-settings.fraction_bits == pytest.approx(
            settings.sigma
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_impossible_noise_says_so_with_its_figures(family: Family) -> None:
    """So many releases that the noise fits no table raise, naming the budget and the width that it would take."""
    with pytest.raises(InputError, match=r"epsilon=0\.1.*100000 releases.*found clip=1, whose shares need \d+"):
        Perturbation.calibrated(target(0.1, NODE, 100_000), clip=1.0, width=4, honest=1, family=family)


def test_settings_are_checked_against_their_target() -> None:
    """Noise below what the target needs raises when the settings are made, not when the sums are."""
    good = Perturbation.calibrated(target(), clip=1.0, width=4, honest=2)
    with pytest.raises(BudgetExhaustedError):
        Perturbation(good.target, 1.0, 4, good.fraction_bits, 2, DiscreteGaussian(good.noise.sigma * 0.9))
    with pytest.raises(BudgetExhaustedError):
        Perturbation(good.target, 1.0, 4, good.fraction_bits, 1, good.noise)


def test_tables_must_be_fine_enough_for_delta() -> None:
    """Where drawing from tables of 63 bits would eat up delta, settings are refused and calibration is coarser."""
    strict = PrivacyTarget(8.0, 1e-6, NODE, 100)
    with pytest.raises(InputError, match="tables of 63 bits"):
        Perturbation(strict, 0.01, 64, 14, 3, DiscreteGaussian(4096.0))
    coarse = Perturbation.calibrated(strict, clip=1.0, width=64, honest=3)
    assert coarse.sampling_delta <= 1e-6 / 16
    assert coarse.noise.sigma < 2**11
    with pytest.raises(InputError, match="tables of 63 bits"):
        Perturbation.calibrated(PrivacyTarget(8.0, 1e-9, NODE, 100), clip=1.0, width=64, honest=3)


@pytest.mark.parametrize(("width", "honest", "bits"), [(0, 1, 4), (1, 0, 4), (1, 1, -1), (1, 1, 41)])
def test_counts_outside_their_range_are_refused(width: int, honest: int, bits: int) -> None:
    """There must be a coordinate, a share, and a grid of 0 to 40 bits."""
    with pytest.raises(InputError):
        Perturbation(target(), 1.0, width, bits, honest, DiscreteGaussian(100.0))
