"""FedStruct under each exchange of structure: what it promises, and how it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.structure.knowledge import StructureCircumstance
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import CARRIED, AuditPlan, Subject, pooled_over
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.audit_runs import CONTROLS, SeenModels, relay_run, structure_run
from fgl_secure.methods.fedstruct.exchange import (
    AuditRule,
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    Pruning,
    RowExchange,
)
from fgl_secure.methods.fedstruct.preset import (
    AccuracyAveraging,
    FeatureModelKind,
    FedStructPreset,
    Stepping,
    fedstruct_preset,
)
from fgl_secure.methods.fedstruct.program import HOP2VEC, FedStructTask, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, NEIGHBOURS, SERVER, Topology
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Directory,
    Guarantee,
    Leak,
    Role,
    Secret,
    SecretKind,
    Strength,
    leaks,
)
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import choice_of_round

if TYPE_CHECKING:
    from fgl_secure.methods.fedstruct.configuration import FedStruct


PAPER = "FedStruct (ICLR 2025)"

PUBLISHED = (
    Guarantee(
        DataSecret.FOREIGN_EDGE,
        {Role.SILO: 1},
        Strength.COMPUTATIONAL,
        "a client cannot reconstruct another's powers of the adjacency from the terms B_ijk, whose factor is of low "
        "rank, and pruning removes any concern",
        f"{PAPER}, App. D.1",
    ),
)
"""What the paper promises of terms in plaintext."""

QUERIES_PUBLISHED = (
    Guarantee(
        DataSecret.STRUCTURE_FEATURE,
        {Role.SILO: 1},
        Strength.COMPUTATIONAL,
        "a client that counts queries keeps others from reconstructing single structure features",
        f"{PAPER}, App. G.1",
    ),
)


def claim_of(exchange: Exchange, features: str, clients: int) -> Claim:
    """The claim of a run.

    Args:
        exchange: how structure is exchanged.
        features: name of the structure features; "hop2vec" learns them.
        clients: how many there are.
    """
    if isinstance(exchange, HopwiseExchange):
        inner = exchange.sums.claim_for(Topology.example(NEIGHBOURS))
        outside = (Role.SERVER, Role.RELAY)  # a client is a silo and all its devices: what hides from one alone is void
        unaffected = tuple(
            replace(item, coalition={role: count for role, count in item.coalition.items() if role in outside})
            for item in inner.guarantees
            if any(role in outside for role in item.coalition)
        )
        leaks = tuple(item for item in inner.leaks_by_design if item.role in outside)
        return Claim((*unaffected, *HOPWISE_PROMISES), (*leaks, *HOPWISE_LEAKS), inner.assumptions)
    parts = [_terms(exchange.terms, clients), _features(exchange, features), _gradients(exchange, features)]
    if exchange.k_min > 1 and (features == HOP2VEC or exchange.sharing is FeatureSharing.QUERIES):
        # What rows that few clients contribute to tell, and to whom.
        role = Role.SERVER if exchange.delivery is GradientDelivery.SERVER else Role.SILO
        observer = "the server" if role is Role.SERVER else "the owner of a node"
        opening_leak = Leak(
            Secret.FOREIGN_NODE,
            role,
            Circumstance.ANY,
            f"{observer} learns how many clients contribute to each row of the gradient, and every client which rows "
            f"are opened; those that fewer than {exchange.k_min} contribute to are never opened",
        )
        parts.append(Claim((), (opening_leak,), ("clients and server follow the protocol",)))
    guarantees = tuple(item for part in parts for item in part.guarantees)
    leaks = tuple(item for part in parts for item in part.leaks_by_design)
    return Claim(guarantees, leaks, tuple(dict.fromkeys(item for part in parts for item in part.assumptions)))


def _terms(scheme: Scheme | None, clients: int) -> Claim:
    if scheme is None:
        return Claim(PUBLISHED, (), ("clients follow the protocol",))
    parties = Directory.hierarchy(clients, clients)
    first, *others = parties.ids(Role.SILO).tolist()
    topology = Topology.to_client(parties, np.array(others, dtype=np.int64), first, 1, 1)
    inner = scheme.claim_for(topology)
    edges = Leak(
        DataSecret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "a client's rows of the powers tell it edges between nodes of other clients: hiding single terms does not "
        "change what their sum says",
    )
    sizes = Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "all parties learn about how many entries each client's rows of a power have, from the cells it asks for, and "
        "a bound on degrees; no party learns how many a single term has",
    )
    return Claim(inner.guarantees, (*inner.leaks_by_design, edges, sizes), inner.assumptions)


def _features(exchange: RowExchange, features: str) -> Claim:
    if exchange.sharing is FeatureSharing.QUERIES:
        query_leak = Leak(
            DataSecret.FOREIGN_EDGE,
            Role.SILO,
            Circumstance.ANY,
            "a client that is asked learns the weights: which nodes of the requester reach which of its own; and which "
            "of them train the model, for these ask first",
        )
        if exchange.rule is None:
            return Claim(QUERIES_PUBLISHED, (query_leak,), ("clients follow the protocol",))
        rule = exchange.rule
        observer = "all requesters together" if exchange.pooled else "one requester"
        solved = Guarantee(
            DataSecret.STRUCTURE_FEATURE,
            {Role.SILO: 1},
            Strength.PERFECT,
            f"no linear combination of the answers to {observer} is the embedding of one node: its leverage stays at "
            f"{rule.most_leverage:g} or below, over the whole run",
            "audit of the row space of queries",
        )
        near = Leak(
            DataSecret.LABEL,
            Role.SILO,
            Circumstance.ANY,
            "answers are exact weighted sums: a leverage below 1 is no guarantee of differential privacy, and what it "
            "leaves can be estimated",
        )
        return Claim((solved,), (query_leak, near), ("clients follow the protocol",))
    identity = tuple(
        Leak(secret, Role.SILO, Circumstance.ANY, statement)
        for secret, statement in (
            (DataSecret.STRUCTURE_FEATURE, "every client holds the structure features of all nodes"),
            (DataSecret.IDENTITY, "structure features recognise nodes that are known from elsewhere"),
            (Secret.DEGREE, "structure features tell degrees and surroundings"),
        )
    )
    learnt = leaks(Role.SILO, {DataSecret.LABEL: "learnt structure features tell the labels that they learnt"})
    near = Leak(
        DataSecret.FOREIGN_EDGE,
        Role.SILO,
        StructureCircumstance.SHARED_FEATURES,
        "nodes with similar features are likely neighbours",
    )
    return Claim((), (*identity, near, *(learnt if features == HOP2VEC else ())), ())


def _gradients(exchange: RowExchange, features: str) -> Claim:
    if features != HOP2VEC:
        return Claim((), (), ())
    labels = Leak(
        DataSecret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the server reads labels off the gradient of the structure features, also off the sum over clients, in which "
        "rows of different clients barely meet"
        if exchange.k_min == 1
        else "rows of the summed gradient of the structure features that are opened may tell labels of those who "
        "contribute",
    )
    nodes = Leak(
        Secret.FOREIGN_NODE, Role.SERVER, Circumstance.ANY, "the size of a gradient's rows tells who is near to whom"
    )
    if exchange.delivery is GradientDelivery.SERVER:
        return Claim((), (labels, nodes), ())
    sealed = Guarantee(
        DataSecret.LABEL,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "gradients of structure features go to the owners of the nodes, and the server sees none of them",
        "owner-addressed delivery",
    )
    at_owner = Leak(
        DataSecret.LABEL,
        Role.SILO,
        Circumstance.ANY,
        "the owner of a node learns the gradient of its row, which tells labels of labelled nodes nearby",
    )
    return Claim((sealed,), (at_owner,), ("clients follow the protocol",))


HOPWISE_PROMISES = (
    Guarantee(
        DataSecret.LABEL,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "the server sees neither embeddings nor gradients of structure, and no power of the adjacency",
        "hop-by-hop sums between clients",
    ),
)

HOPWISE_LEAKS = leaks(
    Role.SILO,
    {
        DataSecret.STRUCTURE_FEATURE: "sums over foreign neighbours are exact: where a client's sums can be solved for "
        "one of them, above all where a node has a single one, it reads that neighbour's embedding of every hop; "
        "never its structure feature",
        DataSecret.FOREIGN_EDGE: "from how the embedding of such a neighbour changes from hop to hop, which known "
        "nodes are next to it",
        DataSecret.LABEL: "the gradient that comes back to a node with a single foreign neighbour tells that "
        "neighbour's label if it trains the model; sums of k_min neighbours or more keep single ones apart",
    },
)


SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test (FedStruct, section 6)."""

CLEAR = "plaintext"
MASKING = PairwiseMasking()
"""Adds up what is for the server wherever terms are not in plaintext, unless a run says otherwise."""

OF_ROWS = (
    "pruning", "kept", "sharing", "delivery", "tau", "count_queries", "least_nodes", "pooled", "k_min"
)  # fmt: skip
"""Choices that an exchange of powers of the adjacency has, and a hopwise one has no use for."""

BACKBONES = {"gcn": FeatureModelKind.DGCN, "sage": FeatureModelKind.SAGE}

NOTES = (
    "A client of FedStruct is a silo of this report: it holds its nodes, their features and the edges with an end in "
    "it.",
    "What clients hold after the exchange is noted with the transcript and read by attacks as their own.",
    "Gradients are rounded to multiples of 2^-40 where they are added up under a protocol.",
    "The cost counts the exchange of structure and all rounds.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedStructSubject(Subject):
    """FedStruct under one exchange.

    Attributes:
        exchange: how structure is exchanged.
        models: from which follows what attackers know beside their views; filled when training starts and ends.
    """

    method: FedStruct
    preset: FedStructPreset
    exchange: Exchange
    models: SeenModels = field(default_factory=SeenModels)
    model_holders: ClassVar[tuple[Role, ...]] = (Role.SILO,)

    @property
    def claim(self) -> Claim:
        """That of the exchange."""
        return claim_of(self.exchange, self.method.features, self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its nodes and the edges with an end in it."""
        task = FedStructTask(self.preset, self.exchange, self.method.features, self.seed)
        return clients_of(self.graph, task, device=self.device, shown=self.models.see)

    @property
    def carried(self) -> Mapping[SecretKind, tuple[str, ...]]:
        """Gradients of structure features, which tell labels, go into sums for owners or over neighbours."""
        return {**CARRIED, DataSecret.LABEL: (CLIENTS, NEIGHBOURS)}

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The exchange, the first round of training, and what clients hold in the end."""
        transcript, graph = result.transcript, self.graph
        description = f"exchange and first round of training, {self.method.features} features"
        knowledge = self.models.knowledge(graph, self.preset, self.method.features, self.seed)
        yield structure_run(self.name, description, graph, self.exchange, transcript, knowledge)
        if isinstance(self.exchange, HopwiseExchange) and Role.RELAY in self.exchange.sums.helpers:
            yield relay_run(self.name, description, graph, self.exchange, transcript)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places inside their clients."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed), models=SeenModels())

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """The whole training in plaintext, for attacks read what clients hold in the end."""
        exchange = self.exchange
        clear: Exchange = (
            HopwiseExchange(Plaintext())
            if isinstance(exchange, HopwiseExchange)
            else replace(exchange, terms=None, gradients=None, k_min=1)
        )
        return (replace(self, **_under(clear), models=SeenModels()),)


def fedstruct_plan(method: FedStruct, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    exchanges = [exchange_of(method, run) for run in request.runs]
    _check_used(method, exchanges)
    graph = request.load_graph(SPLIT, least=2)
    for exchange in exchanges:
        _check_masks(exchange, graph)
    preset = _preset(method, fedstruct_preset(method.preset, graph.graph.name).with_epochs(method.epochs))
    shared = request.common_fields(graph, preset)
    return AuditPlan(
        tuple(FedStructSubject(**shared, **_under(exchange)) for exchange in exchanges),
        CONTROLS,
        NOTES,
        messages=int(graph.crosses_silos.sum()),
        averaged=_averaging_words(preset, graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone=method.backbone,
    )


def _under(exchange: Exchange) -> dict[str, Any]:
    """What a subject has of its exchange."""
    return {"exchange": exchange, "schemes": exchange.schemes, "name": name_of(exchange)}


def exchange_of(method: FedStruct, run: Mapping[str, Scheme]) -> Exchange:
    """The exchange of a run.

    Args:
        method: the choices.
        run: a scheme for "clients" or one for "neighbours", and perhaps one for "server"; the server's sums are masked
            unless terms are in plaintext.

    Raises:
        InputError: there are both, or neither.
    """
    if len(run.keys() - {SERVER}) != 1:
        scheme_names = ", ".join(f"{topology}={scheme.name}" for topology, scheme in run.items())
        raise InputError(
            f"scheme must be for clients or for neighbours in a run of fedstruct, one; found {scheme_names}"
        )
    if NEIGHBOURS in run:
        return HopwiseExchange(run[NEIGHBOURS], run.get(SERVER, MASKING))
    terms = None if run[CLIENTS].name == CLEAR else run[CLIENTS]
    gradients = run.get(SERVER, None if terms is None else MASKING)
    delivery = GradientDelivery(method.delivery)
    adding = gradients if delivery is GradientDelivery.SERVER else terms
    return RowExchange(
        terms,
        gradients,
        Pruning(method.pruning or Pruning.MATRIX),
        FeatureSharing(method.sharing),
        delivery,
        None if method.count_queries else AuditRule(method.tau, method.least_nodes),
        method.pooled,
        1 if adding is None or adding.name == CLEAR else method.k_min,
    )


def name_of(exchange: Exchange) -> str:
    """What the exchange is called in tables: its scheme, and what differs from the default in brackets."""
    if isinstance(exchange, HopwiseExchange):
        return f"hopwise[{exchange.sums.name}{_server_of(exchange, MASKING, ',')}]"
    queries = exchange.sharing is FeatureSharing.QUERIES
    extras = [
        "queries" if queries else "",
        ("counted" if exchange.rule is None else f"tau={exchange.rule.most_leverage:g}") if queries else "",
        "pooled" if exchange.pooled and queries else "",
        "to owners" if exchange.delivery is GradientDelivery.OWNER else "",
        _server_of(exchange, None if exchange.terms is None else MASKING),
    ]
    name = CLEAR if exchange.terms is None else exchange.terms.name
    extra_names = ",".join(extra for extra in extras if extra)
    return f"{name}[{extra_names}]" if extra_names else name


def _server_of(exchange: Exchange, usual: Scheme | None, before: str = "") -> str:
    """The scheme of the server's sums, where it is not the usual one."""
    gradient_scheme = exchange.gradients
    return "" if gradient_scheme == usual or gradient_scheme is None else f"{before}server={gradient_scheme.name}"


def _preset(method: FedStruct, preset: FedStructPreset) -> FedStructPreset:
    """The preset with everything else that was asked for."""
    weights = method.weights
    return replace(
        preset,
        feature_model=BACKBONES[method.backbone],
        hops=method.hops or (preset.hops if weights is None else len(weights) - 1),
        betas=weights or preset.betas,
        kept=None if method.pruning == Pruning.NONE else (method.kept or preset.kept),
        structure_hidden=None if method.structure_model == "none" else preset.structure_hidden,
        stepping=Stepping(method.stepping or preset.stepping),
        learning_rate=method.rate or preset.learning_rate,
        structure_rate=method.structure_rate or preset.structure_rate,
    )


def _check_used(method: FedStruct, exchanges: list[Exchange]) -> None:
    """Refuses choices of an exchange of powers where every exchange is hopwise."""
    if any(isinstance(exchange, RowExchange) for exchange in exchanges):
        return
    for name in OF_ROWS:
        if getattr(method, name) != getattr(type(method), name):
            raise InputError(f"{name} must go with a scheme for clients; found {getattr(method, name)}")


def _check_masks(exchange: Exchange, graph: FederatedGraph) -> None:
    """Refuses masked sums for one client with less than two others, whose sum would be one term."""
    if not isinstance(exchange, RowExchange) or exchange.terms is None or graph.num_silos > 2:
        return
    if exchange.delivery is GradientDelivery.OWNER or _masks_nothing(exchange.terms, graph.num_silos - 1):
        raise InputError(
            f"silos must be at least 3 for {name_of(exchange)}, where a client gets the masked sum of the others; "
            f"found {graph.num_silos}"
        )


def _masks_nothing(scheme: Scheme, senders: int) -> bool:
    """Whether a scheme refuses sums of so few."""
    try:
        scheme.threshold_for(senders)
    except InputError:
        return True
    return False


def _averaging_words(preset: FedStructPreset, graph: FederatedGraph) -> str:
    return {
        AccuracyAveraging.POOLED: pooled_over(graph),
        AccuracyAveraging.CLIENTS: "as the mean over clients",
        AccuracyAveraging.NODES: "as the mean over clients by their nodes",
    }[preset.averaging]
