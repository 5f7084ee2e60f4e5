"""FedStar under each scheme for sums of structure encoders, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstar.claims import claim_of
from fgl_secure.methods.fedstar.configuration import FedStar
from fgl_secure.methods.fedstar.preset import FedStarPreset, fedstar_preset
from fgl_secure.methods.fedstar.scenarios import CONTROLS, attacked_round
from fgl_secure.methods.fedstar.training import clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Claim
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import server_schemes

NOTES = (
    "A client of FedStar is a silo of this report: it trains on the edges between its own nodes, and predicts with a "
    "model of its own, of which the structure encoder is common.",
    "Attacks read the first round of training, before which the server knows the encoder and not the rest of a model.",
    "Losses and counts of right predictions, which choose the reported round, are sums under the same scheme.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedStarSubject(Subject):
    """FedStar under one scheme.

    Attributes:
        seed: of all that is drawn.
        graph: who has what.
        scheme: adds up structure encoders, and figures.
        preset: how to train.
        device: where model compute runs.
    """

    seed: int
    graph: FederatedGraph
    scheme: Scheme
    preset: FedStarPreset
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's."""
        return self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What the scheme promises for so many clients, and what a mean tells whatever the scheme."""
        return {self.name: claim_of(self.scheme, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        return clients_of(self.graph, self.scheme, self.preset, seed=self.seed, device=self.device)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round."""
        what = "first round of training"
        yield attacked_round(result.transcript, self.graph, self.preset, self.name, what, self.seed)

    def independent(self, seed: int) -> Subject:
        """One round on a graph whose nodes have swapped places and moved on by a client."""
        graph = self.graph.redealt(seed, split_apart=True, clients_too=True)
        return replace(self, seed=seed, graph=graph, preset=self.preset.with_epochs(RECORDED_ROUNDS))

    def unprotected(self) -> tuple[Subject, ...]:
        """One round in the clear."""
        return (replace(self, scheme=Plaintext(), preset=self.preset.with_epochs(RECORDED_ROUNDS)),)


def fedstar_plan(method: FedStar, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device, preset = compute_device(asked.device), fedstar_preset(method.preset).with_epochs(method.epochs)
    chosen = {name: getattr(method, name) or getattr(preset, name) for name in ("local_steps", "walks", "degrees")}
    preset = replace(preset, **chosen)
    graph = asked.federated()
    schemes = server_schemes(asked.runs, graph.num_silos)
    return Plan(
        method.name,
        "gin",
        asked.seed,
        graph,
        int((~graph.crosses_silos).sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(preset.selection, graph),
        tuple(FedStarSubject(asked.seed, graph, scheme, preset, device) for scheme in schemes),
        CONTROLS,
        NOTES,
    )
