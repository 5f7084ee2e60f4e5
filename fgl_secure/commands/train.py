"""Trains a method under one protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Prepared
from fgl_secure.commands.privacy import Measured, measured
from fgl_secure.learning.hifgl import hierarchy_of
from fgl_secure.learning.loop import Progress, TrainingResult, train_hifgl
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.runtime import Channel, Recording


def train(
    prepared: Prepared,
    scheme: Scheme,
    *,
    coins: Coins | None = None,
    recording: Recording | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains under one scheme.

    Args:
        prepared: checked choices.
        scheme: one of `prepared.schemes`.
        coins: where masks come from; the operating system's entropy unless given.
        recording: what the channel keeps; sizes unless given.
        progress: called after each round.
    """
    channel = Channel(hierarchy_of(prepared.graph, scheme.relays), coins or SystemCoins(), recording)
    return train_hifgl(
        prepared.graph,
        scheme,
        channel,
        prepared.preset,
        backbone=prepared.options.backbone,
        seed=prepared.options.seed,
        device=prepared.device,
        progress=progress,
    )


@dataclass(frozen=True, slots=True)
class PrivacyCost:
    """What differential privacy gives and costs in one run.

    Attributes:
        measured: the claimed epsilon and the lower bound beside it.
        delta: of both.
        relation: what neighbouring inputs differ in, in words.
        releases: grouped sums that the claim speaks of.
        accuracy_without: test accuracy of the same run without noise.
    """

    measured: Measured
    delta: float
    relation: str
    releases: int
    accuracy_without: float | None


def privacy_cost(
    prepared: Prepared, scheme: Scheme, result: TrainingResult, progress: Callable[[str], Progress]
) -> PrivacyCost | None:
    """Trains once more without noise and plays canaries; None for a scheme without noise.

    Args:
        prepared: checked choices.
        scheme: what was trained under.
        result: of that training; its number of rounds bounds the other's.
        progress: given a name, what to call after each round.
    """
    if not isinstance(scheme, Perturbed):
        return None
    shorter = replace(prepared, preset=prepared.preset.with_epochs(result.rounds))
    without = train(shorter, scheme.inner, progress=progress(scheme.inner.name))
    target = scheme.settings.target
    found = measured(scheme, prepared.options.seed)
    return PrivacyCost(found, target.delta, str(target.relation), target.releases, without.accuracy.test)


def summary(
    prepared: Prepared, scheme: Scheme, result: TrainingResult, cost: PrivacyCost | None = None
) -> Mapping[str, object]:
    """The figures of a training run as JSON values; accuracies are fractions, times seconds."""
    return {
        "method": prepared.options.method,
        "backbone": prepared.options.backbone,
        "dataset": prepared.graph.graph.name,
        "partition": prepared.graph.partition,
        "silos": prepared.graph.num_silos,
        "preset": prepared.preset.name,
        "protocol": scheme.name,
        "seed": prepared.options.seed,
        "device": str(prepared.device),
        "accuracy": accuracy_figures(result),
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


def describe(prepared: Prepared, scheme: Scheme, result: TrainingResult, cost: PrivacyCost | None = None) -> str:
    """The figures of a training run for people."""
    graph, accuracy, transcript = prepared.graph, result.accuracy, result.transcript
    per_silo = "  ".join(_percent(share) for share in accuracy.per_silo)
    rows = {
        "method": f"{prepared.options.method}, {prepared.options.backbone}, {prepared.preset.name} preset",
        "graph": f"{graph.graph.name}, {graph.num_devices:,} devices, "
        f"{prepared.heard.edges.shape[1]:,} messages a layer, "
        f"{graph.num_silos} silos ({graph.partition})",
        "protocol": scheme.name,
        "test accuracy": f"{_percent(accuracy.test)} pooled over {int(graph.test_mask.sum()):,} devices",
        "per silo": per_silo,
        "validation": _percent(accuracy.validation),
        "rounds": f"{result.rounds}, reported is round {result.selected_round}, chosen on "
        f"{prepared.preset.selection} accuracy",
        "messages": f"{transcript.message_count:,}",
        "bytes": f"{transcript.byte_count:,}",
        "seconds": f"{result.seconds:.2f}, {result.seconds_per_round:.4f} a round (median), on {prepared.device}",
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
