"""FED-PUB under each scheme for its averages, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedpub.claims import claim_of
from fgl_secure.methods.fedpub.configuration import FedPub
from fgl_secure.methods.fedpub.preset import FedPubPreset, fedpub_preset
from fgl_secure.methods.fedpub.scenarios import CONTROLS, first_round
from fgl_secure.methods.fedpub.training import CLEAR, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import Claim
from fgl_secure.schemes import parse
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import choice_of_round

NOTES = (
    "A client of FED-PUB is a silo of this report: it trains on the edges between its own nodes, and predicts with "
    "masked weights of its own.",
    "Attacks read the first round of training once more with the same seed, where all clients begin with one model.",
    "Every client attacks alone: two that pool their averages have two sums of the same models, and as many clients as "
    "are left solve for all of them, which is declared and tested.",
    "Losses and counts of right predictions, which choose the reported round, are sums for the server.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedPubSubject(Subject):
    """FED-PUB under one scheme for averages and one for figures.

    Attributes:
        seed: of all that is drawn.
        graph: who has what.
        averages: computes each client's average.
        figures: adds up what the server is told.
        device: where model compute runs.
        preset: how to train.
    """

    seed: int
    graph: FederatedGraph
    averages: Scheme
    figures: Scheme
    device: torch.device
    preset: FedPubPreset

    @property
    def name(self) -> str:
        """The scheme's for averages; with the one for figures where that is another than goes with it."""
        if self.figures == usual_for(self.averages):
            return self.averages.name
        return f"clients={self.averages.name},server={self.figures.name}"

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.averages, self.figures, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        schemes = {CLIENTS: self.averages, SERVER: self.figures}
        return clients_of(self.graph, schemes, self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the round is run once more
        """The first round."""
        return self.recorded(self.seed)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places, and whose clients have the next one's."""
        graph = self.graph.redealt(seed, split_apart=True, clients_too=True)
        return replace(self, seed=seed, graph=graph, preset=self.preset.with_epochs(RECORDED_ROUNDS))

    def unprotected(self) -> tuple[Subject, ...]:
        """One round in the clear."""
        return (replace(self, averages=Plaintext(), figures=Plaintext()),)

    def recorded(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The first round, which is run for attacks alone."""
        yield first_round(self.job, self.preset, self.name, "first round of training", self.seed)


def usual_for(averages: Scheme) -> Scheme:
    """What adds up figures where no scheme is named for them: in the clear beside averages in the clear."""
    return Plaintext() if averages.label == CLEAR else PairwiseMasking()


def schemes_of(method: FedPub, run: Mapping[str, Scheme]) -> tuple[Scheme, Scheme]:
    """What computes the averages, and what adds up figures."""
    averages = run.get(CLIENTS) or parse(method.trained, (CLIENTS,), method.usual)[1]
    return averages, run.get(SERVER, usual_for(averages))


def fedpub_plan(method: FedPub, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    preset = fedpub_preset(method.preset).with_epochs(method.epochs)
    preset = replace(
        preset,
        local_steps=method.local_steps or preset.local_steps,
        temperature=preset.temperature if method.temperature is None else method.temperature,
        sparsity=preset.sparsity if method.sparsity is None else method.sparsity,
    )
    runs = [schemes_of(method, run) for run in asked.runs]
    graph = asked.federated()
    for averages, figures in runs:
        clients_of(graph, {CLIENTS: averages}, preset)  # checks alone
        averages.threshold_for(graph.num_silos - 1)
        figures.threshold_for(graph.num_silos)
    return Plan(
        method.name,
        "gcn",
        asked.seed,
        graph,
        int((~graph.crosses_silos).sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(preset.selection, graph),
        tuple(FedPubSubject(asked.seed, graph, *run, device, preset) for run in runs),
        CONTROLS,
        NOTES,
    )
