"""Trains a method under its schemes, and says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fgl_secure.auditing.method import Method, Source, check_method
from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.auditing.privacy_cost import PrivacyCost
from fgl_secure.auditing.report import accuracy_figures, cost_figures
from fgl_secure.auditing.wording import plural, score_text, seconds_text
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.host import library_settings
from fgl_secure.schemes import Assignment
from fgl_secure.threads import one_thread
from fgl_secure.training.loop import Accuracy, Progress, TrainingResult


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainedRun:
    """One training run.

    Attributes:
        plan: what was asked for, checked.
        scheme: what the run is called.
        result: accuracy, rounds, seconds and the transcript.
        privacy: what noise gives and costs; None where there is none.
        hosted: declared leakage to processes that host all devices of a silo; empty for runs without such processes.
    """

    plan: AuditPlan
    scheme: str
    result: TrainingResult
    privacy: PrivacyCost | None
    hosted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        plan, cost = self.plan, self.result
        score = f"{plan.score} {score_text(plan.score, self.accuracy.test)} on test data"
        run = f"{plan.method} on {plan.graph.graph.name} under {self.scheme}"
        return f"Trained({run}: {score}, {plural(cost.rounds, 'round')}, {seconds_text(cost.seconds)})"

    @property
    def accuracy(self) -> Accuracy:
        """At the selected round."""
        return self.result.accuracy

    def to_json(self) -> Mapping[str, object]:
        """The figures as JSON values; times are seconds.

        Accuracies are fractions; of targets that are values, mean absolute errors stand under a key of that name.
        """
        plan, result = self.plan, self.result
        return {
            "method": plan.method,
            "backbone": plan.backbone,
            "dataset": plan.graph.graph.name,
            "partition": plan.graph.partition,
            "silos": plan.graph.num_silos,
            "preset": plan.preset,
            "chosen_on": plan.chosen_on,
            "protocol": self.scheme,
            "seed": plan.seed,
            "device": str(plan.device),
            plan.score.replace(" ", "_"): accuracy_figures(result),
            "cost": cost_figures(result),
            "privacy": None if self.privacy is None else _privacy_figures(self.privacy, result),
            **({"hosted_devices": list(self.hosted)} if self.hosted else {}),
        }


def _privacy_figures(cost: PrivacyCost, result: TrainingResult) -> dict[str, object]:
    bound, one_run = cost.measured.bound, cost.measured.one_run
    return {
        "epsilon": cost.measured.claimed,
        "delta": cost.delta,
        "relation": cost.relation,
        "releases": cost.releases,
        "accountant": cost.measured.accountant,
        "budget_spent": result.budget_spent,
        "epsilon_lower_bound": bound.epsilon,
        "lower_bound_method": str(bound.method),
        "one_run_epsilon_lower_bound": None if one_run is None else one_run.epsilon,
        "lower_bound_n": bound.n,
        "lower_bound_confidence": bound.confidence,
        "test_accuracy_without_noise": cost.accuracy_without,
        "test_accuracy_without_features": cost.accuracy_without_features,
        "test_accuracy_without_edges": cost.accuracy_without_edges,
    }


@library_settings()
@one_thread()
def train(
    method: Method,
    data: Source | str | None = None,
    scheme: str | Assignment | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    coins: Coins | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> TrainedRun:
    """Trains a method once.

        from fgl_secure import train
        from fgl_secure.methods import FedAvg

        print(train(FedAvg(epochs=5), "digits", "lightsecagg").accuracy.test)

    Args:
        method: what is trained, with its choices.
        data: as in `fgl_secure.audit`.
        scheme: the schemes of the run, as text or by topology; None takes those that the method trains under.
        seed: of partition, split and initial weights.
        device: where model compute runs: "auto", "cpu" or "cuda".
        coins: where masks and noise come from; the operating system's entropy unless given.
        progress: given what is being done, in words, what to call after each step of it, such as a round.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran.
    """
    check_method(method)
    if coins is not None and not isinstance(coins, Coins):
        raise InputError(f"coins must be Coins, or None for the operating system's; found {type(coins).__name__}")
    plan = method.plan(data, (method.trained if scheme is None else scheme,), seed=seed, device=device)
    if len(plan.subjects) != 1:
        text = "scheme must be given once for train, without a choice that adds runs"
        raise InputError(f"{text}; found {len(plan.subjects)}")
    (subject,) = plan.subjects
    bars = progress or silent
    result = subject.train(coins=coins, progress=bars(f"training under {subject.name}"))
    cost = subject.privacy_cost(result, lambda name: bars(f"training under {name}"))
    return TrainedRun(plan, subject.name, result, cost)


def silent(_name: str) -> Progress:
    """Report no progress."""
    return lambda _done, _most: None
