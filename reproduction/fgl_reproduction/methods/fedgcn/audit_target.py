"""FedGCN as it is trained and audited: what it promises under each scheme for its sums, and what it gives away.

The paper has clients see sums and not rows, and proposes homomorphic encryption to hide both from the server that adds
up. A sum over one neighbour hides nothing, so rows are promised to be hidden from clients here where the scheme refuses
such sums, and not else.
"""

from __future__ import annotations

from dataclasses import dataclass

from fgl_reproduction.methods.fedgcn.configuration import FedGCN
from fgl_reproduction.methods.fedgcn.program import FedGCNClient, clients_of, fedgcn_preset, row_range
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, pooled_over
from fgl_secure.auditing.programs import scheme_choices
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.fed2gnn import audit_target as hop_target
from fgl_secure.methods.fed2gnn.audit_target import CONTROLS, NOTES, HopSetting, HopSubject, before_training, check_sums
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.runtime import Circumstance, Claim, Leak, Role, Secret
from fgl_secure.training.job import Job
from fgl_secure.training.presets import AveragedPreset, choice_of_round
from fgl_secure.training.program import Program
from fgl_secure.typing import Floats

ONE_HOP = (
    Leak(
        DataSecret.NODE_FEATURES,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "sums are exact and overlap: a client subtracts those of different nodes from each other; what that determines "
        "of single nodes' rows is read, whatever computes the sums",
    ),
    Leak(
        DataSecret.NODE_FEATURES,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "features are summed as they are but for a factor each: a sum of a few sparse rows can be taken apart by "
        "a party that knows what rows look like",
    ),
    Leak(
        Secret.FOREIGN_NODE,
        Role.SILO,
        Circumstance.ANY,
        "a client that is asked for sums learns which of its nodes are next to which node of another client, and that "
        "this one has neighbours at enough clients for a sum",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "rows are divided by the root of their nodes' numbers of neighbours: where features are zeros and ones, sums "
        "tell what these may be",
    ),
)
"""What exact sums around own nodes tell a client, whatever computes them."""

TWO_HOPS = (
    Leak(
        DataSecret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "a client gets the sum around every node next to its own that enough clients have neighbours of, in the clear "
        "and with the number of neighbours: where its row and those around it are known, so are its edges elsewhere",
    ),
    Leak(Secret.DEGREE, Role.SILO, Circumstance.ANY, "the number of neighbours goes with each such sum"),
)
"""What sums around neighbours elsewhere tell a client beside that."""

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


def claim_of(scheme: Scheme, averaging: Scheme, clients: int, hops: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: computes the sums of features.
        averaging: adds up the models; one that promises nothing sends them in the clear.
        clients: how many there are.
        hops: 1 or 2.
    """
    told = ONE_HOP if hops == 1 else (*ONE_HOP, *TWO_HOPS)
    return hop_target.claim_of(scheme, averaging, clients, told, PAIR_LEAKS)


SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test, as FedStruct (ICLR 2025, section 6) compares it."""

OWN_NOTES = (
    "A client of FedGCN is a silo of this report: it holds its nodes, their features and the edges with an end in it.",
    "With two hops a client also gets sums around neighbours elsewhere, which the attacks here do not read: that none "
    "is over fewer than k_min clients beside it is tested.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedGCNSubject(HopSubject):
    """FedGCN under one scheme for sums of features and one for models."""

    preset: AveragedPreset

    @property
    def claim(self) -> Claim:
        """That of both schemes."""
        return claim_of(self.schemes[NEIGHBOURS], self.schemes[SERVER], self.graph.num_silos, self.preset.hops)

    @property
    def job(self) -> Job:
        """Sums are exchanged, and models trained."""
        return clients_of(self.graph, self.schemes, self.preset, seed=self.seed, device=self.device)

    def exchange(self) -> RecordedRun:
        """The exchange of sums, run without training."""
        scheme = self.schemes[NEIGHBOURS]
        setting = HopSetting(1, scheme, rows=row_range(self.preset, scheme))
        return before_training(self.job, setting, _sums_of, f"{self.preset.hops} hops of FedGCN", self.seed)


def _sums_of(client: Program) -> tuple[Floats, Floats]:
    assert isinstance(client, FedGCNClient)
    return client.values, client.heard


def fedgcn_plan(method: FedGCN, asked: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    preset = fedgcn_preset(method.preset, method.hops).with_epochs(method.epochs)
    runs, graph = scheme_choices(asked, NEIGHBOURS), asked.load_graph(SPLIT, least=2)
    check_undirected(graph)
    for run in runs:
        check_sums(graph, run["schemes"])
    shared = asked.common_fields(graph, preset)
    return AuditPlan(
        tuple(FedGCNSubject(**shared, **run) for run in runs),
        CONTROLS,
        (*OWN_NOTES, *NOTES),
        messages=int(graph.crosses_silos.sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(preset.selection, graph),
        backbone="gcn",
    )
