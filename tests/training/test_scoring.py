"""Which round is kept, of counts that all silos have added up."""

import numpy as np
import pytest

from fgl_secure.training.loop import Scores
from fgl_secure.training.presets import Selection

ROUNDS = ([6, 10, 3, 4], [4, 10, 4, 4], [6, 10, 1, 4], [4, 10, 0, 4])


@pytest.mark.parametrize(
    ("selection", "less", "best"),
    [
        (Selection.VALIDATION, False, 2),
        (Selection.TEST, False, 1),
        (Selection.VALIDATION, True, 1),
        (Selection.TEST, True, 3),
        (None, False, 3),
    ],
)
def test_the_best_round_is_kept(selection: Selection | None, less: bool, best: int) -> None:
    """The most of right predictions, the least of errors; of equal ones the first that was trained; else the last."""
    scores = Scores(selection, less=less)
    for number, counts in enumerate(ROUNDS):
        scores.see(number, np.array(counts))
    assert scores.report["selected round"] == best
    assert scores.report["test"] == ROUNDS[best][2] / 4
    again = Scores(selection, less=less)
    again.restore(scores.state())
    assert again.report == scores.report
