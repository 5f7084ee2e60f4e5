"""GCFL+ under each scheme for sums of updates: federated averaging in clusters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from fgl_reproduction.methods.gcfl.clusters import ClusterRule, GCFLClient
from fgl_reproduction.methods.gcfl.configuration import GCFL
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.methods.fedavg.audit_target import FedAvgSubject, claim_of, fedavg_plan
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret

NOTES = (
    "Attacks read the first round, in which all clients are in one cluster, and rounds that are run for them alone.",
    "Norms of all clients' updates are told to the server and to every client in all rounds, whatever adds updates up.",
)

CLUSTER_LEAKS = tuple(
    Leak(
        DataSecret.LABEL_SHARES,
        role,
        Circumstance.ANY,
        f"{who} learns the norm of each client's update, round by round, and who is in which cluster: clients of a "
        "cluster are those whose updates went alike",
    )
    for role, who in ((Role.SERVER, "the server"), (Role.SILO, "every client"))
)
"""What clusters are found by, whatever adds updates up."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GCFLSubject(FedAvgSubject):
    """GCFL+ under one scheme.

    Attributes:
        least: fewest clients of a cluster.
    """

    least: int = 1

    @property
    def claim(self) -> Claim:
        """That of federated averaging, said of a cluster's mean."""
        return cluster_claim(claim_of(self.rule, self.graph.num_silos), self.least)


def cluster_claim(claim: Claim, least: int) -> Claim:
    """What is promised of one sum over all clients, said of sums over clusters.

    Args:
        claim: of federated averaging.
        least: fewest clients of a cluster; of one, its sum is a model.
    """
    if not claim.guarantees:
        return Claim((), CLUSTER_LEAKS, claim.assumptions)
    kept = tuple(_of_clusters(guarantee, least) for guarantee in claim.guarantees if least > 1)
    alone = () if least > 1 else (_ALONE,)
    return Claim(kept, (*claim.leaks_by_design, *alone, *CLUSTER_LEAKS), claim.assumptions)


_ALONE = Leak(
    Secret.SUMMAND, Role.SERVER, Circumstance.ANY, "a cluster may be one client, whose update is then told to everybody"
)


def _of_clusters(inner: Guarantee, least: int) -> Guarantee:
    """Where all but one of a cluster pool what they have, the mean tells the last one's update."""
    limits = {Role.SILO: least - 2}
    coalition = {role: min(count, limits.get(role, count)) for role, count in inner.coalition.items()}
    statement = f"{inner.statement}; a sum is over one cluster, of {least} clients at least"
    remaining = {role: count for role, count in coalition.items() if count > 0}
    return replace(inner, coalition=remaining, statement=statement)


def gcfl_plan(method: GCFL, request: AuditRequest) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run."""
    rule = ClusterRule(method.mean_norm, method.largest_norm, method.length, method.after, method.least)
    plan = fedavg_plan(method, request, partial(GCFLClient, rule=rule))
    subjects = tuple(_subject(subject, method.least) for subject in plan.subjects if isinstance(subject, FedAvgSubject))
    return replace(plan, subjects=subjects, notes=(*plan.notes, *NOTES))


def _subject(averaging: FedAvgSubject, least: int) -> GCFLSubject:
    same: dict[str, Any] = {field.name: getattr(averaging, field.name) for field in fields(averaging)}
    return GCFLSubject(**same, least=least)
