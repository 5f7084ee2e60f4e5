"""Trains HiFGL under one protocol, and measures what noise gives and costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Prepared
from fgl_secure.commands.privacy import Measured, measured
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.methods.hifgl.training import train_hifgl
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.runtime import Channel, Recording
from fgl_secure.training.loop import Progress, TrainingResult


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
