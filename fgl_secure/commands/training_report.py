"""What a training run came to, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.audit.schema import Score
from fgl_secure.commands.subjects import Plan
from fgl_secure.commands.train import PrivacyCost
from fgl_secure.training.loop import TrainingResult


def summary(plan: Plan, protocol: str, result: TrainingResult, cost: PrivacyCost | None = None) -> Mapping[str, object]:
    """The figures of a training run under a protocol as JSON values; times are seconds.

    Accuracies are fractions; of targets that are values, mean absolute errors stand under a key of that name instead.
    """
    return {
        "method": plan.options.method,
        "backbone": plan.options.backbone,
        "dataset": plan.graph.graph.name,
        "partition": plan.graph.partition,
        "silos": plan.graph.num_silos,
        "preset": plan.preset,
        "protocol": protocol,
        "seed": plan.options.seed,
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
    """Messages, bytes, rounds and seconds; where they went, by phase."""
    phases: dict[str, int] = {}
    for traffic in result.transcript.traffic():
        phases[traffic.phase.label] = phases.get(traffic.phase.label, 0) + traffic.bytes
    return {
        "messages": result.transcript.message_count,
        "bytes": result.transcript.byte_count,
        "rounds": result.rounds,
        "seconds": result.seconds,
        "seconds_per_round": result.seconds_per_round,
        "bytes_by_phase": phases,
    }


def describe(plan: Plan, protocol: str, result: TrainingResult, cost: PrivacyCost | None = None) -> str:
    """The figures of a training run under a protocol for people."""
    graph, accuracy, transcript = plan.graph, result.accuracy, result.transcript
    shown = _percent if plan.score is Score.ACCURACY else _value
    per_silo = "  ".join(shown(share) for share in accuracy.per_silo)
    rows = {
        "method": f"{plan.options.method}, {plan.options.backbone}, {plan.preset} preset",
        "graph": f"{graph.graph.name}, {graph.num_devices:,} devices, "
        f"{plan.messages:,} messages a layer, "
        f"{graph.num_silos} silos ({graph.partition})",
        "protocol": protocol,
        "test accuracy" if plan.score is Score.ACCURACY else "test error": f"{shown(accuracy.test)} {plan.averaged}",
        "per silo": per_silo,
        "validation": shown(accuracy.validation),
        "rounds": f"{result.rounds}, reported is round {result.selected_round}, {plan.chosen_on}",
        "messages": f"{transcript.message_count:,}",
        "bytes": f"{transcript.byte_count:,}",
        "seconds": f"{result.seconds:.2f}, {result.seconds_per_round:.4f} a round (median), on {plan.device}",
    }
    rows |= {} if cost is None else _privacy_rows(cost, result)
    return "\n".join(f"{name:<14} {text}" for name, text in rows.items())


def _privacy_rows(cost: PrivacyCost, result: TrainingResult) -> dict[str, str]:
    bound = cost.measured.bound
    lost = (cost.accuracy_without or 0.0) - (result.accuracy.test or 0.0)
    stopped = "; training stopped when it was spent" if result.budget_spent else ""
    return {
        "privacy": f"epsilon {cost.measured.claimed:.3f} at delta {cost.delta:g} of {cost.relation}, over "
        f"{cost.releases} releases, by {cost.measured.accountant}{stopped}",
        "measured": f"epsilon is at least {bound.epsilon:.3f} ({bound.method}, {bound.n} canaries, "
        f"{bound.confidence:.0%} confidence)",
        "price": f"{100 * lost:.2f} points of test accuracy; {_percent(cost.accuracy_without)} without noise",
    }


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.2%}"


def _value(error: float | None) -> str:
    return "not measured" if error is None else f"{error:.4g}"
