"""How well models do, from counts that all silos have added up: every silo keeps the same score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime.packing import Array, Arrays
from fgl_secure.training.presets import Selection
from fgl_secure.training.silo import Silo

COUNTS = 4
"""Correct predictions and predictions, of validation and of test nodes."""

Counts = NDArray[np.int64]


def marks_of(silo: Silo, predicted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bool [m, COUNTS]: what each of a silo's nodes adds to the counts, of predictions int64 [m]."""
    correct = predicted == silo.labels
    return np.stack([side for mask in (silo.validation, silo.test) for side in (correct & mask, mask)], axis=1)


def counts_of(silo: Silo, predicted: NDArray[np.int64]) -> Counts:
    """Int64 [COUNTS], of one silo's predictions [m]."""
    counts: Counts = marks_of(silo, predicted).sum(axis=0, dtype=np.int64)
    return counts


class Scores:
    """Keeps the best round by the accuracy that a preset selects on; the first one seen where it selects on none.

    Args:
        selection: which accuracy picks the reported round.
    """

    def __init__(self, selection: Selection | None) -> None:
        self._selection = selection
        self._best: Counts = np.zeros(COUNTS, dtype=np.int64)
        self._own: Counts = np.zeros(COUNTS, dtype=np.int64)
        self.best_round = -1

    def see(self, number: int, counts: Counts, own: Counts | None = None) -> None:
        """Takes the sums of all silos' counts after so many rounds, and this silo's own."""
        if self.best_round < 0 or self._score(counts) > self._score(self._best):
            self._best, self.best_round = counts.copy(), number
            self._own = counts.copy() if own is None else own.copy()

    def _score(self, counts: Counts) -> float:
        validation, test = _share(counts[:2]), _share(counts[2:])
        return {Selection.VALIDATION: validation, Selection.TEST: test, None: 0.0}[self._selection]

    @property
    def report(self) -> dict[str, Array]:
        """The selected round, and shares of correct predictions there, float64; NaN without any prediction.

        "own test" is of the silo's own nodes, which nobody else is told.
        """
        counts = {"validation": self._best[:2], "test": self._best[2:], "own test": self._own[2:]}
        shares = {name: right / of if of else np.nan for name, (right, of) in counts.items()}
        return {
            "selected round": np.asarray(self.best_round, dtype=np.int64),
            **{name: np.asarray(share, dtype=np.float64) for name, share in shares.items()},
        }

    def state(self) -> dict[str, Array]:
        """The best so far."""
        return {"best": np.array([self.best_round, *self._best, *self._own], dtype=np.int64)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.best_round, kept = int(state["best"][0]), state["best"][1:]
        self._best, self._own = kept[:COUNTS], kept[COUNTS:]


def _share(counts: Counts) -> float:
    return int(counts[0]) / int(counts[1]) if counts[1] else 0.0
