"""FedVN under each scheme for sums of updates: what it promises, and how it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.wording import Score
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods.fedvn.audit_runs import CONTROLS, ROUNDS, TrainingSetting, as_attacked, recording_under
from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, fedvn_preset
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Guarantee,
    Leak,
    Recording,
    Role,
    Secret,
    leaks,
)
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import promises, server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedvn.configuration import FedVN


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
        "clients together",
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
        scheme: how summands are added up; one that promises nothing sends them in the clear.
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
        """Everything of these rounds, and in the clear the summands."""
        return recording_under(self.schemes[SERVER])

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first rounds of training."""
        yield as_attacked(self.setting, result.transcript, self.name, "first rounds of training")

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
