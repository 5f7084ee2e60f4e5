"""How rows are clipped, put on a grid and given their share of the noise, so that a target is met."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fgl_secure.dp.accountant import Account
from fgl_secure.dp.budget import Budget, PrivacyTarget, Relation
from fgl_secure.dp.grid import grid_clip
from fgl_secure.dp.mechanisms import LARGEST_SIGMA, DiscreteGaussian, IntegerNoise, TabulatedNoise
from fgl_secure.errors import InputError

TABLE_PART = 1 / 24
"""The part of delta that is set aside for the distance between what is drawn and its distribution."""
GRID_PART = 1 / 48
"""The part that is set aside for the distance between a discrete Gaussian and the continuous one that is accounted for.

At the same epsilon a discrete Gaussian of sigma >= 16 grid units has up to 1.013 times the delta of the continuous one
(one coordinate, where the grid matters most; epsilon to 32, delta from 1e-12); this pays for 1.022 times."""
RESERVED = TABLE_PART + GRID_PART
FINEST_GRID = 40


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Settings of noisy grouped sums, checked against their target.

    The noise of one sum is split over `honest` senders: each adds a share of variance sigma^2 / honest, so a sum
    that holds at least that many shares which the adversary does not know has sigma^2 or more.

    Attributes:
        target: what the run may cost.
        clip: C, the L2 norm to which rows are clipped, in the values' unit.
        width: most coordinates of a row.
        fraction_bits: rows become multiples of 2^-fraction_bits.
        honest: how many shares make up the noise of a sum.
        noise: the distribution of one share.
    """

    target: PrivacyTarget
    clip: float
    width: int
    fraction_bits: int
    honest: int
    noise: IntegerNoise

    def __post_init__(self) -> None:
        _check_counts(self.width, self.honest)
        if not 0 <= self.fraction_bits <= FINEST_GRID:
            raise InputError(f"fraction_bits must lie in 0..{FINEST_GRID}; found {self.fraction_bits}")
        slack, allowed = self.sampling_delta, TABLE_PART * self.target.delta
        if slack > allowed:
            raise InputError(
                f"fraction_bits must be so few that tables of 63 bits cost at most {allowed:g} of delta; found "
                f"{slack:g} at {self.fraction_bits} bits"
            )
        self.open_budget()

    @classmethod
    def calibrate(
        cls, target: PrivacyTarget, *, clip: float, width: int, honest: int, family: type[TabulatedNoise] | None = None
    ) -> Perturbation:
        """The settings with the least noise that meets the target, on the finest grid that the noise allows.

        Args:
            target: what the run may cost.
            clip: C, the L2 norm to which rows are clipped, in the values' unit.
            width: most coordinates of a row.
            honest: how many shares make up the noise of a sum.
            family: the kind of noise; None for the discrete Gaussian.

        Raises:
            InputError: the noise that the target needs fits no grid; the message has the figures.
        """
        _check_counts(width, honest)
        family, delta, share = family or DiscreteGaussian, _release_delta(target), math.inf
        for fraction_bits in range(FINEST_GRID, -1, -1):
            if not 1 <= clip * 2.0**fraction_bits <= LARGEST_SIGMA * LARGEST_SIGMA:
                continue
            l2, l1 = _sensitivities(target.relation, clip, fraction_bits, width)
            share = family.share(target.epsilon, delta, target.releases, l2, l1, honest) * (1 + 1e-6)
            if share <= LARGEST_SIGMA:
                noise = family.of_sigma(share)
                if _sampling_delta(target, noise, width, honest) <= TABLE_PART * target.delta:
                    return cls(target, clip, width, fraction_bits, honest, noise)
        raise InputError(
            f"noise for {target} must fit tables of 63 bits, with sigma up to {LARGEST_SIGMA:g} grid units and a cost "
            f"of at most {TABLE_PART:.2g} of delta; found clip={clip:g}, whose shares need {share:g} units at the "
            f"coarsest grid tried: ask for fewer releases, a larger epsilon or delta, or scale the rows"
        )

    @property
    def grid_clip(self) -> int:
        """The clip in grid units: the L2 sensitivity of one message."""
        return grid_clip(self.clip, self.fraction_bits)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of a sum with `honest` shares, in the values' unit."""
        return self.noise.sigma * math.sqrt(self.honest) * 2.0**-self.fraction_bits

    @property
    def multiplier(self) -> float:
        """Sigma over the L2 sensitivity of one release."""
        return self.noise.sigma * math.sqrt(self.honest) / self.target.relation.l2_sensitivity(self.grid_clip)

    @property
    def largest(self) -> float:
        """Largest magnitude of a coordinate with its share of noise, in the values' unit."""
        return (self.grid_clip + self.noise.largest) * 2.0**-self.fraction_bits

    @property
    def sampling_delta(self) -> float:
        """What the distance between drawn and true noise may cost in delta, over all releases."""
        return _sampling_delta(self.target, self.noise, self.width, self.honest)

    def account(self, shares: int) -> Account:
        """The cost of sums that hold at least that many shares which the adversary does not know."""
        l2, l1 = _sensitivities(self.target.relation, self.clip, self.fraction_bits, self.width)
        return self.noise.account(shares, l2, l1)

    def epsilon(self, shares: int) -> float:
        """What all releases of the target cost at its delta, when sums hold at least that many shares."""
        return self.account(shares).epsilon(self.target.releases, _release_delta(self.target))

    def replacing_epsilon(self, shares: int) -> float:
        """The same where neighbouring inputs differ in a unit whose rows are others, and not in one that is all zero.

        Such a change is two of the others one after the other, so that it moves sums by up to twice as much.
        """
        l2, l1 = (
            2 * sensitivity
            for sensitivity in _sensitivities(self.target.relation, self.clip, self.fraction_bits, self.width)
        )
        l1 = min(l1, l2 * l2)
        return self.noise.account(shares, l2, l1).epsilon(self.target.releases, _release_delta(self.target))

    def open_budget(self) -> Budget:
        """A fresh budget of one run."""
        return Budget(self.target, self.account(self.honest), _release_delta(self.target))


def _release_delta(target: PrivacyTarget) -> float:
    return target.delta * (1 - RESERVED)


def _sensitivities(relation: Relation, clip: float, fraction_bits: int, width: int) -> tuple[float, float]:
    l2 = relation.l2_sensitivity(grid_clip(clip, fraction_bits))
    return l2, relation.l1_sensitivity(l2, width)


def _sampling_delta(target: PrivacyTarget, noise: IntegerNoise, width: int, honest: int) -> float:
    """(1 + e^epsilon) times the total variation of all noise whose coordinates one unit can change.

    A sum needs `honest` shares of true noise and may hold more of any kind; coordinates that the unit does not change
    have the same distribution for both inputs, whatever it is.
    """
    draws = honest * target.relation.messages * width * target.releases
    return (1 + math.exp(min(target.epsilon, 700.0))) * draws * noise.total_variation


def _check_counts(width: int, honest: int) -> None:
    if width < 1:
        raise InputError(f"width must be at least 1 coordinate; found {width}")
    if honest < 1:
        raise InputError(f"honest must be at least 1 share; found {honest}")
