"""Federated averaging under each scheme for sums of updates: what it promises, and how an audit runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.auditing.method import AuditRequest
from fgl_secure.auditing.plan import AuditPlan, Subject, pooled_over
from fgl_secure.auditing.privacy_cost import CANARIES, MeasuredEpsilon, PrivacyCost
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import grid_rows
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.audit_runs import CONTROLS, attacked_round, gradient_model, one_round, with_fields
from fgl_secure.methods.fedavg.program import FedAvgClient as Program
from fgl_secure.methods.fedavg.program import LocalTraining, UpdateRule, batch_of, clients_of, draws_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Claim, Guarantee, Role, Secret, Strength, leaks
from fgl_secure.statistics.lower_bounds import gaussian_bound
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.presets import Preset, choice_of_round, preset
from fgl_secure.training.server_sums import promises, server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedavg.configuration import FedAvg


SUM_LEAKS = leaks(
    Role.SERVER,
    {
        DataSecret.LABEL: "the sum of the updates is exact and tells how often each label is trained on, by all "
        "clients together",
        DataSecret.TRAINING_NODE: "a party that knows a node's features can tell from the sum whether some client "
        "trains on it or next to it; whose node it is, the sum does not say",
        DataSecret.NODE_FEATURES: "where the batches of all clients together are small, rows can be read from their "
        "sum",
    },
)
"""What a sum tells, whatever computes it."""


def claim_of(rule: UpdateRule, clients: int) -> Claim:
    """The claim of a run.

    Args:
        rule: how updates become their mean; in plaintext it promises nothing.
        clients: how many there are.
    """
    inner = promises(rule.scheme, clients)
    if inner is None:
        return Claim((), (), ())
    private = () if rule.noise is None else (_private(rule.noise),)
    return Claim((*inner.guarantees, *private), (*inner.leaks_by_design, *SUM_LEAKS), inner.assumptions)


def _private(noise: DistributedNoise) -> Guarantee:
    """Leaks of the sum stay declared beside it: an epsilon of several rounds and few clients hides no batch."""
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1},
        Strength.DIFFERENTIAL_PRIVACY,
        f"({noise.epsilon:.4g}, {noise.delta:g})-differential privacy of one client's updates, present or all zero, "
        f"over {noise.rounds} rounds",
        "Kairouz, Liu and Steinke (ICML 2021), Theorem 1",
    )


def _measured_updates(noise: DistributedNoise, threshold: int, seed: int) -> MeasuredEpsilon:
    """Plays canaries against the noise of all rounds and says what they rule out.

    A canary is a client that sends C e_1 in every round, with the sign changed from round to round, into sums of as
    many clients as there must be, whose other updates are zero. The signed sum of what the server learns tells it
    from a client that sends nothing as well as the claimed noise permits.
    """
    settings = noise.perturbation(1, threshold)
    coins, canary = SimulationCoins(seed), grid_rows(np.array([[noise.clip]]), noise.clip, settings.fraction_bits).rows

    def scores(canary: int) -> NDArray[np.float64]:
        result = np.zeros(CANARIES)
        for number in range(noise.rounds):
            shares = settings.noise.sample(coins, (CANARIES, threshold))
            result += canary + (1 - 2 * (number % 2)) * shares.sum(axis=1)
        return result

    bound = gaussian_bound(scores(int(canary[0, 0])), scores(0), delta=noise.delta)
    return MeasuredEpsilon(noise.epsilon, "privacy loss distributions", bound)


DELTA = 1e-5
"""Of all rounds together."""

SMALL_BATCH = 4
"""Labelled nodes of a client in the second round that is attacked."""

SMALL = f"batches of {SMALL_BATCH}"
SINGLE = "single nodes, one layer"
"""What the rounds are called that are run for attacks alone."""

NOTES = (
    "A client is a silo of this report: it trains on the edges between its own nodes.",
    "A scheme with a kind of round in brackets was run for one such round, with a fresh model; the claim is the same, "
    "so what violates it there counts.",
    "Under a scheme the server's own knowledge, the sum of the updates, is noted with the transcript.",
    "Clients count the nodes that the model predicts right, and sum their losses; the sums of all clients choose the "
    "reported round, under the same scheme as updates. Noise is on updates alone: the sums of these figures are exact.",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedAvgSubject(Subject):
    """Federated averaging under one scheme.

    Attributes:
        noise: what clients add to updates; None for nothing.
        kind: makes a client's program.
    """

    method: FedAvg
    preset: Preset
    noise: DistributedNoise | None = None
    kind: Callable[..., Program] = Program
    apart: ClassVar = (SMALL, SINGLE)

    @property
    def rule(self) -> UpdateRule:
        """How updates become their mean."""
        return UpdateRule(self.schemes[SERVER], self.noise)

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what a sum tells whatever the scheme."""
        return claim_of(self.rule, self.graph.num_silos)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(
            self.graph, self.rule, self.preset, local_of(self.method), kind=self.kind, **self.model_options
        )

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Of noise on updates, if there is any."""
        noise, scheme = self.noise, self.schemes[SERVER]
        if noise is None:
            return None
        quiet = replace(self, noise=None, name=scheme.name, preset=self.preset.with_epochs(result.rounds))
        without = quiet.train(progress=progress(quiet.name))
        outcome = _measured_updates(noise, scheme.threshold_for(self.graph.num_silos), self.seed)
        return PrivacyCost(outcome, noise.delta, str(noise.target.relation), noise.rounds, without.accuracy.test)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, a round of small batches, and one of single nodes and a single layer."""
        graph, seed, local = self.graph, self.seed, local_of(self.method)
        model = gradient_model(graph, self.preset, local, self.method.backbone, seed)
        labelled = [devices[graph.train_mask[devices]] for devices in map(graph.devices_of, range(graph.num_silos))]
        batches = tuple(batch_of(nodes, local.batch, draws_of(seed, k, 0)) for k, nodes in enumerate(labelled))
        description = f"first round of training, {self.method.backbone}"
        yield attacked_round(result.transcript, self.graph, model, batches, self.name, description)
        yield self._small_round(SMALL, SMALL_BATCH, self.preset.layers)
        single = self._small_round(SINGLE, 1, 1)
        nodes = [batch.nodes for batch in single.truth(GradientTruth).batches]
        yield with_fields(single, self.graph.restricted_to_silos(), nodes)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places inside their clients, which train on others of them."""
        return self.brief(seed=seed, graph=self.graph.redealt(seed, split_apart=True))

    def unprotected_subjects(self) -> tuple[Subject, ...]:
        """One round in plaintext, without noise."""
        clear = Plaintext()
        return (self.brief(schemes={SERVER: clear}, name=clear.name, noise=None),)

    def shadow(self, graph: FederatedGraph, seed: int) -> Subject:
        """See `Subject.shadow`; clients add their noise."""
        made = Subject.shadow(self, graph, seed)
        return made if self.noise is None else replace(made, noise=self.noise, name=f"{made.name}+dp")  # type: ignore[call-arg]  # of this kind

    def _small_round(self, name: str, batch: int, layers: int) -> RecordedRun:
        return one_round(
            self.graph,
            replace(self.preset, layers=layers),
            self.rule,
            f"one round, {name}, {self.method.backbone}",
            label=f"{self.name}[{name}]",
            local=LocalTraining(batch=batch),
            backbone=self.method.backbone,
            seed=self.seed,
        )


def local_of(method: FedAvg) -> LocalTraining:
    """What a client does in a round."""
    return LocalTraining(method.local_steps, method.local_rate, method.batch, method.proximal)


def fedavg_plan(method: FedAvg, request: AuditRequest, kind: Callable[..., Program] = Program) -> AuditPlan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        method: its choices.
        request: what a caller asks of it.
        kind: makes a client's program.
    """
    local_of(method)
    graph = request.load_graph()
    training = preset("honest", graph.graph.name).with_epochs(method.epochs)
    noise = _noise(method, training.epochs)
    # Schemes, name and noise of each run.
    schemes = server_schemes(request.runs, graph.num_silos)
    named = request.named
    hiding = [scheme for scheme in schemes if promises(scheme, graph.num_silos) is not None]
    if noise is not None and named and len(hiding) < len(schemes):
        raise InputError("noise must go with a scheme other than plaintext, for a client adds a share of it alone")
    plain = [{"schemes": {SERVER: item}, "name": item.name} for item in schemes if noise is None or not named]
    noisy = [
        {"schemes": {SERVER: item}, "name": f"{item.name}+dp", "noise": UpdateRule(item, noise).noise}
        for item in hiding
    ]
    rules = plain if noise is None else plain + noisy
    shared = request.common_fields(graph, training)
    return AuditPlan(
        tuple(FedAvgSubject(**shared, **rule, kind=kind) for rule in rules),
        CONTROLS,
        NOTES,
        messages=int((~graph.crosses_silos).sum()),
        averaged=pooled_over(graph),
        chosen_on=choice_of_round(training.selection, graph),
        backbone=method.backbone,
    )


def _noise(method: FedAvg, rounds: int) -> DistributedNoise | None:
    if method.noise is None:
        return None
    return DistributedNoise.of_multiplier(method.noise, clip=method.clip, delta=DELTA, rounds=rounds)
