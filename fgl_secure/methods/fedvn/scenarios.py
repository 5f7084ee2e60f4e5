"""Rounds of FedVN for attacks: what the server knows beside its view, and the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import VIRTUAL_NODES, LocalWork, VirtualSlices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.batches import GraphStore
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore
from fgl_secure.methods.fedvn.program import first_model
from fgl_secure.methods.fedvn.training import clients_of
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, PublicParameters, Recording, Transcript
from fgl_secure.runtime.channel import Level
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat

ROUNDS = 12
"""Rounds that attacks read: clients are told by comparing each with the one before."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Everything about a training run but how sums are computed.

    Attributes:
        sets: who has which graphs.
        union: the same as one graph, whose silos are the clients.
        preset: how to train.
        seed: of initial weights, batches and dropout.
        device: where model compute runs.
        passing: whether clients hand all they have to the next one after each round, for null controls.
    """

    sets: GraphSet
    union: FederatedGraph
    preset: FedVNPreset
    seed: int
    device: torch.device
    passing: bool = False

    def independent(self, seed: int) -> Setting:
        """Every client has the next one's graphs, and of every label the graphs of the one before.

        Graphs move on after each round as well: who sends a summand is the same in all runs, and must not be in this.
        """
        sets = self.sets
        targets = (sets.targets + 1) % sets.num_classes if sets.num_classes else sets.targets
        moved = replace(sets, targets=targets, client_of=(sets.client_of - 1) % sets.num_clients)
        return replace(self, sets=moved, union=moved.union(), seed=seed, passing=True)

    def brief(self, most: int = ROUNDS) -> Setting:
        """The same for no more than so many rounds."""
        return replace(self, preset=self.preset.with_epochs(min(most, self.preset.epochs)))

    def job(self, scheme: Scheme) -> Job:
        """The clients under a scheme."""
        return clients_of(self.sets, scheme, self.preset, seed=self.seed, device=self.device, passing=self.passing)


def recorded_rounds(setting: Setting, scheme: Scheme, label: str, what: str, most: int = ROUNDS) -> RecordedRun:
    """The first rounds of training and no others, recorded, under repeatable coins.

    Args:
        setting: how to train.
        scheme: how summands are summed.
        label: what the scheme is called.
        what: what was exchanged, in words.
        most: rounds, where the preset has as many.
    """
    job = setting.brief(most).job(scheme)
    result = job.train(job.channel(SimulationCoins(setting.seed), recording_under(scheme, most)))
    return as_attacked(setting, result.transcript, label, what)


def recording_under(scheme: Scheme, rounds: int = ROUNDS) -> Recording:
    """What attacks read of so many first rounds: in the clear nothing but the summands."""
    return Recording(Level.EVERYTHING, rounds, frozenset({Phase.VECTORS}) if scheme.takes_reals else None)


def as_attacked(setting: Setting, transcript: Transcript, label: str, what: str) -> RecordedRun:
    """Recorded rounds, with what the server knows and what attacks are scored on; arguments as above."""
    truth, known = secrets(setting), handed_out(setting)
    return RecordedRun(label, what, VIRTUAL_NODES, PublicParameters(), transcript, (truth,), (known,))


def handed_out(setting: Setting) -> VirtualSlices:
    """What the server knows that says which model is the first, and how to train it."""
    preset, sets = setting.preset, setting.sets
    outputs = max(sets.num_classes, 1)
    model = first_model(GraphStore(sets).width, outputs, preset, setting.seed)
    theta = flat(list(model.parameters())).astype(np.float64)
    entries = preset.virtual_nodes * preset.hidden
    return VirtualSlices(
        len(theta),
        slice(len(theta) - outputs, len(theta)),
        preset.virtual_nodes,
        preset.hidden,
        preset.hidden,
        np.append(theta, np.zeros(entries)),
        LocalWork(preset.learning_rate, preset.batch, preset.local_epochs, sets.num_graphs),
        preset.virtual_nodes if preset.global_score is GlobalScore.LEARNT else 0,
    )


def secrets(setting: Setting) -> VirtualNodeTruth:
    """What attacks are scored on; of graphs with values in place of labels, the clients' names alone."""
    sets = setting.sets
    names = np.arange(sets.num_clients)
    if not sets.num_classes:
        return VirtualNodeTruth(names)
    trains = sets.train | sets.validation if setting.preset.validation_trains else sets.train
    counts = np.zeros((sets.num_clients, sets.num_classes))
    np.add.at(counts, (sets.client_of[trains], np.asarray(sets.targets, dtype=np.int64)[trains]), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return VirtualNodeTruth(names, shares, counts.sum(axis=0) / counts.sum())
