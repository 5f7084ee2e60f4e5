"""What is kept of the rounds of a training run, whatever the method."""

from __future__ import annotations

import time
from statistics import median

from fgl_secure.runtime import Transcript
from fgl_secure.training.loop import Accuracy, Progress, TrainingResult


class RoundLog:
    """Losses and wall times of rounds.

    Args:
        most: most rounds that there can be.
        progress: called after each round.
        start: when the run began, on the clock of `time.perf_counter`, where more than the rounds is to count.
    """

    def __init__(self, most: int, progress: Progress | None = None, start: float | None = None) -> None:
        self._most, self._progress, self._start = most, progress, start
        self._losses: list[float] = []
        self._seconds: list[float] = []
        self._began = 0.0

    def __len__(self) -> int:
        """Rounds done."""
        return len(self._losses)

    def begin(self) -> None:
        """A round begins."""
        self._began = time.perf_counter()

    def end(self, loss: float) -> None:
        """It is done, with that mean training loss."""
        self._seconds.append(time.perf_counter() - self._began)
        self._losses.append(loss)
        if self._progress is not None:
            self._progress(len(self), self._most)

    def result(
        self, accuracy: Accuracy, selected: int, transcript: Transcript, *, budget_spent: bool = False
    ) -> TrainingResult:
        """The record of the run.

        Args:
            accuracy: at the selected round.
            selected: that round.
            transcript: what was said.
            budget_spent: whether a privacy budget ended training.
        """
        seconds = sum(self._seconds) if self._start is None else time.perf_counter() - self._start
        record = (len(self), seconds, median(self._seconds), tuple(self._losses), budget_spent, transcript)
        return TrainingResult(accuracy, selected, *record)
