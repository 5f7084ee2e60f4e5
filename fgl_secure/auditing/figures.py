"""What a training run came to, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.auditing.plan import Plan
from fgl_secure.auditing.privacy_cost import PrivacyCost
from fgl_secure.training.loop import TrainingResult


def summary(plan: Plan, protocol: str, result: TrainingResult, cost: PrivacyCost | None = None) -> Mapping[str, object]:
    """The figures of a training run under a protocol as JSON values; times are seconds.

    Accuracies are fractions; of targets that are values, mean absolute errors stand under a key of that name instead.
    """
    return {
        "method": plan.method,
        "backbone": plan.backbone,
        "dataset": plan.graph.graph.name,
        "partition": plan.graph.partition,
        "silos": plan.graph.num_silos,
        "preset": plan.preset,
        "chosen_on": plan.chosen_on,
        "protocol": protocol,
        "seed": plan.seed,
        "device": str(plan.device),
        plan.score.replace(" ", "_"): accuracy_figures(result),
        "cost": cost_figures(result),
        "privacy": None if cost is None else _privacy_figures(cost, result),
    }


def _privacy_figures(cost: PrivacyCost, result: TrainingResult) -> dict[str, object]:
    bound = cost.measured.bound
    return {
        "epsilon": cost.measured.claimed,
        "delta": cost.delta,
        "relation": cost.relation,
        "releases": cost.releases,
        "accountant": cost.measured.accountant,
        "budget_spent": result.budget_spent,
        "epsilon_lower_bound": bound.epsilon,
        "lower_bound_method": str(bound.method),
        "lower_bound_n": bound.n,
        "lower_bound_confidence": bound.confidence,
        "test_accuracy_without_noise": cost.accuracy_without,
    }


def accuracy_figures(result: TrainingResult) -> dict[str, object]:
    """Test and validation accuracy, pooled and per silo, at the selected round."""
    return {
        "test": result.accuracy.test,
        "validation": result.accuracy.validation,
        "per_silo": list(result.accuracy.per_silo),
        "selected_round": result.selected_round,
    }


def cost_figures(result: TrainingResult) -> dict[str, object]:
    """Messages, bytes, rounds and seconds; where they went, by phase. None where nobody could count them."""
    phases: dict[str, int] = {}
    for traffic in result.transcript.traffic():
        phases[traffic.phase.label] = phases.get(traffic.phase.label, 0) + traffic.bytes
    return {
        "messages": result.transcript.message_count or None,
        "bytes": result.transcript.byte_count or None,
        "rounds": result.rounds,
        "seconds": result.seconds,
        "seconds_per_round": result.seconds_per_round,
        "bytes_by_phase": phases,
    }
