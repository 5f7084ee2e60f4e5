"""The rounds of federated averaging that Fed2GNN and what it is compared with have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.averaging import AveragedModel, ClientGraph, LocalStep, send_model
from fgl_secure.methods.fed2gnn.models import make_model
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.runtime import Channel, Step
from fgl_secure.training.loop import Progress, TrainingResult, Watch
from fgl_secure.training.round_log import RoundLog
from fgl_secure.training.server_sums import ServerSums


def train_averaged(
    graph: FederatedGraph,
    clients: Sequence[ClientGraph],
    channel: Channel,
    preset: Fed2GNNPreset,
    sums: ServerSums,
    *,
    backbone: str,
    seed: int,
    device: torch.device,
    first: int = 0,
    start: float | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains a model on the clients' graphs and selects a round as the preset says.

    Models are scored before each round and after the last.

    Args:
        graph: who has what; its masks and labels score the model.
        clients: what each client computes on.
        channel: between server and clients.
        preset: how to train.
        sums: adds the clients' rows up.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights and dropout.
        device: where model compute runs.
        first: number of the first round in messages.
        start: when the run began, on the clock of `time.perf_counter`; the result's seconds count from then, so with
            all that goes before the first round. None counts the rounds alone.
        progress: called after each round.
    """
    widths = (clients[0].surroundings.rows.width, preset.hidden, graph.num_classes)
    model = make_model(backbone, widths, preset.hops, seed)
    local = LocalStep(preset.learning_rate, preset.weight_decay, preset.dropout, preset.keep_moments)
    averaged = AveragedModel(model, clients, graph.num_devices, sums, local, seed, device)
    watch = Watch(graph, preset)
    log = RoundLog(preset.epochs, progress, start)
    for number in range(preset.epochs):
        log.begin()
        step = Step(first + number)
        send_model(channel, averaged, step)
        scores = averaged.scores()
        watch.see(number, scores)
        log.end(averaged.round(step, scores.argmax(dim=1)))
        if watch.stale(number):
            break
    last = Step(first + len(log))
    send_model(channel, averaged, last)
    scores = averaged.scores()
    watch.see(len(log), scores)
    averaged.close(last, scores.argmax(dim=1))
    return log.result(watch.best, watch.best_round, channel.transcript)
