"""What noise costs in epsilon: one release, and many that build on each other.

scipy's statistics and dp-accounting are loaded when the first of it is asked for: who adds no noise needs neither.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fgl_secure.errors import InputError

_ORDERS = (*range(2, 257), 320, 384, 512, 768, 1024, 2048, 4096)


def check_budget(epsilon: float, delta: float, releases: int = 1) -> None:
    """Raises unless epsilon is positive and finite, delta inside (0, 1) and releases at least 1."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"epsilon must be a positive number; found {epsilon}")
    _check_delta(delta)
    _check_releases(releases)


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """The smallest delta of one Gaussian release, exact.

    Phi(1 / 2z - eps z) - e^eps Phi(-1 / 2z - eps z) for z = sigma / sensitivity (Balle and Wang 2018, Theorem 8).

    Args:
        multiplier: sigma over the L2 sensitivity.
        epsilon: 0 or more.
    """
    from scipy.stats import norm  # noqa: PLC0415  # see above

    _check_multiplier(multiplier)
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    first = norm.logcdf(half - shift)
    second = epsilon + norm.logcdf(-half - shift)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """The smallest epsilon of one Gaussian release at delta: the inverse of `gaussian_delta`, 0 where it is none."""
    from scipy.optimize import brentq  # noqa: PLC0415  # see above

    _check_delta(delta)
    if gaussian_delta(multiplier, 0.0) <= delta:
        return 0.0
    mu = 1 / multiplier
    high = mu * mu / 2 + mu * (2 + math.sqrt(2 * math.log(1 / delta)))  # P[loss > high] < delta
    return float(brentq(lambda eps: gaussian_delta(multiplier, eps) - delta, 0.0, high, rtol=1e-12))


@lru_cache(maxsize=4096)
def analytic_multiplier(epsilon: float, delta: float) -> float:
    """Sigma over sensitivity for one Gaussian release (the analytic Gaussian mechanism, Balle and Wang 2018)."""
    from scipy.optimize import brentq  # noqa: PLC0415  # see above

    check_budget(epsilon, delta)
    low, high = 1.0, 1.0
    while gaussian_delta(low, epsilon) <= delta:
        low /= 2
    while gaussian_delta(high, epsilon) > delta:
        high *= 2
    return float(brentq(lambda z: gaussian_delta(z, epsilon) - delta, low, high, rtol=1e-12))


def epsilon_spent(multiplier: float, releases: int, delta: float) -> float:
    """Epsilon of adaptive Gaussian releases: of their privacy loss distribution, which is one Gaussian's, exact.

    Together they cost what one release with sqrt(releases) times less noise does (Dong, Roth, Su 2022, Corollary 3.3).

    Args:
        multiplier: sigma over the L2 sensitivity, of each release.
        releases: how many: rounds x layers x directions.
        delta: inside (0, 1).
    """
    _check_multiplier(multiplier)
    _check_releases(releases)
    return gaussian_epsilon(multiplier / math.sqrt(releases), delta)


def noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Sigma over sensitivity of each release, so that all of them cost at most epsilon at delta."""
    check_budget(epsilon, delta, releases)
    return analytic_multiplier(epsilon, delta) * math.sqrt(releases) * (1 + 1e-9)  # beyond what a root is found within


def skellam_rdp(variance: float, l2: float, l1: float, order: int) -> float:
    """Renyi divergence of one release with Skellam noise on integers, at an integer order above 1.

    a l2^2 / 2v + min(((2 a - 1) l2^2 + 6 l1) / 4 v^2, 3 l1 / 2v) for variance v and order a
    (Agarwal, Kairouz, Liu 2021, Theorem 3.5).
    """
    gaussian = order * l2 * l2 / (2 * variance)
    excess = ((2 * order - 1) * l2 * l2 + 6 * l1) / (4 * variance * variance)
    return gaussian + min(excess, 3 * l1 / (2 * variance))


@lru_cache(maxsize=4096)
def skellam_epsilon(variance: float, l2: float, l1: float, releases: int, delta: float) -> float:
    """Epsilon of adaptive Skellam releases by their Renyi divergences, converted by dp-accounting.

    Args:
        variance: of the noise of each coordinate, in squared grid units.
        l2: L2 sensitivity of one release in grid units.
        l1: L1 sensitivity of one release in grid units.
        releases: how many.
        delta: inside (0, 1).
    """
    from dp_accounting import rdp  # noqa: PLC0415  # see above

    _check_delta(delta)
    _check_releases(releases)
    if not variance > 0:
        raise InputError(f"variance must be positive; found {variance}")
    divergences = [releases * skellam_rdp(variance, l2, l1, order) for order in _ORDERS]
    epsilon, _ = rdp.compute_epsilon(_ORDERS, np.array(divergences), delta)
    return float(epsilon)


@lru_cache(maxsize=1024)
def skellam_variance(epsilon: float, delta: float, releases: int, l2: float, l1: float) -> float:
    """Variance in squared grid units with which all releases cost at most epsilon at delta, within one in 10^6."""
    check_budget(epsilon, delta, releases)
    high = l2 * l2
    while skellam_epsilon(high, l2, l1, releases, delta) > epsilon:
        high *= 2
        if high > 2.0**200:
            raise InputError(f"epsilon must be within reach of the Renyi bound at delta={delta:g}; found {epsilon:g}")
    low = high
    while skellam_epsilon(low, l2, l1, releases, delta) <= epsilon:
        low /= 2
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        affordable = skellam_epsilon(middle, l2, l1, releases, delta) <= epsilon
        low, high = (low, middle) if affordable else (middle, high)
    return high


class Account(ABC):
    """The cost of one kind of release, as often as it is made."""

    @abstractmethod
    def epsilon(self, releases: int, delta: float) -> float:
        """Epsilon of that many releases at delta; 0 for none."""


@dataclass(frozen=True, slots=True)
class GaussianAccount(Account):
    """Gaussian releases.

    Attributes:
        multiplier: sigma over the L2 sensitivity.
        excess: epsilon that each release costs on top, because its noise is not quite Gaussian.
    """

    multiplier: float
    excess: float = 0.0

    def epsilon(self, releases: int, delta: float) -> float:
        """By their privacy loss distribution."""
        return epsilon_spent(self.multiplier, releases, delta) + self.excess * releases if releases else 0.0


@dataclass(frozen=True, slots=True)
class SkellamAccount(Account):
    """Skellam releases.

    Attributes:
        variance: of the noise, in squared grid units.
        l2: L2 sensitivity in grid units.
        l1: L1 sensitivity in grid units.
    """

    variance: float
    l2: float
    l1: float

    def epsilon(self, releases: int, delta: float) -> float:
        """By Renyi divergences."""
        return skellam_epsilon(self.variance, self.l2, self.l1, releases, delta) if releases else 0.0


def _check_multiplier(multiplier: float) -> None:
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise InputError(f"multiplier must be a positive number; found {multiplier}")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InputError(f"delta must be inside (0, 1); found {delta}")


def _check_releases(releases: int) -> None:
    if releases < 1:
        raise InputError(f"releases must be at least 1; found {releases}")
