"""FedSage+ as it is trained and audited: promises under each scheme for its sums, leaks, and rounds for attacks.

The paper has clients exchange gradients so that features stay, and promises nothing of what gradients tell; embeddings
and generators go to all clients as they are. Schemes hide one client's gradients in the sum of all, and its models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Self

import networkx as nx
import numpy as np

from fgl_reproduction.attacks.generators import FEDSAGE, GENERATORS, ClientRows, GeneratorShape
from fgl_reproduction.methods.fedsage.configuration import FedSage
from fgl_reproduction.methods.fedsage.generator import GeneratorPreset
from fgl_reproduction.methods.fedsage.program import HONEST, FedSagePreset, clients_of, fedsage_preset
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import RECORDED_ROUNDS, AuditPlan, Subject, pooled_over
from fgl_secure.auditing.programs import scheme_choices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedavg.audit_target import SUM_LEAKS
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER, Topology
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Directory,
    Leak,
    PublicParameters,
    Recording,
    Role,
    Secret,
    Transcript,
)
from fgl_secure.schemes import promises as promised
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import grid_for, promises

TOLD = (
    Leak(
        DataSecret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "every client gets the generators of all others, which were fitted to their nodes' features, and the "
        "embeddings that they generate from, whose noise is drawn anew in each round and so averages out: what these "
        "tell of single nodes is not hidden from clients, whatever adds gradients up",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "a client sends one noisy embedding for each neighbour that it hid, at most as many for a node as are "
        "generated: how many there are is told, and how many of a node where its noise averages out",
    ),
    Leak(
        DataSecret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "embeddings are made of a node's row and its neighbours': those of neighbours are alike",
    ),
)
"""What clients tell each other in plaintext under every scheme."""

GRADIENTS_IN_THE_CLEAR = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "a client gets each other client's gradient of its generator; where it generates no more rows than its last "
        "layer is wide, it solves each for the feature rows that are nearest to what it generated",
    ),
)

GRADIENT_SUMS = (
    Leak(
        DataSecret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "the sum of the gradients is exact: from it follows, for each row that a client generates, the mean of the "
        "nearest rows of all other clients",
    ),
)
"""What the sum of gradients tells the client that it is for, whatever computes it."""

MODELS_IN_THE_CLEAR = (
    Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "the server sees every client's model, and how many labelled and validation nodes it has",
    ),
)

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's model",
    ),
)
"""What two clients learn of each other, whatever adds the models up."""


def claim_of(gradients: Scheme, averaging: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        gradients: adds up gradients of generators.
        averaging: adds up models; of either, one that promises nothing sends in plaintext.
        clients: how many there are.
    """
    return Claim((), TOLD, ()).join(_gradients(gradients, clients)).join(_models(averaging, clients))


def _gradients(scheme: Scheme, clients: int) -> Claim:
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    inner = scheme.claim_for(Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1))
    if not inner.guarantees:
        return Claim((), GRADIENTS_IN_THE_CLEAR, ())
    return Claim(inner.guarantees, (*inner.leaks_by_design, *GRADIENT_SUMS), inner.assumptions)


def _models(scheme: Scheme, clients: int) -> Claim:
    inner = promises(scheme, clients)
    if inner is None:
        return Claim((), MODELS_IN_THE_CLEAR, ())
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


def generator_run(
    graph: FederatedGraph, preset: FedSagePreset, scheme: Scheme, transcript: Transcript, label: str, what: str
) -> RecordedRun:
    """A recorded first round for generators as attacks read it.

    Args:
        graph: who has what.
        preset: how generators are trained.
        scheme: adds up their gradients.
        transcript: what was said.
        label: what the scheme is called.
        what: what was exchanged, in words.
    """
    generator, bits = preset.generator, grid_for(scheme, graph.num_silos - 1).fraction_bits
    known = GeneratorShape(generator.latent, generator.width, graph.graph.num_features, bits, generator.cross)
    truth = ClientRows(graph.silo_of, graph.features)
    return RecordedRun(label, what, GENERATORS, PublicParameters(), transcript, (truth,), (known,))


def first_round(
    graph: FederatedGraph, preset: FedSagePreset, scheme: Scheme, *, seed: int = 0, label: str = "drawn for attacks"
) -> RecordedRun:
    """The first round for generators alone, with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: how generators are trained.
        scheme: adds up their gradients.
        seed: of all that is drawn.
        label: what the scheme is called.
    """
    job = clients_of(graph, {"clients": scheme}, preset, seed=seed)
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    process = job.open(channel)
    process.begin()
    process.round(0)
    return generator_run(graph, preset, scheme, channel.transcript, label, "first round for generators")


FEW = replace(HONEST, generator=GeneratorPreset(most=1, latent=32, width=256, alone=5, rounds=1))


def reference(clients: int = 8, nodes: int = 480, features: int = 12) -> FederatedGraph:
    """A random regular graph whose clients have a stretch of it each; normal features."""
    pairs = np.array(nx.random_regular_graph(3, nodes, seed=0).edges, dtype=np.int64)
    rows = np.random.default_rng(0).normal(size=(nodes, features))
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph, everyone = Graph.from_arrays("reference", rows, np.arange(nodes) % 2, edges), np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, np.arange(nodes) * clients // nodes, masks, "stretches")


@cache
def _in_the_clear() -> RecordedRun:
    """Every client generates fewer rows than its generator is wide: each gradient is solved."""
    return first_round(reference(), FEW, Plaintext())


CONTROLS: Makers = MappingProxyType({FEDSAGE: _in_the_clear})
"""What attacks on generators must break, by name; made when it is first asked for."""


SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test, as FedStruct (ICLR 2025, section 6) compares it."""

NOTES = (
    "A client of FedSage+ is a silo of this report: it holds its nodes, their features and the edges between them; "
    "edges to other clients are lost.",
    "Attacks read the first round in which generators are trained together. Models are averaged in later rounds; what "
    "their sum tells the server is what federated averaging is audited for.",
    "Embeddings under noise and generators go to all other clients in the clear under every scheme; no attack here is "
    "on them, and what they tell is declared.",
    "Losses of the first rounds are those of generators; no model is scored in them.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedSageSubject(Subject):
    """FedSage+ under one scheme for gradients of generators and one for models."""

    preset: FedSagePreset

    @property
    def claim(self) -> Claim:
        """That of both schemes."""
        return claim_of(self.schemes[CLIENTS], self.schemes[SERVER], self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(self.graph, self.schemes, self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round for generators."""
        what = "first round for generators"
        yield generator_run(self.graph, self.preset, self.schemes[CLIENTS], result.transcript, self.name, what)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places and moved on by a client."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed, clients_too=True))

    @property
    def most_rounds(self) -> int:
        """Rounds for generators, and those of models."""
        return self.preset.rounds_together + self.preset.epochs

    def brief(self, **changes: Any) -> Self:
        """For one round of models, and as many for generators as attacks read."""
        most = min(self.preset.rounds_together, RECORDED_ROUNDS)
        return replace(self, **{"preset": self.preset.with_generator(most, None).with_epochs(1), **changes})


def fedsage_plan(method: FedSage, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    preset = fedsage_preset(method.preset).with_generator(method.generator_rounds, method.generated)
    preset = preset.with_epochs(method.epochs)
    runs, graph = scheme_choices(request, CLIENTS), request.load_graph(SPLIT)
    for run in runs:
        _check_clients(graph, run["schemes"][CLIENTS], run["schemes"][SERVER])
    shared = request.common_fields(graph, preset)
    return AuditPlan(
        tuple(FedSageSubject(**shared, **run) for run in runs),
        {},  # attacks on it bring their controls
        NOTES,
        messages=int((~graph.crosses_silos).sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone="sage",
    )


def _check_clients(graph: FederatedGraph, gradients: Scheme, averaging: Scheme) -> None:
    """Refuse fewer clients than sums need: one client has no other to ask, and a sum of one gradient is that one."""
    least = 3 if promised(gradients, CLIENTS) else 2
    if graph.num_silos < least:
        raise InputError(f"silos must be at least {least} for fedsage under {gradients.name}; found {graph.num_silos}")
    averaging.threshold_for(graph.num_silos)
