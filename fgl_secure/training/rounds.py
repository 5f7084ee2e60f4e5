"""Training in rounds: losses, which round is reported, and when to stop; the same for all silos."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.dp import BudgetExhaustedError
from fgl_secure.runtime import Transcript
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Accuracy, Counts, Progress, RoundLog, Scores, TrainingResult, marks_of
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import Selection
from fgl_secure.training.program import Program
from fgl_secure.typing import Array, Floats

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
        talk: the collectives of the run.
        epochs: most rounds.
        selection: which accuracy picks the reported round.
        patience: rounds without improvement after which training stops; None never stops early.

    Examples:
        class Rounds(TrainingRounds): ...  # whole in examples/own/label_propagation.py
    """

    def __init__(self, talk: Collectives, epochs: int, selection: Selection | None, patience: int | None) -> None:
        super().__init__(talk)
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
        """The figures of the models after so many rounds, whose loss is of no account; None if nobody looks again."""

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
        return marks_of(self.silo, predicted).astype(np.float32)

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
        members = self.talk.members(np.concatenate([np.asarray(own_losses, dtype=np.float32)[:, None], marks], axis=1))
        facts, counts = self.silo.facts, np.rint(members[1:] * self.count_scales).astype(np.int64)
        row, parts = np.append(values, members[0] / max(facts.labelled, 1)), (len(values),) * bool(len(values))
        sums, everybodys = self.talk.server(row, counts, parts=parts)
        return sums[:-1] / facts.silos, Figures(float(sums[-1]), everybodys, counts)

    def figures(self, own: Counts, loss: float = 0.0, weight: int = 0) -> Figures:
        """Sums figures up over silos that count for themselves, without devices: in a step of evaluation.

        Args:
            own: int64 [COUNTS], of the silo.
            loss: a mean of the silo.
            weight: what it counts in the mean over all silos.
        """
        labelled = max(self.silo.facts.labelled, 1)
        with self.talk.evaluation():
            total, sums = self.talk.server(np.array([loss * weight / labelled]), np.append(own, weight))
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
    first, log = process.programs[0], RoundLog(most, progress, start)
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
