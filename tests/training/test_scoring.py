"""Which round is kept, of counts that all silos have added up."""

from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.training.presets import Selection
from fgl_secure.training.scoring import Scores

ROUNDS = ([6, 10, 3, 4], [4, 10, 4, 4], [6, 10, 1, 4], [4, 10, 0, 4])


@pytest.mark.parametrize(
    ("selection", "less", "best"),
    [
        (Selection.VALIDATION, False, 0),
        (Selection.TEST, False, 1),
        (Selection.VALIDATION, True, 1),
        (Selection.TEST, True, 3),
        (None, False, 0),
    ],
)
def test_the_best_round_is_kept(selection: Selection | None, less: bool, best: int) -> None:
    """The first of equal ones: the most where counts are right predictions, the least where they are errors."""
    scores = Scores(selection, less=less)
    for number, counts in enumerate(ROUNDS):
        scores.see(number, np.array(counts))
    assert scores.report["selected round"] == best
    assert scores.report["test"] == ROUNDS[best][2] / 4
    again = Scores(selection, less=less)
    again.restore(scores.state())
    assert again.report == scores.report
