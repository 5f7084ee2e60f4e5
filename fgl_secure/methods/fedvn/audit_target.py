"""FedVN under each scheme for sums of updates: what it promises, how it is trained, and its runs for attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, FEDVN_SKEWED, VIRTUAL_NODES, LocalWork, VirtualSlices
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.wording import Score
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.data import GraphSets
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import MotifEnvironment, motif_set
from fgl_secure.methods.fedvn.batches import GraphStore, bond_types_of
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore, Injection, fedvn_preset
from fgl_secure.methods.fedvn.program import clients_of, first_model
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Guarantee,
    Leak,
    Phase,
    PublicParameters,
    Recording,
    Role,
    Secret,
    Transcript,
    leaks,
)
from fgl_secure.runtime.channel import RecordingLevel
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import Selection, choice_of_round
from fgl_secure.training.server_sums import promises, server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedvn.configuration import FedVN


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


def recorded_rounds(setting: TrainingSetting, scheme: Scheme, label: str, text: str, most: int = ROUNDS) -> RecordedRun:
    """The first rounds of training and no others, recorded, under repeatable coins.

    Args:
        setting: how to train.
        scheme: how summands are summed.
        label: what the scheme is called.
        text: what was exchanged, in words.
        most: rounds, where the preset has as many.
    """
    job = setting.brief(most).job(scheme)
    result = job.train(job.channel(SimulationCoins(setting.seed), _recording_under(scheme, most)))
    return _as_attacked(setting, result.transcript, label, text)


def _recording_under(scheme: Scheme, rounds: int = ROUNDS) -> Recording:
    """What attacks read of so many first rounds: in plaintext nothing but the summands."""
    return Recording(RecordingLevel.EVERYTHING, rounds, frozenset({Phase.VECTORS}) if scheme.takes_reals else None)


def _as_attacked(setting: TrainingSetting, transcript: Transcript, label: str, description: str) -> RecordedRun:
    """Recorded rounds, with what the server knows and what attacks are scored on; arguments as above."""
    truth, known = secrets(setting), initial_slices(setting)
    return RecordedRun(label, description, VIRTUAL_NODES, PublicParameters(), transcript, (truth,), (known,))


def initial_slices(setting: TrainingSetting) -> VirtualSlices:
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
    # Which graphs train: at each client many of its favourite label, and a few of each other, bool [g].
    train = np.zeros(graphs.num_graphs, dtype=np.bool_)
    for client in range(graphs.num_clients):
        graph_ids = graphs.graphs_of(client)
        for label in range(graphs.num_classes):
            same = graph_ids[graphs.targets[graph_ids] == label]
            favoured = label == FAVOURITES[client % len(FAVOURITES)]
            train[same[: FAVOURED if favoured else OTHERS]] = True
    skewed_graphs = replace(graphs, train=train, test=~train)
    return _record_rounds(
        skewed_graphs, replace(WHOLE, epochs=6, batch=10), "reference, rounds of FedVN in the clear, skewed labels"
    )


def _record_rounds(graphs: GraphSet, preset: FedVNPreset, description: str) -> RecordedRun:
    setting = TrainingSetting(graphs, graphs.union(), preset, 0, torch.device("cpu"))
    return recorded_rounds(setting, Plaintext(), "drawn for attacks", description, preset.epochs)


CONTROLS: Makers = MappingProxyType({FEDVN: _rounds, FEDVN_SKEWED: _skewed_run})
"""What attacks on virtual nodes must break, by name; each is made on first use."""


CLEAR_LEAKS = leaks(
    Role.SERVER,
    {
        DataSecret.LABEL_SHARES: "every client's model arrives as it is, and the bias of its last layer tells how "
        "often each label occurs",
        DataSecret.CLIENT_IDENTITY: "a client pulls model and virtual nodes its own way, so that a summand tells whose "
        "it is without a name",
    },
)
"""What the paper leaves open."""

SUM_LEAKS = leaks(
    Role.SERVER,
    {
        DataSecret.LABEL: "the sum is exact, and the bias of the mean model tells how often each label occurs at all "
        "clients together"
    },
)
"""What a sum tells, whatever computes it."""

PAIR_LEAKS = tuple(
    Leak(
        secret,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        f"other's model and its virtual nodes{told}",
    )
    for secret, told in (
        (Secret.SUMMAND, ""),
        (DataSecret.LABEL_SHARES, ", and the bias of its last layer tells how often each label occurs there"),
        (DataSecret.CLIENT_IDENTITY, ", and whose they are is no question"),
    )
)
"""What two clients learn of each other, whatever computes the sum."""

FOLLOWING = (
    (DataSecret.LABEL_SHARES, "of one client's label shares the server learns no more than those of all tell"),
    (DataSecret.CLIENT_IDENTITY, "there is no summand that the server could put a name to"),
)
"""What is hidden with a summand while two clients are left that did not collude, and why."""


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; one that promises nothing sends them in plaintext.
        clients: how many there are.
    """
    inner = promises(scheme, clients)
    if inner is None:
        return Claim((), CLEAR_LEAKS, ())
    following = tuple(_following(inner.guarantees, clients))
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim((*inner.guarantees, *following), (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


def _following(promises: tuple[Guarantee, ...], clients: int) -> Iterator[Guarantee]:
    """What is promised about summands, said of what they tell; two clients must be left that did not collude."""
    limits = {Role.SILO: clients - 2}
    for promise in promises:
        if promise.secret is not Secret.SUMMAND or Role.SERVER not in promise.coalition:
            continue
        capped = {role: min(count, limits.get(role, count)) for role, count in promise.coalition.items()}
        coalition = {role: count for role, count in capped.items() if count > 0}
        for secret, consequence in FOLLOWING:
            statement = f"{promise.statement}; {consequence}"
            yield replace(promise, secret=secret, coalition=coalition, statement=statement)


NOTES = (
    "A client is a silo of this report and has graphs of its own; a device is a node of one of them. Which client has "
    "which graph comes with the data set, so partition and number of silos have no say.",
    "Under a scheme the server's own knowledge, the sum, is noted with the transcript.",
    "Whatever names a summand is forgotten by the attack that tells clients: what it finds, an anonymising channel "
    "would not have hidden.",
    "Edge generators never leave their clients, and no attack here is on them.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedVNSubject(Subject):
    """FedVN under one scheme.

    Attributes:
        setting: how to train, on what.
    """

    preset: FedVNPreset
    setting: TrainingSetting

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what a sum tells whatever the scheme."""
        return claim_of(self.schemes[SERVER], self.setting.sets.num_clients)

    @property
    def job(self) -> Job:
        """The clients, each with its own graphs."""
        return self.setting.job(self.schemes[SERVER])

    @property
    def attacked_rounds(self) -> int:
        """So many that each can be compared with the one before."""
        return min(ROUNDS, self.preset.epochs)

    @property
    def recording(self) -> Recording:
        """Everything of these rounds, and in plaintext the summands."""
        return _recording_under(self.schemes[SERVER])

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first rounds of training."""
        yield _as_attacked(self.setting, result.transcript, self.name, "first rounds of training")

    def brief(self, **changes: Any) -> Self:
        """For no more rounds than attacks read."""
        setting = changes.pop("setting", self.setting).brief()
        same = {"setting": setting, "preset": setting.preset, "graph": setting.union, "seed": setting.seed}
        return replace(self, **{**same, **changes})

    def independent(self, seed: int) -> Subject:
        """On graphs that clients hand on, of labels that have moved on."""
        return self.brief(setting=self.setting.independent(seed))


def fedvn_plan(method: FedVN, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    assert isinstance(request.data, GraphSets)
    sets = request.data.load(request.seed)
    preset = fedvn_preset(method.preset, sets.name).with_given(
        epochs=method.epochs,
        virtual_nodes=method.virtual_nodes,
        injection=None if method.injection is None else Injection(method.injection),
        decoupling=method.lambda_1,
        contrast=method.lambda_2,
        temperature=method.tau,
    )
    setting = TrainingSetting(sets, sets.union(), preset, request.seed, request.device)
    shared, schemes = request.common_fields(setting.union, preset), server_schemes(request.runs, sets.num_clients)
    score = Score.ACCURACY if sets.num_classes else Score.ABSOLUTE_ERROR
    return AuditPlan(
        tuple(
            FedVNSubject(**shared, schemes={SERVER: scheme}, name=scheme.name, setting=setting) for scheme in schemes
        ),
        CONTROLS,
        NOTES,
        messages=setting.union.edges.shape[1],
        averaged=f"mean of the {score} of {sets.num_clients} clients, on {int(sets.test.sum()):,} graphs",
        chosen_on=choice_of_round(preset.selection, setting.union, str(score)),
        backbone="gin",
        score=score,
    )
