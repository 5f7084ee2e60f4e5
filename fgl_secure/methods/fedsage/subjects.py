"""FedSage+ under each scheme for its sums, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedsage.claims import claim_of
from fgl_secure.methods.fedsage.configuration import FedSage
from fgl_secure.methods.fedsage.preset import FedSagePreset, fedsage_preset
from fgl_secure.methods.fedsage.scenarios import CONTROLS, generator_run
from fgl_secure.methods.fedsage.training import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import Claim
from fgl_secure.schemes import parse
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import choice_of_round

SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test, as FedStruct (ICLR 2025, section 6) compares it."""

CLEAR = "plaintext"
AVERAGING: Scheme = PairwiseMasking()
"""What adds up the models beside gradients that are hidden, when no scheme is named."""

NOTES = (
    "A client of FedSage+ is a silo of this report: it holds its nodes, their features and the edges between them; "
    "edges to other clients are lost.",
    "Attacks read the first round in which generators are trained together. Models are averaged in later rounds; what "
    "their sum tells the server is what federated averaging is audited for.",
    "Embeddings under noise and generators go to all other clients in the clear under every scheme; no attack here is "
    "on them, and what they tell is declared.",
    "Losses of the first rounds are those of generators; no model is scored in them.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedSageSubject(Subject):
    """FedSage+ under one scheme for gradients of generators and one for models.

    Attributes:
        seed: of all that is drawn.
        graph: who has what.
        gradients: adds up gradients of generators.
        averaging: adds up models.
        preset: how to train.
        device: where model compute runs.
    """

    seed: int
    graph: FederatedGraph
    gradients: Scheme
    averaging: Scheme
    preset: FedSagePreset
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's for gradients; with the one for models where that is another than goes with it."""
        if self.averaging == usual_for(self.gradients):
            return self.gradients.name
        return f"clients={self.gradients.name},server={self.averaging.name}"

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.gradients, self.averaging, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        schemes = {CLIENTS: self.gradients, SERVER: self.averaging}
        return clients_of(self.graph, schemes, self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round for generators."""
        what = "first round for generators"
        yield generator_run(self.graph, self.preset, self.gradients, result.transcript, self.name, what)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places and moved on by a client."""
        return replace(self._brief(), seed=seed, graph=self.graph.redealt(seed, clients_too=True))

    def unprotected(self) -> tuple[Subject, ...]:
        """One round with gradients and models in the clear."""
        return (replace(self._brief(), gradients=Plaintext(), averaging=Plaintext()),)

    def _brief(self) -> FedSageSubject:
        most = min(self.preset.rounds_together, RECORDED_ROUNDS)
        return replace(self, preset=self.preset.with_generator(most, None).with_epochs(1))


def usual_for(gradients: Scheme) -> Scheme:
    """What adds up models where no scheme is named for them: in the clear beside gradients in the clear."""
    return Plaintext() if gradients.label == CLEAR else AVERAGING


def schemes_of(method: FedSage, run: Mapping[str, Scheme]) -> tuple[Scheme, Scheme]:
    """What adds up gradients of generators, and what adds up models."""
    named = run.get(CLIENTS) or parse(method.trained, (CLIENTS,), method.usual)[1]
    return named, run.get(SERVER, usual_for(named))


def fedsage_plan(method: FedSage, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    preset = fedsage_preset(method.preset).with_generator(method.generator_rounds, method.generated)
    preset = preset.with_epochs(method.epochs)
    runs = [schemes_of(method, run) for run in asked.runs]
    graph = asked.federated(SPLIT)
    for run in runs:
        _check_clients(graph, *run)
    return Plan(
        method.name,
        "sage",
        asked.seed,
        graph,
        int((~graph.crosses_silos).sum()),
        preset.name,
        preset.rounds_together + preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(preset.selection, graph),
        tuple(FedSageSubject(asked.seed, graph, *run, preset, device) for run in runs),
        CONTROLS,
        NOTES,
    )


def _check_clients(graph: FederatedGraph, gradients: Scheme, averaging: Scheme) -> None:
    """Refuses fewer clients than sums need: one has nobody to ask, and a hidden sum of one gradient is that one."""
    least = 2 if gradients.label == CLEAR else 3
    if graph.num_silos < least:
        raise InputError(f"silos must be at least {least} for fedsage under {gradients.name}; found {graph.num_silos}")
    averaging.threshold_for(graph.num_silos)
