"""FED-PUB as it is trained and audited: promises under each scheme for its averages, leaks, and rounds for attacks.

The paper promises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np

from fgl_reproduction.attacks.personal_averages import FEDPUB, PERSONAL_AVERAGES, AverageRules, ModelTruth
from fgl_reproduction.methods.fedpub.configuration import FedPub
from fgl_reproduction.methods.fedpub.program import FedPubClient, FedPubPreset, clients_of, fedpub_preset
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.programs import scheme_choices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER, Topology
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Directory,
    Guarantee,
    Leak,
    PublicParameters,
    Recording,
    Role,
    Secret,
)
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import choice_of_round

EMBEDDINGS = (
    Leak(
        DataSecret.LABEL_SHARES,
        Role.SILO,
        Circumstance.ANY,
        "every client's functional embedding goes to all others every round: models that are alike were trained on "
        "labels that are alike, which is what weights are made of",
    ),
)
"""What weights cost, whatever computes the averages."""

CLEAR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "every client gets each other client's model times a weight that both of them know; as published the server "
        "gets them all",
    ),
)

AVERAGE_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.SINGLE_NEIGHBOUR,
        "where one other client weighs nearly everything in a client's average, the average is nearly its model",
    ),
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "weights are known: clients that pool their averages solve for all models where they are as many as the "
        "others, and one client gets sums of models that hardly change any more over many rounds",
    ),
    Leak(
        DataSecret.CLASS_PRESENCE,
        Role.SILO,
        Circumstance.ANY,
        "the average is exact, and its last bias tells which labels those who weigh most in it have",
    ),
)
"""What one exact weighted sum a round tells its receiver."""

ALONE = "no two clients pool their averages"


def claim_of(scheme: Scheme, averaging: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: computes the averages.
        averaging: adds up figures for the server.
        clients: how many there are.
    """
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    topology = Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1)
    inner = scheme.claim_for(topology)
    if not inner.guarantees:
        return Claim((), (*CLEAR_LEAKS, *EMBEDDINGS), inner.assumptions)
    promises = tuple({item.statement: item for item in map(_of_one, reversed(inner.guarantees))}.values())
    figures = averaging.claim_for(Topology.to_server(parties, 1, 1)).assumptions
    leaks = (*inner.leaks_by_design, *AVERAGE_LEAKS, *EMBEDDINGS)
    return Claim(promises, leaks, tuple(dict.fromkeys((*inner.assumptions, *figures, ALONE))))


def _of_one(inner: Guarantee) -> Guarantee:
    """What is promised of one sum, said of the sums of all clients: each of them gets one, so one alone may look."""
    server, client = (min(inner.coalition.get(role, 0), 1) for role in (Role.SERVER, Role.SILO))
    coalition = {role: 1 for role, there in ((Role.SERVER, server), (Role.SILO, client)) if there}
    statement = "the server learns nothing of any model"
    if client:
        who = "the server with one client learns" if server else "one client learns"
        statement = f"{who} of the others' models no more than the weighted sum that this client gets, round by round"
    return replace(inner, coalition=coalition, statement=statement)


KINDS = (0, 2, 0, 1, 2, 1, 1, 2, 0)
"""Of clients: such that who is like whom says nothing of the clients after them."""
NODES, CLASSES, COLUMNS = 20, 6, 24


def first_round(job: Job, preset: FedPubPreset, label: str, what: str, seed: int) -> RecordedRun:
    """The first round with everything recorded, under repeatable coins.

    Args:
        job: the run.
        preset: how to train.
        label: what the schemes are called.
        what: what was exchanged, in words.
        seed: of the coins.
    """
    channel, graph = job.channel(SimulationCoins(seed), Recording.everything(1)), job.graph
    process = job.open(channel)
    clients = [item for item in process.programs if isinstance(item, FedPubClient)]
    start = flat(clients[0].model.shared_parameters).astype(np.float64)
    bits = clients[0].comm.clients_grid.fraction_bits
    process.round(0)
    counts = np.zeros((graph.num_silos, graph.num_classes))
    np.add.at(counts, (graph.silo_of[graph.train_mask], graph.labels[graph.train_mask]), 1)
    truth = ModelTruth(np.stack([item.sent for item in clients]), counts / np.maximum(counts.sum(axis=1)[:, None], 1))
    last = slice(len(start) - graph.num_classes, len(start))
    rules = AverageRules(start, preset.temperature, bits, last)
    return RecordedRun(label, what, PERSONAL_AVERAGES, PublicParameters(), channel.transcript, (truth,), (rules,))


@cache
def _in_the_clear() -> RecordedRun:
    """Every kind of client has two classes of its own, half of its nodes in each."""
    preset = FedPubPreset("honest", hidden=16, epochs=1)
    job = clients_of(_three_kinds(), {}, preset)
    return first_round(job, preset, "drawn for attacks", "reference, three kinds of clients", 0)


def _three_kinds() -> FederatedGraph:
    """Rings of nodes, a client each, whose features tell their labels."""
    rng, total = np.random.default_rng(0), len(KINDS) * NODES
    node, client = np.arange(total), np.arange(total) // NODES
    labels = 2 * np.array(KINDS)[client] + node % 2
    features = rng.normal(size=(total, COLUMNS)) + 4 * np.eye(CLASSES, COLUMNS)[labels]
    after = client * NODES + (node + 1) % NODES
    edges = np.stack([np.concatenate([node, after]), np.concatenate([after, node])])
    graph = Graph.from_arrays("reference", features, labels, edges)
    everyone = np.ones(total, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, client, SplitMasks(everyone, ~everyone, ~everyone))


CONTROLS: Makers = MappingProxyType({FEDPUB: _in_the_clear})
"""What attacks on personal averages must break, by name; made when it is first asked for."""


NOTES = (
    "A client of FED-PUB is a silo of this report: it trains on the edges between its own nodes, and predicts with "
    "masked weights of its own.",
    "Attacks read the first round of training once more with the same seed, where all clients begin with one model.",
    "Every client attacks alone: two that pool their averages have two sums of the same models, and as many clients as "
    "are left solve for all of them, which is declared and tested.",
    "Losses and counts of right predictions, which choose the reported round, are sums for the server.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedPubSubject(Subject):
    """FED-PUB under one scheme for averages and one for figures."""

    preset: FedPubPreset

    @property
    def claim(self) -> Claim:
        """That of both schemes."""
        return claim_of(self.schemes[CLIENTS], self.schemes[SERVER], self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(self.graph, self.schemes, self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the round is run once more
        """The first round."""
        return self.record_runs(self.seed)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places, and whose clients have the next one's."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed, split_apart=True, clients_too=True))

    def record_runs(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The first round, which is run for attacks alone."""
        yield first_round(self.job, self.preset, self.name, "first round of training", self.seed)


def fedpub_plan(method: FedPub, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    preset = fedpub_preset(method.preset).with_epochs(method.epochs)
    preset = replace(
        preset,
        local_steps=method.local_steps or preset.local_steps,
        temperature=preset.temperature if method.temperature is None else method.temperature,
        sparsity=preset.sparsity if method.sparsity is None else method.sparsity,
    )
    runs, graph = scheme_choices(request, CLIENTS), request.load_graph()
    for run in runs:
        clients_of(graph, {CLIENTS: run["schemes"][CLIENTS]}, preset)  # checks alone
        run["schemes"][CLIENTS].threshold_for(graph.num_silos - 1)
        run["schemes"][SERVER].threshold_for(graph.num_silos)
    shared = request.common_fields(graph, preset)
    return AuditPlan(
        tuple(FedPubSubject(**shared, **run) for run in runs),
        {},  # attacks on it bring their controls
        NOTES,
        messages=int((~graph.crosses_silos).sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone="gcn",
    )
