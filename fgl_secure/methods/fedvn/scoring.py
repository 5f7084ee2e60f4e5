"""Scores models on validation and test graphs, and keeps the round that the preset selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.training.loop import Accuracy
from fgl_secure.training.presets import Selection

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ClientScores:
    """How good the predictions of a client are: 1 where a label is right, or absolute errors of values.

    Attributes:
        validation: float64 [v].
        test: float64 [t].
    """

    validation: Scores
    test: Scores


class GraphWatch:
    """Keeps the best round.

    Args:
        sets: the graphs; where targets are values, less is better.
        selection: what a round is selected on.
    """

    def __init__(self, sets: GraphSet, selection: Selection) -> None:
        self._sign, self._selection = 1.0 if sets.num_classes else -1.0, selection
        self.best = self.last = Accuracy(None, None, ())
        self.best_round = -1

    def see(self, number: int, scores: Sequence[ClientScores], chosen_by: float | None) -> None:
        """Notes the scores of the models after so many rounds.

        Args:
            number: of rounds.
            scores: of every client.
            chosen_by: the mean score of all validation graphs, as the server learnt it; None without any.
        """
        per_client = tuple(_mean(client.test) for client in scores)
        tested = [mean for mean in per_client if mean is not None]
        self.last = Accuracy(float(np.mean(tested)) if tested else None, chosen_by, per_client)
        if self.best_round < 0 or self._score(self.last) > self._score(self.best):
            self.best, self.best_round = self.last, number

    def _score(self, accuracy: Accuracy) -> float:
        by_selection = {Selection.VALIDATION: accuracy.validation, Selection.TEST: accuracy.test}
        found = by_selection[self._selection]
        return -np.inf if found is None else self._sign * found


def _mean(scores: Scores) -> float | None:
    return float(scores.mean()) if len(scores) else None
