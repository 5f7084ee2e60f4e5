"""What a training run came to, which of its rounds is reported, and where it computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType

import torch

from fgl_secure.errors import DeviceUnavailableError, UnknownNameError
from fgl_secure.runtime import Transcript
from fgl_secure.runtime.packing import Arrays

DEVICES = ("auto", "cpu", "cuda")
NO_REPORT: Arrays = MappingProxyType({})

Progress = Callable[[int, int], None]
"""Called after each round with the number of rounds done and the most there can be."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of correct predictions at the selected round.

    Attributes:
        test: over all test devices pooled; None without any.
        validation: over all validation devices pooled; None without any.
        per_silo: over the test devices of each silo; None for a silo without any. Empty where each silo alone knows.
    """

    test: float | None
    validation: float | None
    per_silo: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
    """What a training run left.

    Attributes:
        accuracy: at the selected round.
        selected_round: the round whose models are reported.
        rounds: rounds run.
        seconds: wall time of the run.
        seconds_per_round: median over the rounds; the first includes compilation.
        losses: mean training loss of each round.
        budget_spent: whether training stopped because the privacy budget had nothing left for another round.
        transcript: what was said.
        report: what silo 0 reports in the end, arrays by name.
    """

    accuracy: Accuracy
    selected_round: int
    rounds: int
    seconds: float
    seconds_per_round: float
    losses: tuple[float, ...]
    budget_spent: bool
    transcript: Transcript
    report: Arrays = field(default_factory=dict)


def compute_device(name: str) -> torch.device:
    """The torch device of a name: "auto" takes CUDA where there is one.

    Raises:
        DeviceUnavailableError: CUDA was asked for and is absent.
    """
    if name not in DEVICES:
        raise UnknownNameError("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError("device 'cuda' needs a CUDA device that torch can use; found none")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


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
        self, accuracy: Accuracy, selected: int, transcript: Transcript, *, report: Arrays = NO_REPORT
    ) -> TrainingResult:
        """The record of the run.

        Args:
            accuracy: at the selected round.
            selected: that round.
            transcript: what was said.
            report: what silo 0 reports in the end.
        """
        seconds = sum(self._seconds) if self._start is None else time.perf_counter() - self._start
        spent = bool(report.get("budget spent", False))
        record = (len(self), seconds, median(self._seconds), tuple(self._losses), spent, transcript, report)
        return TrainingResult(accuracy, selected, *record)
