"""How well models do, from counts that all silos have added up: every silo keeps the same score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.methods.silos.parcels import Array, Arrays
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.training.presets import Selection

COUNTS = 4
"""Correct predictions and predictions, of validation and of test nodes."""

Counts = NDArray[np.int64]


def counts_of(share: SiloShare, predicted: NDArray[np.int64]) -> Counts:
    """Int64 [COUNTS], of one silo's predictions [m]."""
    correct = predicted == share.labels
    sides = (share.validation, share.test)
    return np.array([count for mask in sides for count in (correct[mask].sum(), mask.sum())], dtype=np.int64)


class Scores:
    """Keeps the best round by the accuracy that a preset selects on; the first one seen where it selects on none.

    Args:
        selection: which accuracy picks the reported round.
    """

    def __init__(self, selection: Selection | None) -> None:
        self._selection = selection
        self._best: Counts = np.zeros(COUNTS, dtype=np.int64)
        self.best_round = -1

    def see(self, number: int, counts: Counts) -> None:
        """Takes the sums of all silos' counts after so many rounds."""
        if self.best_round < 0 or self._score(counts) > self._score(self._best):
            self._best, self.best_round = counts.copy(), number

    def _score(self, counts: Counts) -> float:
        validation, test = _share(counts[:2]), _share(counts[2:])
        return {Selection.VALIDATION: validation, Selection.TEST: test, None: 0.0}[self._selection]

    @property
    def report(self) -> dict[str, Array]:
        """The selected round, and shares of correct predictions there, float64; NaN without any prediction."""
        shares = [counts[0] / counts[1] if counts[1] else np.nan for counts in (self._best[:2], self._best[2:])]
        return {
            "selected round": np.asarray(self.best_round, dtype=np.int64),
            "validation": np.asarray(shares[0], dtype=np.float64),
            "test": np.asarray(shares[1], dtype=np.float64),
        }

    def state(self) -> dict[str, Array]:
        """The best so far."""
        return {"best": np.array([self.best_round, *self._best], dtype=np.int64)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.best_round, self._best = int(state["best"][0]), state["best"][1:]


def _share(counts: Counts) -> float:
    return int(counts[0]) / int(counts[1]) if counts[1] else 0.0
