"""Rounds of FedVN for attacks, with their truth, and runs that attacks on virtual nodes must break."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, FEDVN_SKEWED, VIRTUAL_NODES, LocalWork, VirtualSlices
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import MotifEnvironment, motif_set
from fgl_secure.methods.fedvn.batches import GraphStore, bond_types_of
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore
from fgl_secure.methods.fedvn.program import clients_of, first_model
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, PublicParameters, Recording, Transcript
from fgl_secure.runtime.channel import RecordingLevel
from fgl_secure.training.job import Job
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import Selection

ROUNDS = 12
"""Rounds that attacks read: clients are told by comparing each with the one before."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSetting:
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

    def independent(self, seed: int) -> TrainingSetting:
        """Every client has the next one's graphs, and of every label the graphs of the one before.

        Graphs move on after each round as well: who sends a summand is the same in all runs, and must not be in this.
        """
        sets = self.sets
        targets = (sets.targets + 1) % sets.num_classes if sets.num_classes else sets.targets
        moved = replace(sets, targets=targets, client_of=(sets.client_of - 1) % sets.num_clients)
        return replace(self, sets=moved, union=moved.union(), seed=seed, passing=True)

    def brief(self, most: int = ROUNDS) -> TrainingSetting:
        """The same for no more than so many rounds."""
        return replace(self, preset=self.preset.with_epochs(min(most, self.preset.epochs)))

    def job(self, scheme: Scheme) -> Job:
        """The clients under a scheme."""
        return clients_of(self.sets, scheme, self.preset, seed=self.seed, device=self.device, passing=self.passing)


def recorded_rounds(setting: TrainingSetting, scheme: Scheme, label: str, what: str, most: int = ROUNDS) -> RecordedRun:
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
    return Recording(RecordingLevel.EVERYTHING, rounds, frozenset({Phase.VECTORS}) if scheme.takes_reals else None)


def as_attacked(setting: TrainingSetting, transcript: Transcript, label: str, what: str) -> RecordedRun:
    """Recorded rounds, with what the server knows and what attacks are scored on; arguments as above."""
    truth, known = secrets(setting), handed_out(setting)
    return RecordedRun(label, what, VIRTUAL_NODES, PublicParameters(), transcript, (truth,), (known,))


def handed_out(setting: TrainingSetting) -> VirtualSlices:
    """What the server knows that says which model is the first, and how to train it."""
    preset, sets = setting.preset, setting.sets
    outputs = max(sets.num_classes, 1)
    model = first_model(GraphStore(sets).width, outputs, preset, setting.seed, bond_types_of(sets))
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


def secrets(setting: TrainingSetting) -> VirtualNodeTruth:
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


GRAPHS = 60
"""Of a client."""
SMALL, LARGE = (7, 1), (15, 3)
"""Widths of bases, and how far around: half of the clients have small ones."""
FAVOURITES = (0, 1, 0, 2, 0)
"""The commonest label of each fifth client; the first is the commonest of all."""
FAVOURED, OTHERS = 14, 3
"""Training graphs of a client's favourite label, and of each other."""

WHOLE = FedVNPreset(
    "honest", 10, batch=GRAPHS, hidden=16, layers=2, dropout=0.0, virtual_nodes=4, selection=Selection.TEST
)
"""One step a round on all training graphs: what a client's graphs say is all that a summand tells."""


@cache
def _graphs() -> GraphSet:
    """Ten clients, whose graphs have bases of five kinds and of two sizes."""
    sizes = [(base, *size) for size in (SMALL, LARGE) for base in ("wheel", "tree", "ladder", "star", "path")]
    environments = [MotifEnvironment((base,), (width,), spread) for base, width, spread in sizes]
    return motif_set("reference", environments, "basis and size", 0, GRAPHS, 0.0)


@cache
def _rounds() -> RecordedRun:
    return _record_rounds(_graphs(), WHOLE, "reference, rounds of FedVN in the clear, a step on all graphs")


@cache
def _skewed_run() -> RecordedRun:
    graphs = _graphs()
    train = _mostly_favourites(graphs)
    skewed_graphs = replace(graphs, train=train, test=~train)
    return _record_rounds(
        skewed_graphs, replace(WHOLE, epochs=6, batch=10), "reference, rounds of FedVN in the clear, skewed labels"
    )


def _mostly_favourites(graphs: GraphSet) -> NDArray[np.bool_]:
    """Which graphs train: at each client many of its favourite label, and a few of each other, bool [g]."""
    train = np.zeros(graphs.num_graphs, dtype=np.bool_)
    for client in range(graphs.num_clients):
        own = graphs.graphs_of(client)
        for label in range(graphs.num_classes):
            same = own[graphs.targets[own] == label]
            favoured = label == FAVOURITES[client % len(FAVOURITES)]
            train[same[: FAVOURED if favoured else OTHERS]] = True
    return train


def _record_rounds(graphs: GraphSet, preset: FedVNPreset, what: str) -> RecordedRun:
    setting = TrainingSetting(graphs, graphs.union(), preset, 0, torch.device("cpu"))
    return recorded_rounds(setting, Plaintext(), "drawn for attacks", what, preset.epochs)


CONTROLS: Makers = MappingProxyType({FEDVN: _rounds, FEDVN_SKEWED: _skewed_run})
"""What attacks on virtual nodes must break, by name; each is made when it is first asked for."""
