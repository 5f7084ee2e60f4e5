"""Training in rounds: scores, which round is reported, when to stop, and what a run came to; the same for all silos."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.dp import BudgetExhaustedError
from fgl_secure.errors import DeviceUnavailableError, UnknownNameError
from fgl_secure.runtime import Transcript
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import Selection
from fgl_secure.training.program import Program
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats

COUNTS = 4
"""Correct predictions and predictions, of validation and of test nodes."""

Counts = NDArray[np.int64]


def _marks_of(silo: Silo, predicted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bool [m, COUNTS]: what each of a silo's nodes adds to the counts, of predictions int64 [m]."""
    correct = predicted == silo.labels
    return np.stack([side for mask in (silo.validation, silo.test) for side in (correct & mask, mask)], axis=1)


def counts_of(silo: Silo, predicted: NDArray[np.int64]) -> Counts:
    """Int64 [COUNTS], of one silo's predictions [m]."""
    counts: Counts = _marks_of(silo, predicted).sum(axis=0, dtype=np.int64)
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
        own: int64 as `best`, this silo's counts at the best round, which no other party is told.
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
        result = self._score(number, counts, score)
        if self.best_round < 0 or result > self._top or (self.best_round == 0 and result == self._top):
            self.best, self.best_round, self._top = counts.copy(), number, result
            self.own = counts.copy() if own is None else own.copy()

    def _score(self, number: int, counts: Counts, score: float | None) -> float:
        side = {Selection.VALIDATION: counts[:2], Selection.TEST: counts[2:COUNTS], None: counts[:0]}[self._selection]
        if not side[1:].any() and (score is None or np.isnan(score)):
            return float(number)
        result = self._sign * float(side[0] / side[1]) if score is None else score
        return -np.inf if np.isnan(result) else result

    @property
    def report(self) -> dict[str, Array]:
        """The selected round, and shares of correct predictions there, float64; NaN without any prediction.

        "own test" is of the silo's own nodes, which no other party is told.
        """
        counts = {"validation": self.best[:2], "test": self.best[2:COUNTS], "own test": self.own[2:COUNTS]}
        return {
            "selected round": np.asarray(self.best_round, dtype=np.int64),
            **{name: share_of(result) for name, result in counts.items()},
        }

    def state(self) -> dict[str, Array]:
        """The best so far."""
        best = np.array([self.best_round, *self.best, *self.own], dtype=np.int64)
        return {"best": best, "top": np.asarray(self._top, dtype=np.float64)}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.best_round, self._top = int(state["best"][0]), float(state["top"])
        self.best, self.own = np.split(state["best"][1:], 2)


def probabilities(scores: torch.Tensor) -> Floats:
    """Return softmax of scores [m, classes], float64."""
    return np.asarray(scores.detach().double().softmax(dim=1).cpu().numpy())


def share_of(counts: Counts) -> Array:
    """Float64: right predictions among all, of int64 [2]; NaN without any."""
    return np.asarray(counts[0] / counts[1] if counts.any() else np.nan, dtype=np.float64)


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
    losses: tuple[float, ...] = field(repr=False)
    budget_spent: bool
    transcript: Transcript = field(repr=False)
    report: Arrays = field(default_factory=dict, repr=False)


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


class _RoundLog:
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


NOTHING = np.empty(0, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What a round came to.

    Attributes:
        loss: mean over the training nodes of all silos.
        counts: int64 [COUNTS or more], right predictions and predictions of all silos, before the round's step.
        own: the same of this silo.
        score: what the round is chosen by, the higher the better; None for the accuracy that is selected on.
    """

    loss: float
    counts: Counts
    own: Counts
    score: float | None = None


class TrainingRounds(Program):
    """A program that trains, keeps the best round, and stops where nothing has been gained for long.

    Args:
        comm: the collectives of the run.
        epochs: most rounds.
        selection: which accuracy picks the reported round.
        patience: rounds without improvement after which training stops; None never stops early.

    Examples:
        class Rounds(TrainingRounds): ...  # whole in examples/own/label_propagation.py
    """

    def __init__(self, comm: Collectives, epochs: int, selection: Selection | None, patience: int | None) -> None:
        super().__init__(comm)
        self._epochs, self._patience = epochs, patience
        self._scores = Scores(selection)
        self._spent = False
        self.losses: list[float] = []

    count_scales: ClassVar[Array] = np.ones(1)
    """What sums of the columns of `marks` are multiplied by before they are rounded to whole numbers."""

    @abstractmethod
    def train(self, number: int) -> Figures:
        """One round of training, and the figures of the models before it."""

    @abstractmethod
    def judge(self, number: int) -> Figures | None:
        """The figures of the models after so many rounds, whose loss is of no account; None if no party looks again."""

    def answers(self) -> Mapping[str, Floats]:
        """Return what the finished model answers about the silo's nodes: probabilities [m, classes].

        "features and edges" is how the method predicts; "features" what a party gets that has the model and no edges.
        Empty for models that don't classify nodes.
        """
        return {}

    def round(self, number: int) -> bool:
        """A round of training, or the last look at the models where there is none: see `Program.round`."""
        stale = self._patience is not None and number and number - 1 - self._scores.best_round >= self._patience
        if number < self._epochs and not stale:
            try:
                figures = self.train(number)
            except BudgetExhaustedError:
                if not number:
                    raise
                self._spent = True
            else:
                self._scores.see(number, figures.counts, figures.own, figures.score)
                self.losses.append(figures.loss)
                return True
        with suppress(BudgetExhaustedError):
            last = self.judge(number)
            if last is not None:
                self._scores.see(number, last.counts, last.own, last.score)
        return False

    def marks(self, predicted: Array) -> Array:
        """Return what each of the silo's nodes adds to the counts, float [m, COUNTS or more]."""
        return _marks_of(self.silo, predicted).astype(np.float32)

    def sum_figures(
        self, predicted: Array, losses: NDArray[np.floating[Any]] | None = None, values: Array = NOTHING
    ) -> tuple[Floats, Figures]:
        """Sums figures up: over the silo's devices, and with them, and a vector of the silo's own, over all silos.

        Args:
            predicted: [m], the class of each of the silo's nodes, or what else `marks` takes.
            losses: float [m], 0 for nodes that are not trained on; none unless given.
            values: float [P], such as the silo's model.

        Returns:
            The mean of the vectors over the silos, float64 [P], and the figures.
        """
        marks = self.marks(predicted)
        own_losses = np.zeros(len(marks), dtype=np.float32) if losses is None else losses
        members = self.comm.members(np.concatenate([np.asarray(own_losses, dtype=np.float32)[:, None], marks], axis=1))
        facts, counts = self.silo.facts, np.rint(members[1:] * self.count_scales).astype(np.int64)
        row, parts = np.append(values, members[0] / max(facts.labelled, 1)), (len(values),) * bool(len(values))
        sums, everybodys = self.comm.server(row, counts, parts=parts)
        return sums[:-1] / facts.silos, Figures(float(sums[-1]), everybodys, counts)

    def figures(self, own: Counts, loss: float = 0.0, weight: int = 0) -> Figures:
        """Sums figures up over silos that count for themselves, without devices: in a step of evaluation.

        Args:
            own: int64 [COUNTS], of the silo.
            loss: a mean of the silo.
            weight: what it counts in the mean over all silos.
        """
        labelled = max(self.silo.facts.labelled, 1)
        with self.comm.evaluation():
            total, sums = self.comm.server(np.array([loss * weight / labelled]), np.append(own, weight))
        return Figures(float(total[0]) * labelled / max(int(sums[-1]), 1), sums[:-1], own)

    @property
    def report(self) -> dict[str, Array]:
        """Losses, the selected round and its accuracies, and whether the privacy budget ended training."""
        return {
            "losses": np.array(self.losses, dtype=np.float64),
            "budget spent": np.asarray(self._spent, dtype=np.bool_),
            **self._scores.report,
        }

    def state(self) -> dict[str, Array]:
        """How far training is."""
        losses = np.array(self.losses, dtype=np.float64)
        return {**super().state(), "losses": losses, **under("scores", self._scores.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.losses = state["losses"].tolist()
        self._scores.restore(within("scores", state))


def run(
    process: OneProcess,
    most: int,
    transcript: Transcript,
    progress: Progress | None = None,
    *,
    start: float | None = None,
    shown: Callable[[], None] | None = None,
) -> TrainingResult:
    """Runs all rounds of a program that trains.

    Args:
        process: its silos; their programs are `TrainingRounds`.
        most: most rounds that there can be.
        transcript: what is said in them.
        progress: called after each round.
        start: when the run began, on the clock of `time.perf_counter`; None counts the rounds alone.
        shown: called before the first round, and after the last.

    Returns:
        What the silos report; `accuracy.per_silo` is put together from what each of them knows of its own nodes.
    """
    first, log = process.programs[0], _RoundLog(most, progress, start)
    assert isinstance(first, TrainingRounds)
    process.begin()
    show = shown or (lambda: None)
    show()
    log.begin()
    while process.round(len(log)):
        log.end(first.losses[-1])
        log.begin()
    show()
    reports = [program.report for program in process.programs]
    return log.result(_accuracy_of(reports), int(reports[0]["selected round"]), transcript, report=reports[0])


def _accuracy_of(reports: Sequence[Mapping[str, Array]]) -> Accuracy:
    """What all silos report of how well they do, as `Scores.report` has it."""
    test, validation = (_share(float(reports[0][name])) for name in ("test", "validation"))
    return Accuracy(test, validation, tuple(_share(float(report["own test"])) for report in reports))


def _share(value: float) -> float | None:
    return None if np.isnan(value) else value
