"""Clipped and noisy gradients and updates: differential privacy of what a client sends in one round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.algebra import FixedPoint
from fgl_secure.coins import Coins
from fgl_secure.dp import Perturbation, rounded_at_random
from fgl_secure.dp.mechanisms import DiscreteGaussian
from fgl_secure.errors import InputError
from fgl_secure.training.collectives import Collectives
from fgl_secure.typing import Floats

GRID_SIGMA = 1024.0
"""Standard deviation of the noise in steps of the grid that gradients are rounded to."""
LEAST, MOST = 1e-4, 16.0
"""Noise multipliers that may be asked for: noise that hides nothing, and noise that leaves nothing."""


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Every client cuts its gradient down to a norm and adds discrete Gaussian noise.

    Attributes:
        multiplier: z, the noise's standard deviation over the clipping norm.
        clip: the L2 norm.
    """

    multiplier: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not LEAST <= self.multiplier <= MOST:
            raise InputError(f"noise must lie in {LEAST:g}..{MOST:g}; found {self.multiplier}")
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise InputError(f"clip must be positive; found {self.clip}")

    def epsilon(self, entries: int, delta: float) -> float:
        """What one release costs whose neighbours are with and without the client's gradient.

        Rounding to the grid adds at most half a step an entry to the norm, and that is counted.

        Args:
            entries: P, of a gradient.
            delta: inside (0, 1).
        """
        l2 = self.clip / self._step + math.sqrt(entries) / 2
        return DiscreteGaussian(GRID_SIGMA).account(1, l2, math.sqrt(entries) * l2).epsilon(1, delta)

    def applied(self, rows: NDArray[np.float32], coins: Coins) -> NDArray[np.float32]:
        """Rows [K, P] cut down, rounded to the grid, with noise on them."""
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        cut = rows / np.maximum(norms / self.clip, 1)
        units = np.rint(cut / self._step) + DiscreteGaussian(GRID_SIGMA).sample(coins, rows.shape)
        return np.asarray(units * self._step, dtype=np.float32)

    @property
    def _step(self) -> float:
        return self.multiplier * self.clip / GRID_SIGMA


class NoisyUpdates:
    """Updates clipped and under noise, of which the server learns the mean; every client counts alike.

    Args:
        noise: clip, and what all rounds may cost.
        threshold: least clients of a sum.
        coins: give a client's noise, or that of all clients of one process.
    """

    def __init__(self, noise: DistributedNoise, threshold: int, coins: Coins) -> None:
        self._noise, self._threshold, self._coins = noise, threshold, coins
        self._perturbation: Perturbation | None = None

    def mean(self, talk: Collectives, update: NDArray[np.float32], number: int) -> Floats:
        """Clips, rounds, adds the client's share of the noise, and takes part in the mean.

        Args:
            talk: the collectives of the run.
            update: float32 [P].
            number: of the round.
        """
        if not np.isfinite(update).all():
            raise InputError("updates must be finite; at least one entry is not")
        if number >= self._noise.rounds:
            raise InputError(
                f"rounds must number at most the {self._noise.rounds} that the budget is for; this is one more"
            )
        if self._perturbation is None:
            self._perturbation = self._noise.perturbation(len(update), self._threshold)
        chosen = self._perturbation
        bits, bound = chosen.fraction_bits, chosen.grid_clip + chosen.noise.largest
        units = rounded_at_random(update, self._noise.clip, chosen.grid_clip, bits, self._coins)
        noisy = units + chosen.noise.sample(self._coins, units.shape)
        return talk.mean(np.ldexp(noisy, -bits), 1, 1, FixedPoint(None, bound * 2.0**-bits, bits, what="noisy updates"))
