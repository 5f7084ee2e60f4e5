"""What training says it came to."""

from dataclasses import replace

from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.auditing.train import TrainedRun
from fgl_secure.auditing.wording import Score
from fgl_secure.cli.printing import describe
from fgl_secure.methods import FedVN
from fgl_secure.runtime import Directory, Transcript
from fgl_secure.training.loop import Accuracy, TrainingResult

RESULT = TrainingResult(
    Accuracy(0.8269, 1.14512, (0.9, None)), 1, 2, 0.5, 0.25, (1.0, 0.5), False, Transcript(Directory.hierarchy(2, 2))
)


def plan_of(score: Score) -> AuditPlan:
    """A plan that says so much of its score."""
    return replace(FedVN().plan(None, ["plaintext"]), score=score)


def test_accuracies_are_percent() -> None:
    """Shares are printed in percent, and stand under a key of their name."""
    plan = plan_of(Score.ACCURACY)
    done = TrainedRun(plan, "plaintext", RESULT, None)
    text = describe(done)
    assert "test accuracy  82.69% mean of" in text
    assert "90.00%  not measured" in text
    assert done.to_json()["accuracy"]


def test_errors_are_no_percent() -> None:
    """Mean absolute errors are in the unit of the targets, and called what they are."""
    plan = plan_of(Score.ABSOLUTE_ERROR)
    done = TrainedRun(plan, "plaintext", RESULT, None)
    text = describe(done)
    assert "test error     0.8269 mean of" in text
    assert "0.9  not measured" in text
    assert "validation     1.145" in text
    assert "%" not in text
    written = done.to_json()
    assert "accuracy" not in written
    assert isinstance(written["mean_absolute_error"], dict)
