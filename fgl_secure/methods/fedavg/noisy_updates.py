"""Updates that are clipped and given noise by the clients themselves, before a sum in stages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.dp import Perturbation, rounded_at_random
from fgl_secure.errors import InputError
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.update_sums import Ids, StagedSums, UpdateSum, note_learnt


class NoisyUpdates(UpdateSum):
    """The server learns the sum of clipped updates under noise; every client counts alike.

    Args:
        scheme: adds integers up.
        channel: between server and clients; gives the coins.
        noise: clip, and what all rounds may cost.
    """

    def __init__(self, scheme: StagedScheme, channel: Channel, noise: DistributedNoise) -> None:
        self._channel, self._noise = channel, noise
        self._sums = StagedSums(scheme, channel)
        self._perturbation: Perturbation | None = None
        self._left = noise.rounds

    def __call__(self, rows: NDArray[np.float32], weights: Ids, step: Step) -> NDArray[np.float64]:  # noqa: ARG002
        """Clips, rounds, adds every client's share of the noise and runs the stages; weights go unused."""
        if not np.isfinite(rows).all():
            raise InputError("updates must be finite; at least one entry is not")
        if not self._left:
            raise InputError(
                f"rounds must number at most the {self._noise.rounds} that the budget is for; this is one more"
            )
        self._left -= 1
        chosen = self._perturbation or self._noise.perturbation(rows.shape[1], self._sums.threshold)
        self._perturbation = chosen
        grid = (self._noise.clip, chosen.grid_clip, chosen.fraction_bits, self._channel.coins)
        units = np.stack([rounded_at_random(row, *grid) for row in rows])
        noisy = units + chosen.noise.sample(self._channel.coins, units.shape)
        total = self._sums(noisy, chosen.grid_clip + chosen.noise.largest, step)
        mean: NDArray[np.float64] = np.ldexp(total / len(rows), -chosen.fraction_bits)
        note_learnt(self._channel, mean, len(rows), step)
        return mean
