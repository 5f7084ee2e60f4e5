"""Trains HiFGL to the end and says what came of it."""

from __future__ import annotations

from contextlib import suppress

import torch

from fgl_secure.dp import BudgetExhaustedError
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import Progress, RoundLog, TrainingResult, Watch
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import Preset


def train_hifgl(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    preset: Preset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains HiFGL and selects a round as the preset says.

    Args:
        graph: who has what.
        scheme: how neighbourhood sums are computed.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`; keeps what its recording says.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
    """
    parties = hierarchy_of(graph, scheme.helpers)
    if channel.parties != parties:
        raise InputError(
            f"channel must join the parties of the graph and the scheme, {dict(parties.counts)}; "
            f"found {dict(channel.parties.counts)}"
        )
    method = HiFGL(graph, scheme, channel, preset, backbone=backbone, seed=seed, device=device)
    watch = Watch(graph, preset)
    log = RoundLog(preset.epochs, progress)
    budget_spent = False
    for number in range(preset.epochs):
        log.begin()
        try:
            loss, logits = method.round(number)
        except BudgetExhaustedError:
            if not len(log):
                raise
            budget_spent = True
            break
        watch.see(number, logits)
        log.end(loss)
        if watch.stale(number):
            break
    with suppress(BudgetExhaustedError):
        watch.see(len(log), method.evaluate(len(log)))
    return log.result(watch.best, watch.best_round, channel.transcript, budget_spent=budget_spent)
