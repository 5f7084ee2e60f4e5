"""Integer noise, drawn from `Coins` and from nothing else, by inverting tables of its distribution.

The weights are worked out with 60 decimal digits and the distribution function is cut to 63 bits, so the table's
distribution is known exactly; its total variation from the true one is part of the table.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.dp.accountant import Account, GaussianAccount, SkellamAccount, noise_multiplier, skellam_variance
from fgl_secure.errors import InputError
from fgl_secure.threads import njit

UNIFORM_BITS = 63
_CONTEXT = decimal.Context(prec=60)
_SCALE = 2**UNIFORM_BITS


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """A symmetric distribution on -largest .. largest, with probabilities that are multiples of 2^-63.

    Attributes:
        cumulative: uint64 [2^k], 2^63 times P[X <= -largest + j] at j, then 2^63 where nothing follows.
        largest: largest magnitude that is ever drawn.
        total_variation: distance from the distribution that the table stands for, its cut tails included.
    """

    cumulative: NDArray[np.uint64]
    largest: int
    total_variation: float

    def invert(self, uniform: NDArray[np.int64]) -> NDArray[np.int64]:
        """Maps elements uniform on 0 .. 2^63 - 1 to noise of the same shape, in the same steps for every element."""
        out = np.empty(uniform.size, dtype=np.int64)
        _count_below(np.ascontiguousarray(uniform).ravel(), self.cumulative, out)
        return out.reshape(uniform.shape) - self.largest


@lru_cache(maxsize=32)
def discrete_gaussian_table(sigma: float) -> NoiseTable:
    """The table of P[X = x] proportional to exp(-x^2 / (2 sigma^2)) (Canonne, Kamath, Steinke 2020, Def. 1)."""
    with decimal.localcontext(_CONTEXT):
        exponent = 1 / (2 * Decimal(sigma) ** 2)
        weight, ratio, step = Decimal(1), (-exponent).exp(), (-2 * exponent).exp()
        weights = []
        for _ in range(_reach(sigma) + 1):
            weights.append(weight)
            weight, ratio = weight * ratio, ratio * step
        return _table(weights)


@lru_cache(maxsize=32)
def skellam_table(variance: float) -> NoiseTable:
    """The table of the difference of two Poisson variables of mean variance / 2 each.

    P[X = x] is proportional to the Bessel function I_|x|(variance). The recurrence I_(k-1) = I_(k+1) + 2 k I_k / z is
    stable downwards and may start from any values far beyond the support (Miller's algorithm).
    """
    with decimal.localcontext(_CONTEXT):
        z, above, current = Decimal(variance), Decimal(0), Decimal(1)
        downwards = [current]
        for k in range(_reach(math.sqrt(variance)), 0, -1):
            above, current = current, above + 2 * k / z * current
            downwards.append(current)
        return _table(downwards[::-1])


def _reach(deviation: float) -> int:
    """Beyond this magnitude less than 10^-40 of the probability lies."""
    return math.ceil(14 * deviation) + 60


def _table(weights: Sequence[Decimal]) -> NoiseTable:
    """Cuts the symmetric distribution with these weights at 0, 1, 2 .. to 63 bits."""
    total = weights[0] + 2 * sum(weights[1:], Decimal(0))
    tails, tail = [], Decimal(0)
    for weight in reversed(weights[1:]):
        tail += weight
        tails.append(int(_SCALE * tail / total))
    tails.reverse()  # tails[k - 1] is 2^63 P[X <= -k]; the upper half mirrors it
    largest = sum(tail > 0 for tail in tails)
    lower = tails[:largest][::-1]
    steps = [*lower, *(_SCALE - tail for tail in tails[:largest])]
    cumulative = np.full(2 ** len(steps).bit_length(), _SCALE, dtype=np.uint64)
    cumulative[: len(steps)] = np.array(steps, dtype=np.uint64)
    ends = [*tails, 0]
    error = abs((_SCALE - 2 * ends[0]) / Decimal(_SCALE) - weights[0] / total)
    for k in range(1, len(weights)):
        error += 2 * abs((ends[k - 1] - ends[k]) / Decimal(_SCALE) - weights[k] / total)
    return NoiseTable(cumulative, largest, float(error / 2))


@njit(boundscheck=False)
def _count_below(uniform: NDArray[Any], cumulative: NDArray[Any], out: NDArray[Any]) -> None:
    """How many entries of the table, a power of two long, do not exceed each element: log2 of it steps, always."""
    for i in range(len(uniform)):
        element, position, half = np.uint64(uniform[i]), 0, len(cumulative) >> 1
        while half:
            position += half * (cumulative[position + half - 1] <= element)
            half >>= 1
        out[i] = position


LARGEST_SIGMA = 2.0**12
"""Grid units: a table of 2^17 entries."""
SMALLEST_GAUSSIAN_SHARE = 16.0
"""Grid units. From here on delta is at most 1.013 times the continuous Gaussian's at the same epsilon, and epsilon the
same within one in 2000 at the same delta (worked out in one dimension, where the grid matters most; the difference
falls with the square of the width; `perturbation.GRID_PART` pays for it), and sums of shares are discrete Gaussian to
hundreds of digits."""


class IntegerNoise(ABC):
    """A symmetric distribution on the integers, of which independent shares are added up."""

    @property
    @abstractmethod
    def sigma(self) -> float:
        """Standard deviation of one share in grid units (for the discrete Gaussian its parameter, not less)."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """Largest magnitude that is ever drawn, in grid units."""

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """Distance of what is drawn from the distribution that is accounted for, one share and coordinate."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Where its cost is derived."""

    @abstractmethod
    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws independent shares, int64 [*batch_shape, *shape], one 63-bit coin each."""

    @abstractmethod
    def account(self, shares: int, l2: float, l1: float) -> Account:
        """The cost of sums that hold at least that many shares.

        Args:
            shares: shares in each sum that no party but their senders knows.
            l2: L2 sensitivity of one release in grid units.
            l1: L1 sensitivity of one release in grid units.
        """


class TabulatedNoise(IntegerNoise):
    """Noise that is drawn by inverting a table of its distribution."""

    @staticmethod
    @abstractmethod
    def share(epsilon: float, delta: float, releases: int, l2: float, l1: float, shares: int) -> float:
        """Sigma of one of `shares` shares in grid units with which the releases cost at most epsilon at delta."""

    @classmethod
    @abstractmethod
    def of_sigma(cls, sigma: float) -> IntegerNoise:
        """Noise of that standard deviation, or parameter."""

    @property
    @abstractmethod
    def _table(self) -> NoiseTable:
        """The table, made once for each width."""

    @property
    def largest(self) -> int:
        """Where the table ends."""
        return self._table.largest

    @property
    def total_variation(self) -> float:
        """The table's, worked out exactly."""
        return self._table.total_variation

    def sample(self, coins: Coins, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """By inversion; the number of steps is the same for every value."""
        return self._table.invert(coins.uniform(2**UNIFORM_BITS, shape))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(TabulatedNoise):
    """P[X = x] proportional to exp(-x^2 / (2 sigma^2)) (Canonne, Kamath, Steinke 2020).

    The table of sigma = 4096 is 1.3e-15 away from it in total variation and reaches to 9.2 sigma, where less than
    2^-63 of the probability lies; smaller sigmas are nearer, in proportion (`total_variation` states each).

    Attributes:
        sigma: its parameter in grid units, up to 2^12; its variance is sigma^2 or a little less.
    """

    sigma: float

    def __post_init__(self) -> None:
        _check_sigma("sigma", self.sigma)

    @staticmethod
    def share(epsilon: float, delta: float, releases: int, l2: float, l1: float, shares: int) -> float:  # noqa: ARG004  # Skellam needs it
        """From the multiplier of the privacy loss distribution."""
        return noise_multiplier(epsilon, delta, releases) * l2 / math.sqrt(shares)

    @classmethod
    def of_sigma(cls, sigma: float) -> IntegerNoise:
        """With that parameter."""
        return cls(sigma)

    @property
    def source(self) -> str:
        """Where its cost is derived."""
        return "Balle and Wang 2018, Theorem 8; Kairouz, Liu and Steinke 2021, Theorem 1"

    def account(self, shares: int, l2: float, l1: float) -> Account:
        """That of the continuous Gaussian, plus what sums of discrete ones differ by.

        A sum of shares is within e^+-tau of one discrete Gaussian at every point (`sum_divergence`), so the loss of a
        release grows by at most 2 tau for each coordinate that changes, and at most l1 coordinates do.

        Raises:
            InputError: the shares are narrower than 16 grid units, where discreteness and sums begin to matter.
        """
        if self.sigma < SMALLEST_GAUSSIAN_SHARE:
            raise InputError(
                f"sigma of one share must be at least {SMALLEST_GAUSSIAN_SHARE:g} grid units, or sums of {shares} "
                f"discrete Gaussians are not near enough to one; found {self.sigma:g}"
            )
        excess = 2 * l1 * sum_divergence(self.sigma, shares)
        return GaussianAccount(math.sqrt(shares) * self.sigma / l2, excess)

    @property
    def _table(self) -> NoiseTable:
        return discrete_gaussian_table(self.sigma)


@dataclass(frozen=True, slots=True)
class Skellam(TabulatedNoise):
    """The difference of two Poisson variables of mean variance / 2: sums of shares are Skellam again.

    Attributes:
        variance: in squared grid units, up to 2^24.
    """

    variance: float

    def __post_init__(self) -> None:
        if not self.variance > 0:
            raise InputError(f"variance must be positive; found {self.variance}")
        _check_sigma("square root of variance", math.sqrt(self.variance))

    @staticmethod
    def share(epsilon: float, delta: float, releases: int, l2: float, l1: float, shares: int) -> float:
        """From the variance of the Renyi bound."""
        return math.sqrt(skellam_variance(epsilon, delta, releases, l2, l1) / shares)

    @classmethod
    def of_sigma(cls, sigma: float) -> IntegerNoise:
        """With that standard deviation."""
        return cls(sigma * sigma)

    @property
    def sigma(self) -> float:
        """Square root of the variance."""
        return math.sqrt(self.variance)

    @property
    def source(self) -> str:
        """Where its cost is derived."""
        return "Agarwal, Kairouz and Liu 2021, Theorem 3.5"

    def account(self, shares: int, l2: float, l1: float) -> Account:
        """That of one Skellam variable with the variances added."""
        return SkellamAccount(shares * self.variance, l2, l1)

    @property
    def _table(self) -> NoiseTable:
        return skellam_table(self.variance)


def sum_divergence(sigma: float, shares: int) -> float:
    """tau: how far the log probabilities of a sum of discrete Gaussians are from those of one, at most.

    10 sum_(k=1)^(n-1) exp(-2 pi^2 sigma^2 k / (k + 1)) for n shares of sigma >= 1/2 each
    (Kairouz, Liu, Steinke 2021, Theorem 1).
    """
    if sigma < 0.5:
        raise InputError(f"sigma must be at least 1/2 for the bound on sums of discrete Gaussians; found {sigma:g}")
    k = np.arange(1, shares)
    return 10 * float(np.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)).sum())


def _check_sigma(name: str, sigma: float) -> None:
    if not 0 < sigma <= LARGEST_SIGMA:
        raise InputError(f"{name} must lie in (0, 2^12] grid units, or the table grows too large; found {sigma:g}")
