"""Canaries in noisy sums of updates: what they rule out of the epsilon that is claimed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.auditing.privacy_cost import CANARIES, Measured
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import grid_rows
from fgl_secure.statistics.lower_bounds import gaussian_bound


def measured_updates(noise: DistributedNoise, threshold: int, seed: int) -> Measured:
    """Plays canaries against the noise of all rounds and says what they rule out.

    A canary is a client that sends C e_1 in every round, with the sign changed from round to round, into sums of as
    many clients as there must be, whose other updates are zero. The signed sum of what the server learns tells it
    from a client that sends nothing as well as the claimed noise permits.

    Args:
        noise: what clients add.
        threshold: least clients of a sum.
        seed: of the coins.
    """
    settings = noise.perturbation(1, threshold)
    coins, canary = SimulationCoins(seed), grid_rows(np.array([[noise.clip]]), noise.clip, settings.fraction_bits).rows

    def scores(sent: int) -> NDArray[np.float64]:
        found = np.zeros(CANARIES)
        for number in range(noise.rounds):
            shares = settings.noise.sample(coins, (CANARIES, threshold))
            found += sent + (1 - 2 * (number % 2)) * shares.sum(axis=1)
        return found

    bound = gaussian_bound(scores(int(canary[0, 0])), scores(0), delta=noise.delta)
    return Measured(noise.epsilon, "privacy loss distributions", bound)
