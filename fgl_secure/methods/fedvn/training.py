"""Trains FedVN, or what it is compared with, to the end and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.methods.fedvn.federation import GraphFederation, VirtualNodeLayout
from fgl_secure.methods.fedvn.preset import FEDVN, FedVNPreset, GraphMethod
from fgl_secure.methods.fedvn.scoring import GraphWatch
from fgl_secure.runtime import Channel, Role, Step
from fgl_secure.training.loop import Accuracy, Progress, RoundLog, TrainingResult
from fgl_secure.training.presets import Selection
from fgl_secure.training.server_sums import ServerSums, send_down


@dataclass(frozen=True, slots=True, eq=False)
class GraphOutcome:
    """What a training run left.

    Attributes:
        result: at the selected round. Its test accuracy is the plain mean over clients, as in the paper's table; where
            targets are values, all its accuracies are mean absolute errors.
        last: the same after the last round.
        layout: of the rows that clients sent.
    """

    result: TrainingResult
    last: Accuracy
    layout: VirtualNodeLayout


def train_fedvn(
    sets: GraphSet,
    channel: Channel,
    preset: FedVNPreset,
    sums: ServerSums,
    *,
    method: GraphMethod = FEDVN,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    passing: bool = False,
) -> TrainingResult:
    """Trains and selects a round as the preset says; see `run_fedvn`."""
    return run_fedvn(
        sets, channel, preset, sums, method=method, seed=seed, device=device, progress=progress, passing=passing
    ).result


def run_fedvn(
    sets: GraphSet,
    channel: Channel,
    preset: FedVNPreset,
    sums: ServerSums,
    *,
    method: GraphMethod = FEDVN,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    passing: bool = False,
) -> GraphOutcome:
    """Runs all rounds; models are scored before each round and after the last.

    Args:
        sets: who has which graphs.
        channel: between server and clients; keeps what its recording says.
        preset: how to train, and what selects a round.
        sums: adds the clients' rows up, on that channel.
        method: FedVN or a baseline.
        seed: of initial weights, batches and dropout; coins come from the channel.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        passing: whether clients hand all they have to the next one after each round, so that what comes from a place
            says nothing of what came from it before; for null controls.

    Raises:
        InputError: the channel does not join as many clients as there are, a client has no training graph, or there is
            no graph that the preset chooses the round on.
    """
    clients = len(channel.parties.ids(Role.SILO))
    if clients != sets.num_clients:
        raise InputError(f"channel must join the {sets.num_clients} clients of the graphs; found {clients}")
    _check_selection(sets, preset)
    federation = GraphFederation(sets, method, preset, sums, seed=seed, device=device)
    watch = GraphWatch(sets, preset.selection)
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs):
        log.begin()
        _send_down(federation, channel, number)
        scores = federation.scores()
        loss, chosen_by = federation.round(scores, Step(number))
        watch.see(number, scores, chosen_by)
        log.end(loss)
        if passing:
            federation.pass_on()
    _send_down(federation, channel, preset.epochs)
    scores = federation.scores()
    watch.see(preset.epochs, scores, federation.close(scores, Step(preset.epochs)))
    result = log.result(watch.best, watch.best_round, channel.transcript)
    return GraphOutcome(result, watch.last, federation.layout)


def _check_selection(sets: GraphSet, preset: FedVNPreset) -> None:
    held_out = sets.validation & (not preset.validation_trains)
    chosen_on = {Selection.VALIDATION: held_out, Selection.TEST: sets.test}[preset.selection]
    if not chosen_on.any():
        raise InputError(
            f"sets.{preset.selection} must mark at least one graph that is not trained on, the {preset.name} preset "
            f"chooses the round on them; found none"
        )


def _send_down(federation: GraphFederation, channel: Channel, number: int) -> None:
    """Model, virtual nodes and where it is learnt the global score, from the server to every client."""
    send_down(channel, federation.state, Step(number))
    federation.send_down()
