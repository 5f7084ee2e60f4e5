"""FedSpray under each scheme for sums of updates: what it promises, and how it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.fedspray.audit_runs import CONTROLS, GROWING, RoundSetting, first_round, growing_rounds
from fgl_secure.methods.fedspray.client import clients_of
from fgl_secure.methods.fedspray.preset import FedSprayPreset, fedspray_preset
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Role, Secret, Strength, leaks
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import Selection, choice_of_round
from fgl_secure.training.server_sums import promises, server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedspray.configuration import FedSpray


PAPER = "FedSpray (KDD 2024)"

PUBLISHED = (
    Guarantee(
        DataSecret.STRUCTURE_FEATURE,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "local class proxies are averages of the structure proxies of nodes of one class, which is irreversible",
        f"{PAPER}, 4.5.1",
    ),
)
"""What the paper promises of class proxies in plaintext."""

CLEAR_LEAKS = leaks(
    Role.SERVER,
    {
        DataSecret.CLASS_PRESENCE: "the server gets every client's shares and class proxies, and both are zero for "
        "classes without a labelled node",
        DataSecret.LABEL_SHARES: "shares are sent as they are; their denominators tell how many labelled nodes there "
        "are",
    },
)

CLIENT_LEAKS = leaks(
    Role.SILO,
    {
        DataSecret.STRUCTURE_FEATURE: "all clients get the mean class proxies; the mean of a class that one client "
        "alone has is that client's, and the node's own where it has a single one"
    },
)
"""What goes to clients, whatever computes the sum."""

SUM_LEAKS = (
    *leaks(
        Role.SERVER,
        {
            DataSecret.LABEL_SHARES: "exact shares are fractions of each client's number of labelled nodes: where few "
            "clients have different numbers, one sum has one explanation, which counts every client's labelled nodes "
            "of each class; shares on a grid have many explanations, but few clients or few labels leave few",
            DataSecret.CLASS_PRESENCE: "the same explanation tells which classes each client has labelled nodes of",
            DataSecret.LABEL: "the sum tells the shares of all clients together, and which classes are labelled by "
            "no client",
            DataSecret.STRUCTURE_FEATURE: "where one client alone has labelled nodes of a class, the sum holds its "
            "class proxy, and the node's own where there is a single one",
        },
    ),
    *leaks(
        Role.SERVER,
        {
            DataSecret.LABEL_SHARES: "when one client alone labels a node more between two rounds, the change of the "
            "sum tells how many labelled nodes of each class that client has",
            DataSecret.TRAINING_NODE: "the same change tells about what proxy the new node has, by which it is told "
            "from others",
        },
        Circumstance.REPEATED_SUM,
    ),
)
"""What an exact sum tells the server, whatever computes it."""

PAIR_LEAKS = leaks(
    Role.SILO,
    {
        Secret.SUMMAND: "of two clients each can take its own part from the means that the server sends back: what is "
        "left is the other's encoder, its proxy of every class that it alone has, its loss, and how many nodes it "
        "predicts right"
    },
)


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; one that promises nothing sends them in plaintext.
        clients: how many there are.
    """
    inner = promises(scheme, clients)
    if inner is None:
        return Claim(PUBLISHED, (*CLEAR_LEAKS, *CLIENT_LEAKS), ("clients follow the protocol",))
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *CLIENT_LEAKS, *pair), inner.assumptions)


SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (FedSpray, section 5.1)."""

NOTES = (
    "A client is a silo of this report: it trains on the edges between its own nodes.",
    "A scheme with a kind of rounds in brackets was run for attacks alone, on clients with few labelled nodes, of which"
    " one labels one more in each round; optimisers start afresh then. The claim is the same, so what violates it "
    "there counts.",
    "Under a scheme the server's own knowledge, the sum, is noted with the transcript.",
    "Under a random partition every client has labelled nodes of all classes; under a Louvain partition many classes "
    "are absent, and single labelled nodes occur.",
    "A structure proxy is learnt for a node and is no row of features: who reads one has broken that averages hide it, "
    "and has not read features.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _FedSpraySubject(Subject):
    """FedSpray under one scheme."""

    method: FedSpray
    preset: FedSprayPreset
    apart: ClassVar = (GROWING,)
    model_holders: ClassVar[tuple[Role, ...]] = ()  # each client keeps its network

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what sums tell whatever the scheme."""
        return claim_of(self.schemes[SERVER], self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(self.graph, self.schemes[SERVER], self.preset, **self.model_options)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, and rounds of clients with few labelled nodes."""
        setting = RoundSetting(self.preset, self.method.backbone, self.seed, self.device)
        yield first_round(self.graph, setting, self.name, result.transcript)
        yield growing_rounds(self.graph, setting, self.schemes[SERVER], self.name)

    def independent(self, seed: int) -> Subject:
        """One round on a graph in which every client has the next one's nodes, and trains on others of them."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed, split_apart=True, clients_too=True))


def fedspray_plan(method: FedSpray, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    graph = request.load_graph(SPLIT, least=2)
    preset = fedspray_preset(method.preset, graph.graph.name).with_given(
        epochs=method.epochs,
        teaching=method.lambda_1,
        learning=method.lambda_2,
        width=method.d_s,
        propagations=method.k,
        local_epochs=method.local_epochs,
    )
    shared, schemes = request.common_fields(graph, preset), server_schemes(request.runs, graph.num_silos)
    return AuditPlan(
        tuple(_FedSpraySubject(**shared, schemes={SERVER: scheme}, name=scheme.name) for scheme in schemes),
        CONTROLS,
        NOTES,
        messages=int((~graph.crosses_silos).sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(Selection.VALIDATION, graph, preset.choice.removeprefix("validation ")),
        backbone=method.backbone,
    )
