"""Fed2GNN and its like under each scheme for their hop sums: what they promise, and how they are audited."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.auditing.method import Asked, Method
from fgl_secure.auditing.plan import Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.audit_runs import CONTROLS, trained_hops
from fgl_secure.methods.fed2gnn.grouping import sampled_neighbours
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.program import clients_of
from fgl_secure.methods.fedavg.audit_target import SUM_LEAKS
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.schemes import parse, promises
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import promises as sum_promises

if TYPE_CHECKING:
    from fgl_secure.methods.fed2gnn.configuration import Fed2GNN


REFUSAL = "refusal of sums over fewer than k_min clients"

HOP_LEAKS = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "sums are exact and overlap: a client subtracts those of different nodes from each other, and whoever knows "
        "the graph solves the sums of several hops, which are sums of the same rows; what that determines of single "
        "nodes' rows is read, whatever computes the sums",
    ),
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "a sum of a few sparse rows can be taken apart by whoever knows what rows look like; rows that were mapped to "
        "a latent space first are dense, and the map is no secret",
    ),
    Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "the second hop sums the whole neighbourhood of a node: where its row and those around it are known, so are "
        "its edges at other clients",
    ),
    Leak(
        Secret.FOREIGN_NODE,
        Role.SILO,
        Circumstance.ANY,
        "a client that is asked for sums learns which of its nodes are next to which node of another client",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "clients tell each other which edges their nodes picked: who hears nothing about an edge learns that its other "
        "end has more neighbours at other clients than it may ask about",
    ),
)
"""What exact sums of several hops tell a client, whatever computes them."""

IN_THE_CLEAR = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "each client's part of a sum arrives by itself: a node's neighbour that is alone at its client is read at "
        "once, and of every later hop the sum over that neighbour's surroundings",
    ),
)

ONE_CLIENT = Leak(
    Secret.NODE_FEATURES,
    Role.SILO,
    Circumstance.SINGLE_NEIGHBOUR,
    "with k_min = 1 a sum over one neighbour is that neighbour's row",
)

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
        "other's model, and of the latent map its perceptron and its mean square",
    ),
)
"""What two clients learn of each other, whatever adds the models up."""


def claim_of(
    scheme: Scheme,
    averaging: Scheme,
    clients: int,
    told: tuple[Leak, ...] = HOP_LEAKS,
    pair: tuple[Leak, ...] = PAIR_LEAKS,
) -> Claim:
    """The claim of a run. The paper promises nothing: it names privacy as work for the future (its conclusion).

    Args:
        scheme: computes the hop sums.
        averaging: adds up the models; one that promises nothing sends them in the clear.
        clients: how many there are.
        told: what exact sums tell a client, whatever computes them.
        pair: what two clients learn of each other's models, whatever adds them up.
    """
    parts = (_hops(scheme, told), _averaging(averaging, clients, pair))
    guarantees = tuple(each for part in parts for each in part.guarantees)
    leaks = tuple(each for part in parts for each in part.leaks_by_design)
    return Claim(guarantees, leaks, tuple(dict.fromkeys(each for part in parts for each in part.assumptions)))


def _hops(scheme: Scheme, told: tuple[Leak, ...]) -> Claim:
    inner, least = scheme.claim_for(Topology.example(NEIGHBOURS)), least_group(scheme)
    hidden = next((each for each in inner.guarantees if each.secret is Secret.EMBEDDING), None)
    if hidden is None:
        return Claim((), (*IN_THE_CLEAR, *told), inner.assumptions)
    relays = hidden.coalition.get(Role.RELAY, 0)
    leaks = tuple(each for each in inner.leaks_by_design if each.role in (Role.SERVER, Role.RELAY))
    assumptions = (*inner.assumptions, _honest(least))
    if least < 2:
        return Claim((_hidden(hidden, relays),), (*leaks, ONE_CLIENT, *told), assumptions)
    promises = (_hidden(hidden, relays), _sums_alone(least, relays))
    return Claim(promises, (*leaks, *told), assumptions)


def _hidden(inner: Guarantee, relays: int) -> Guarantee:
    """What a scheme promises of rows, towards all who are no clients: clients are its senders and its targets here."""
    return replace(
        inner,
        coalition={Role.RELAY: relays, Role.SERVER: 1},
        statement=f"up to T = {relays} relays and the server learn nothing of the rows that are summed",
    )


def _sums_alone(least: int, relays: int) -> Guarantee:
    return Guarantee(
        Secret.NODE_FEATURES,
        {Role.SILO: 1, Role.SERVER: 1, Role.RELAY: relays},
        Strength.COMPUTATIONAL,
        f"of a node's neighbours elsewhere no message tells a client more than the sums of every hop over at least "
        f"{least} clients' parts, and a node with neighbours at fewer clients gets no sum; what several of these sums "
        "determine together is declared beside it",
        REFUSAL,
    )


def _honest(least: int) -> str:
    return (
        f"of the at least {least} clients in a sum no more than all but two pool what they have with the client that "
        "gets it"
    )


def _averaging(averaging: Scheme, clients: int, told: tuple[Leak, ...]) -> Claim:
    inner = sum_promises(averaging, clients)
    if inner is None:
        return Claim((), MODELS_IN_THE_CLEAR, ())
    pair = told if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)


AVERAGING: Scheme = PairwiseMasking()
"""What adds up the models beside a protocol that hides messages, when no scheme is named."""

NOTES = (
    "Attacks read a second exchange of hop sums with the same seed, and so the same messages; what clients have of "
    "their own nodes is noted beside it.",
    "Models are added up by pairwise masking where hop sums are not in the clear, unless a scheme is named; what their "
    "sum tells the server is what federated averaging is audited for.",
    "A scheme that refuses small sums leaves nodes with neighbours at few clients without any: the more clients there "
    "are and the less they follow communities, the fewer.",
)


@dataclass(frozen=True, slots=True, eq=False)
class HopSubject(Subject):
    """A method under one scheme for hop sums and one for models.

    Attributes:
        seed: of all that is drawn.
        graph: who has what.
        scheme: computes the hop sums.
        averaging: adds up the models.
        device: where model compute runs.
    """

    seed: int
    graph: FederatedGraph
    scheme: Scheme
    averaging: Scheme
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's for hop sums; with the one for models where that is another than goes with it."""
        if self.averaging == usual_for(self.scheme):
            return self.scheme.name
        return f"neighbours={self.scheme.name},server={self.averaging.name}"

    @property
    def schemes(self) -> Mapping[str, Scheme]:
        """Both, by topology."""
        return {NEIGHBOURS: self.scheme, SERVER: self.averaging}

    @abstractmethod
    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the exchange is run once more
        """The exchange of hop sums."""
        yield replace(self.exchange(), protocol=self.name)

    def independent(self, seed: int) -> Subject:
        """On a graph whose nodes have swapped places inside their clients."""
        return replace(self, seed=seed, graph=self.graph.redealt(seed))

    def unprotected(self) -> tuple[Subject, ...]:
        """Hop sums and models in the clear."""
        return (replace(self, scheme=Plaintext(), averaging=Plaintext()),)

    def recorded(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The exchange of hop sums, which is run without training."""
        yield replace(self.exchange(), protocol=self.name)


def schemes_of(method: Method, run: Mapping[str, Scheme]) -> tuple[Scheme, Scheme]:
    """What computes the hop sums, and what adds up the models.

    Raises:
        InputError: the scheme for hop sums has the client that gets a sum decode it.
    """
    named = run.get(NEIGHBOURS) or parse(method.trained, (NEIGHBOURS,), method.usual)[1]
    if named.custodian_decodes:
        raise InputError(
            f"scheme must not be {named.label} for {method.name}: the client that gets a sum would be the silo that "
            f"decodes it, and reads every part; found {named.name}"
        )
    return named, run.get(SERVER, usual_for(named))


def usual_for(scheme: Scheme) -> Scheme:
    """What adds up the models where no scheme is named for them: in the clear beside sums in the clear."""
    return AVERAGING if promises(scheme, NEIGHBOURS) else Plaintext()


def check_sums(asked: FederatedGraph, scheme: Scheme, averaging: Scheme, among: str = "") -> None:
    """Raises unless some sum can be computed, and models added up.

    Args:
        asked: the graph along whose edges clients ask.
        scheme: computes the hop sums.
        averaging: adds up the models.
        among: what errors say of the graph beside its number of silos.
    """
    most, least = int(_clients_around(asked).max(initial=0)), least_group(scheme)
    if 1 < least > most:
        raise InputError(
            f"k_min must leave some node a sum under {scheme.name}: neighbours at {least} other clients "
            f"or more; found at most {most} over {asked.num_silos} silos{among}"
        )
    averaging.threshold_for(asked.num_silos)


def _clients_around(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [n], at how many other clients each node has neighbours."""
    source, target = graph.edges[:, graph.crosses_silos]
    pairs = np.unique(target * graph.num_silos + graph.silo_of[source])
    return np.bincount(pairs // graph.num_silos, minlength=graph.num_devices).astype(np.int64)


SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (Fed2GNN, 5.1)."""

CLIENT_NOTE = (
    "A client of Fed2GNN is a silo of this report: it holds its nodes, their features and the edges with an end in it."
)


@dataclass(frozen=True, slots=True, eq=False)
class Fed2GNNSubject(HopSubject):
    """Fed2GNN under one scheme for hop sums and one for models.

    Attributes:
        method: checked choices.
        preset: how to train.
    """

    method: Fed2GNN
    preset: Fed2GNNPreset

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.scheme, self.averaging, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """Hop sums are exchanged, and models trained."""
        return clients_of(
            self.graph,
            self.schemes,
            self.preset,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )

    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""
        return trained_hops(
            self.graph,
            self.preset,
            self.scheme,
            self.averaging,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )


def fed2gnn_plan(method: Fed2GNN, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    runs = [schemes_of(method, run) for run in asked.runs]
    graph = asked.federated(SPLIT)
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fed2gnn; found {graph.num_silos}")
    chosen = fed2gnn_preset(method.preset, graph.graph.name, method.backbone).with_epochs(method.epochs)
    preset = chosen.with_trees(method.hops, method.neighbours)
    sampled = sampled_neighbours(graph, preset.neighbours, asked.seed)
    for run in runs:
        check_sums(sampled, *run, f" and {preset.neighbours} sampled neighbours")
    return Plan(
        method.name,
        method.backbone,
        asked.seed,
        graph,
        int(graph.crosses_silos.sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(preset.selection, graph),
        tuple(Fed2GNNSubject(asked.seed, graph, *run, device, method, preset) for run in runs),
        CONTROLS,
        (CLIENT_NOTE, *NOTES),
    )
