"""Updates that are clipped and given noise by the clients themselves, before a sum in stages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.algebra import Quantizer
from fgl_secure.dp import Perturbation, rounded_at_random
from fgl_secure.errors import InputError
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Role, Step
from fgl_secure.training.server_sums import CollectiveMean, Ids


class NoisyUpdates:
    """An `Averaging`: the server learns the sum of clipped updates under noise; every client counts alike.

    Args:
        scheme: adds integers up.
        channel: between server and clients; gives the coins.
        noise: clip, and what all rounds may cost.
    """

    def __init__(self, scheme: Scheme, channel: Channel, noise: DistributedNoise) -> None:
        self._scheme, self._channel, self._noise = scheme, channel, noise
        self._perturbation: Perturbation | None = None
        self._mean: CollectiveMean | None = None
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
        chosen, mean = self._opened(rows.shape[1])
        grid = (self._noise.clip, chosen.grid_clip, chosen.fraction_bits, self._channel.coins)
        units = np.stack([rounded_at_random(row, *grid) for row in rows])
        noisy = units + chosen.noise.sample(self._channel.coins, units.shape)
        return mean(np.ldexp(noisy, -chosen.fraction_bits), np.ones(len(rows), dtype=np.int64), step)

    def _opened(self, width: int) -> tuple[Perturbation, CollectiveMean]:
        """Clip, grid and noise for updates of a width, and what adds them up."""
        if self._perturbation is None or self._mean is None:
            threshold = self._scheme.threshold_for(len(self._channel.parties.ids(Role.SILO)))
            chosen = self._noise.perturbation(width, threshold)
            bound = chosen.grid_clip + chosen.noise.largest
            self._perturbation = chosen
            grid = Quantizer(bound * 2.0**-chosen.fraction_bits, chosen.fraction_bits, "noisy updates")
            self._mean = CollectiveMean(self._scheme, self._channel, 1, grid)
        return self._perturbation, self._mean
