"""FedStar as it is trained and audited: promises under each scheme for its sums, leaks, and rounds for attacks.

The paper has clients share an encoder of structure so that features stay, and promises nothing of what it tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_reproduction.attacks.encoder_degrees import FEDSTAR, STRUCTURE_ENCODERS, DegreeTruth, EncoderStart
from fgl_reproduction.methods.fedstar.configuration import FedStar
from fgl_reproduction.methods.fedstar.program import HONEST, FedStarPreset, clients_of, fedstar_preset
from fgl_reproduction.methods.fedstar.structure import StructureEncoder
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Circumstance, Claim, Leak, PublicParameters, Recording, Role, Secret, Transcript
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import promises, server_schemes

CLEAR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "the server sees every client's structure encoder, from which it reads which degrees the nodes around the "
        "labelled ones have; and how many labelled nodes a client has",
    ),
)

SUM_LEAKS = tuple(
    Leak(
        Secret.DEGREE,
        role,
        Circumstance.ANY,
        f"{who} learns the mean of the structure encoders, which is exact and tells which degrees occur, and at about "
        "how many clients; at which, it does not say",
    )
    for role, who in ((Role.SERVER, "the server"), (Role.SILO, "every client"))
)
"""What a mean tells, whatever computes it."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's structure encoder",
    ),
)
"""What two clients learn of each other, whatever adds encoders up."""


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: adds up structure encoders; one that promises nothing sends them in plaintext.
        clients: how many there are.
    """
    inner, pair = promises(scheme, clients), PAIR_LEAKS if clients == 2 else ()
    if inner is None:
        return Claim((), (*CLEAR_LEAKS, *SUM_LEAKS, *pair), ())
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


PAIRS = ((2, 4), (3, 5), (4, 6), (2, 7), (3, 6), (5, 7), (2, 5), (4, 7))
"""Of degrees that a client's nodes have, half of them either; few are also the next client's."""
PART = 12
"""Nodes of a client of one degree."""
COLUMNS = 8


def attacked_round(
    transcript: Transcript, graph: FederatedGraph, preset: FedStarPreset, label: str, what: str, seed: int
) -> RecordedRun:
    """A recorded first round as attacks read it.

    Args:
        transcript: what was said.
        graph: who has what.
        preset: widths of the encoder.
        label: what the scheme is called.
        what: what was exchanged, in words.
        seed: of the encoder's initial weights.
    """
    truth = DegreeTruth(present_degrees(graph.restricted_to_silos(), preset))
    known = encoder_start(preset, seed)
    return RecordedRun(label, what, STRUCTURE_ENCODERS, PublicParameters(), transcript, (truth,), (known,))


def encoder_start(preset: FedStarPreset, seed: int) -> EncoderStart:
    """Where the weight of the one-hot degree begins; in the encoder's first map it is behind that of random walks."""
    coins = torch.Generator().manual_seed(seed)
    encoder = StructureEncoder(preset.walks + preset.degrees, preset.hidden, preset.layers, coins)
    place = slice(preset.walks * preset.hidden, (preset.walks + preset.degrees) * preset.hidden)
    start = flat(list(encoder.parameters()))[place].astype(np.float64)
    return EncoderStart(start.reshape(preset.degrees, preset.hidden), place)


def present_degrees(local: FederatedGraph, preset: FedStarPreset) -> NDArray[np.bool_]:
    """Which degrees the nodes have that a client's loss depends on: bool [clients, degrees].

    Args:
        local: the graph without edges between clients.
        preset: how many layers the loss looks through, and columns of the degree.
    """
    reached = local.train_mask.copy()
    for _ in range(preset.layers):
        reached[local.edges[0][reached[local.edges[1]]]] = True
    degree = np.clip(np.bincount(local.edges[0], minlength=local.num_devices), 1, preset.degrees)
    degrees = np.zeros((local.num_silos, preset.degrees), dtype=np.bool_)
    degrees[local.silo_of[reached], degree[reached] - 1] = True
    return degrees


def first_round(
    graph: FederatedGraph, preset: FedStarPreset, scheme: Scheme, *, seed: int = 0, label: str = "drawn for attacks"
) -> RecordedRun:
    """The first round alone, with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: how to train.
        scheme: adds up encoders.
        seed: of all that is drawn.
        label: what the scheme is called.
    """
    job = clients_of(graph, scheme, preset, seed=seed)
    channel = job.channel(SimulationCoins(seed), Recording.everything(1))
    job.open(channel).round(0)
    return attacked_round(channel.transcript, graph, preset, label, "first round of training", seed)


def reference() -> FederatedGraph:
    """Two random regular graphs a client, of degrees that no other client has both of; normal features."""
    edges = [
        np.array(nx.random_regular_graph(degree, PART, seed=place).edges, dtype=np.int64) + place * PART
        for place, degree in enumerate(np.ravel(PAIRS).tolist())
    ]
    pairs, nodes = np.concatenate(edges), np.size(PAIRS) * PART
    rows = np.random.default_rng(0).normal(size=(nodes, COLUMNS))
    graph = Graph.from_arrays("reference", rows, np.arange(nodes) % 2, np.concatenate([pairs, pairs[:, ::-1]]).T)
    everyone = np.ones(nodes, dtype=np.bool_)
    masks = SplitMasks(everyone, ~everyone, ~everyone)
    return FederatedGraph.from_assignment(graph, np.arange(nodes) // (2 * PART), masks, "degrees")


@cache
def _in_the_clear() -> RecordedRun:
    """Every client has two degrees of its own."""
    return first_round(reference(), replace(HONEST, epochs=1, degrees=8), Plaintext())


CONTROLS: Makers = MappingProxyType({FEDSTAR: _in_the_clear})
"""What attacks on structure encoders must break, by name; made when it is first asked for."""


NOTES = (
    "A client of FedStar is a silo of this report: it trains on the edges between its own nodes, and predicts with a "
    "model of its own, of which the structure encoder is common.",
    "Attacks read the first round of training, before which the server knows the encoder and not the rest of a model.",
    "Losses and counts of right predictions, which choose the reported round, are sums under the same scheme.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedStarSubject(Subject):
    """FedStar under one scheme."""

    preset: FedStarPreset

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what a mean tells whatever the scheme."""
        return claim_of(self.schemes[SERVER], self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(self.graph, self.schemes[SERVER], self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round."""
        what = "first round of training"
        yield attacked_round(result.transcript, self.graph, self.preset, self.name, what, self.seed)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places and moved on by a client."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed, split_apart=True, clients_too=True))


def fedstar_plan(method: FedStar, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    preset = fedstar_preset(method.preset).with_epochs(method.epochs)
    chosen = {name: getattr(method, name) or getattr(preset, name) for name in ("local_steps", "walks", "degrees")}
    preset, graph = replace(preset, **chosen), request.load_graph()
    shared, schemes = request.common_fields(graph, preset), server_schemes(request.runs, graph.num_silos)
    return AuditPlan(
        tuple(FedStarSubject(**shared, schemes={SERVER: scheme}, name=scheme.name) for scheme in schemes),
        {},  # attacks on it bring their controls
        NOTES,
        messages=int((~graph.crosses_silos).sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone="gin",
    )
