"""Trains a method under one protocol."""

from __future__ import annotations

from collections.abc import Mapping

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Prepared
from fgl_secure.learning.hifgl import hierarchy_of
from fgl_secure.learning.loop import Progress, TrainingResult, train_hifgl
from fgl_secure.protocols.grouped_sum import Scheme
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
    channel = Channel(hierarchy_of(prepared.graph), coins or SystemCoins(), recording)
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


def summary(prepared: Prepared, scheme: Scheme, result: TrainingResult) -> Mapping[str, object]:
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


def describe(prepared: Prepared, scheme: Scheme, result: TrainingResult) -> str:
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
    return "\n".join(f"{name:<14} {text}" for name, text in rows.items())


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.2%}"
