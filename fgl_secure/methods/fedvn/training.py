"""Trains FedVN, or what it is compared with, to the end and says what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.methods.fedvn.preset import FEDVN, FedVNPreset, GraphMethod
from fgl_secure.methods.fedvn.program import ClientGraphs, FedVN
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Channel
from fgl_secure.runtime.packing import within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Accuracy, Progress, TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import Selection
from fgl_secure.training.rounds import accuracy_of, run


@dataclass(frozen=True, slots=True, eq=False)
class GraphOutcome:
    """What a training run left.

    Attributes:
        result: at the selected round. Its test accuracy is the plain mean over clients, as in the paper's table; where
            targets are values, all its accuracies are mean absolute errors.
        last: the same after the last round.
    """

    result: TrainingResult
    last: Accuracy


class HandingOn(OneProcess):
    """Every client gets what the next one has after each round: graphs, models and all."""

    def round(self, number: int) -> bool:
        """One round of all clients, and what they have moves on by one place; whether there is another round."""
        goes_on = super().round(number)
        self.programs = (*self.programs[1:], *self.programs[:1])
        for program, talk in zip(self.programs, self._talks, strict=True):
            program.talk = talk
        return goes_on


def clients_of(
    sets: GraphSet,
    scheme: Scheme,
    channel: Channel,
    preset: FedVNPreset,
    *,
    method: GraphMethod = FEDVN,
    seed: int = 0,
    device: torch.device | None = None,
    passing: bool = False,
) -> OneProcess:
    """FedVN's clients, ready for their first round; arguments as for `run_fedvn`."""
    check(sets, preset)

    def make(talk: Collectives) -> FedVN:
        return FedVN(talk, ClientGraphs.of(sets, talk.silo.silo), method, preset, seed=seed, device=device)

    driver = HandingOn if passing else OneProcess
    return driver(sets.union(), {SERVER: scheme}, channel, make)


def train_fedvn(
    sets: GraphSet,
    scheme: Scheme,
    channel: Channel,
    preset: FedVNPreset,
    *,
    method: GraphMethod = FEDVN,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    passing: bool = False,
) -> TrainingResult:
    """Trains and selects a round as the preset says; see `run_fedvn`."""
    return run_fedvn(
        sets, scheme, channel, preset, method=method, seed=seed, device=device, progress=progress, passing=passing
    ).result


def run_fedvn(
    sets: GraphSet,
    scheme: Scheme,
    channel: Channel,
    preset: FedVNPreset,
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
        scheme: of what clients send the server.
        channel: between the parties of `hierarchy_of(sets.union())`; keeps what its recording says.
        preset: how to train, and what selects a round.
        method: FedVN or a baseline.
        seed: of initial weights, batches and dropout; coins come from the channel.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        passing: whether clients hand all they have to the next one after each round, so that what comes from a place
            says nothing of what came from it before; for null controls.

    Raises:
        InputError: the channel joins other parties, a client has no training graph, or there is no graph that the
            preset chooses the round on.
    """
    process = clients_of(sets, scheme, channel, preset, method=method, seed=seed, device=device, passing=passing)
    result = run(process, preset.epochs, channel.transcript, progress)
    last = accuracy_of([within("last", program.report) for program in process.programs])
    return GraphOutcome(replace(result, accuracy=_meant(result.accuracy)), _meant(last))


def _meant(accuracy: Accuracy) -> Accuracy:
    """The mean over clients without what its units round off."""
    own = [share for share in accuracy.per_silo if share is not None]
    return replace(accuracy, test=float(np.mean(own)) if own else None)


def check(sets: GraphSet, preset: FedVNPreset) -> None:
    """Raises unless there are graphs that a round is chosen on."""
    held_out = sets.validation & (not preset.validation_trains)
    chosen_on = {Selection.VALIDATION: held_out, Selection.TEST: sets.test}[preset.selection]
    if not chosen_on.any():
        raise InputError(
            f"sets.{preset.selection} must mark at least one graph that is not trained on, the {preset.name} preset "
            f"chooses the round on them; found none"
        )
