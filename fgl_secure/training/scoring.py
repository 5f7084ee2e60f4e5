"""How well models do, from counts that all silos have added up: every silo keeps the same score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.presets import Selection
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array

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
    """Keeps the best round by the accuracy that a preset selects on; without nodes to select on, the last round.

    Of equal rounds the first is kept, except that any trained model replaces an equal one before training. A round
    whose score is NaN is kept only until there is another.

    Args:
        selection: which accuracy picks the reported round; None for the last one.
        less: whether less is better, as of errors.

    Attributes:
        best: int64 [COUNTS or more], the sums of all silos' counts at the best round.
        best_round: how many rounds it was after; -1 before any.
        own: int64 as `best`, this silo's counts at the best round, which nobody else is told.
    """

    def __init__(self, selection: Selection | None, *, less: bool = False) -> None:
        self._selection, self._sign = selection, -1.0 if less else 1.0
        self.best: Counts = np.zeros(COUNTS, dtype=np.int64)
        self.own: Counts = np.zeros(COUNTS, dtype=np.int64)
        self._top = -np.inf
        self.best_round = -1

    def see(self, number: int, counts: Counts, own: Counts | None = None, score: float | None = None) -> None:
        """Takes the sums of all silos' counts after so many rounds, and this silo's own.

        Args:
            number: of rounds.
            counts: int64 [COUNTS or more].
            own: the same of this silo.
            score: which is best where it is highest, in the place of an accuracy; NaN without nodes to score.
        """
        found = self._score(number, counts, score)
        if self.best_round < 0 or found > self._top or (self.best_round == 0 and found == self._top):
            self.best, self.best_round, self._top = counts.copy(), number, found
            self.own = counts.copy() if own is None else own.copy()

    def _score(self, number: int, counts: Counts, score: float | None) -> float:
        side = {Selection.VALIDATION: counts[:2], Selection.TEST: counts[2:COUNTS], None: counts[:0]}[self._selection]
        if not side[1:].any() and (score is None or np.isnan(score)):
            return float(number)
        found = self._sign * float(side[0] / side[1]) if score is None else score
        return -np.inf if np.isnan(found) else found

    @property
    def report(self) -> dict[str, Array]:
        """The selected round, and shares of correct predictions there, float64; NaN without any prediction.

        "own test" is of the silo's own nodes, which nobody else is told.
        """
        counts = {"validation": self.best[:2], "test": self.best[2:COUNTS], "own test": self.own[2:COUNTS]}
        return {
            "selected round": np.asarray(self.best_round, dtype=np.int64),
            **{name: share_of(found) for name, found in counts.items()},
        }

    def state(self) -> dict[str, Array]:
        """The best so far."""
        best = np.array([self.best_round, *self.best, *self.own], dtype=np.int64)
        return {"best": best, "top": np.asarray(self._top, dtype=np.float64)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.best_round, self._top = int(state["best"][0]), float(state["top"])
        self.best, self.own = np.split(state["best"][1:], 2)


def share_of(counts: Counts) -> Array:
    """Float64: right predictions among all, of int64 [2]; NaN without any."""
    return np.asarray(counts[0] / counts[1] if counts.any() else np.nan, dtype=np.float64)
