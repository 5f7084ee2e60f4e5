"""Dropout that a seed repeats."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray


class CoinDropout:
    """Dropping of hidden units with coins of its own, so that a seed repeats a run, on whatever device.

    Args:
        rate: probability of dropping a unit.
        seed: repeats the coins.
        among: int64 [m], where some come with m rows that are these of all `total` rows: what is dropped of them is
            what would be dropped with all rows present. Other numbers of rows are taken as they are.
        total: how many rows all are.
    """

    def __init__(self, rate: float, seed: int, among: torch.Tensor | None = None, total: int = 0) -> None:
        self._rate, self._coins = rate, torch.Generator().manual_seed(seed)
        self._among, self._everybody = among, total

    @property
    def position(self) -> NDArray[np.uint8]:
        """Where the coins are, for another process to go on there."""
        return np.asarray(self._coins.get_state().numpy())

    @position.setter
    def position(self, position: NDArray[np.uint8]) -> None:
        self._coins.set_state(torch.from_numpy(position.copy()))

    def __call__(self, hidden: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Drops units of [n, d] and scales up the others, while training; otherwise changes nothing."""
        if not (training and self._rate):
            return hidden
        members = self._among if self._among is not None and len(self._among) == len(hidden) else None
        shape = hidden.shape if members is None else (self._everybody, hidden.shape[1])
        draws = torch.rand(shape, generator=self._coins).to(hidden.device)
        mask = (draws if members is None else draws[members]) >= self._rate
        return hidden * mask / (1 - self._rate)
