"""Trains by federated averaging to the end and says what came of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.program import FedAvg
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.loop import Progress, TrainingResult, Watch
from fgl_secure.training.model_down import FLOAT_BYTES
from fgl_secure.training.presets import Preset
from fgl_secure.training.round_log import RoundLog

COUNT_BYTES = 8
"""Two 32-bit numbers: correct predictions, and predictions."""


def train_fedavg(
    method: FedAvg,
    graph: FederatedGraph,
    channel: Channel,
    preset: Preset,
    *,
    progress: Progress | None = None,
    seen: Callable[[FedAvg], None] | None = None,
) -> TrainingResult:
    """Runs all rounds and selects one as the preset says; models are scored before each round and after the last.

    Args:
        method: what is trained, on that graph and channel.
        graph: who has what; its masks and labels score the model.
        channel: keeps the messages.
        preset: rounds, patience and selection.
        progress: called after each round.
        seen: called with the method after the first round.
    """
    watch = Watch(graph, preset)
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs):
        log.begin()
        _models_down(method, channel, number)
        watch.see(number, method.predict())
        log.end(method.round(number))
        if number == 0 and seen is not None:
            seen(method)
        if watch.stale(number):
            break
    _models_down(method, channel, len(log))
    watch.see(len(log), method.predict())
    return log.result(watch.best, watch.best_round, channel.transcript)


def _models_down(method: FedAvg, channel: Channel, number: int) -> None:
    """The server's model to every client, and two counts of every client to the server, which chooses the round."""
    clients, server = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
    leaders, step = np.repeat(server, len(clients)), Step(number)
    channel.send_sizes(Phase.MODEL, step, leaders, clients, len(method.weights) * FLOAT_BYTES)
    channel.send_sizes(Phase.CORRECT, step, clients, leaders, COUNT_BYTES)
