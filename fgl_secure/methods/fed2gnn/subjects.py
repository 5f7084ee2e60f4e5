"""Fed2GNN under each scheme for its hop sums, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.claims import claim_of
from fgl_secure.methods.fed2gnn.configuration import Fed2GNN
from fgl_secure.methods.fed2gnn.grouping import sampled_neighbours
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.scenarios import CONTROLS, trained_hops
from fgl_secure.methods.fed2gnn.training import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.runtime import Claim
from fgl_secure.schemes import parse
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import check_selection

AVERAGING: Scheme = PairwiseMasking()
"""What adds up the models beside a protocol that hides messages, when no scheme is named."""

CLEAR = "plaintext"

SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (Fed2GNN, 5.1)."""

NOTES = (
    "A client of Fed2GNN is a silo of this report: it holds its nodes, their features and the edges with an end in it.",
    "Attacks read a second exchange of hop sums with the same seed, and so the same messages; what clients have of "
    "their own nodes is noted beside it.",
    "Models are added up by pairwise masking where hop sums are not in the clear, unless a scheme is named; what their "
    "sum tells the server is what federated averaging is audited for.",
    "A scheme that refuses small sums leaves nodes with neighbours at few clients without any: the more clients there "
    "are and the less they follow communities, the fewer.",
)


@dataclass(frozen=True, slots=True, eq=False)
class Fed2GNNSubject(Subject):
    """Fed2GNN under one scheme for hop sums and one for models.

    Attributes:
        method: checked choices.
        seed: of the sample of neighbours, weights and decoders.
        graph: who has what.
        preset: how to train.
        scheme: computes the hop sums.
        averaging: adds up the models.
        device: where model compute runs.
    """

    method: Fed2GNN
    seed: int
    graph: FederatedGraph
    preset: Fed2GNNPreset
    scheme: Scheme
    averaging: Scheme
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's for hop sums; with the one for models where that is another than goes with it."""
        if self.averaging == _usual(self.scheme):
            return self.scheme.name
        return f"neighbours={self.scheme.name},server={self.averaging.name}"

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.scheme, self.averaging, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """Hop sums are exchanged, and models trained."""
        return clients_of(
            self.graph,
            {NEIGHBOURS: self.scheme, SERVER: self.averaging},
            self.preset,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the exchange is run once more
        """The exchange of hop sums."""
        yield self._exchange()

    def _exchange(self) -> RecordedRun:
        run = trained_hops(
            self.graph,
            self.preset,
            self.scheme,
            self.averaging,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )
        return replace(run, protocol=self.name)

    def independent(self, seed: int) -> Subject:
        """On a graph whose nodes have swapped places inside their clients."""
        return replace(self, seed=seed, graph=self.graph.redealt(seed))

    def unprotected(self) -> tuple[Subject, ...]:
        """Hop sums and models in the clear."""
        return (replace(self, scheme=Plaintext(), averaging=Plaintext()),)

    def recorded(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The exchange of hop sums, which is run without training."""
        yield self._exchange()


def fed2gnn_plan(method: Fed2GNN, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    runs = [_schemes(method, run) for run in asked.runs]
    graph = asked.federated(SPLIT)
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fed2gnn; found {graph.num_silos}")
    chosen = fed2gnn_preset(method.preset, graph.graph.name, method.backbone).with_epochs(method.epochs)
    preset = chosen.with_trees(method.hops, method.neighbours)
    for scheme, averaging in runs:
        _check_run(graph, preset, scheme, averaging, asked.seed)
    check_selection(preset.name, preset.selection, graph)
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
        f"chosen on {preset.selection} accuracy",
        tuple(Fed2GNNSubject(method, asked.seed, graph, preset, *run, device) for run in runs),
        CONTROLS,
        NOTES,
    )


def _schemes(method: Fed2GNN, run: Mapping[str, Scheme]) -> tuple[Scheme, Scheme]:
    """What computes the hop sums, and what adds up the models: None in the clear."""
    named = run.get("neighbours") or parse(method.trained, ("neighbours",), method.usual)[1]
    if isinstance(named, SecretMessagePassing):
        raise InputError(
            "scheme must not be secmp for fed2gnn: the client that gets a sum would be the silo that decodes it, and "
            f"reads every part; found {named.name}"
        )
    return named, run.get("server", _usual(named))


def _usual(scheme: Scheme) -> Scheme:
    """What adds up the models where no scheme is named for them: in the clear beside sums in the clear."""
    return Plaintext() if scheme.label == CLEAR else AVERAGING


def _check_run(graph: FederatedGraph, preset: Fed2GNNPreset, scheme: Scheme, averaging: Scheme, seed: int) -> None:
    """Raises unless some sum can be computed, and models added up."""
    asked = sampled_neighbours(graph, preset.neighbours, seed)
    most = int(_clients_around(asked).max(initial=0))
    least = least_group(scheme)
    if 1 < least > most:
        raise InputError(
            f"k_min must leave some node a sum under {scheme.name}: neighbours at {least} other clients "
            f"or more; found at most {most} over {graph.num_silos} silos and {preset.neighbours} sampled neighbours"
        )
    averaging.threshold_for(graph.num_silos)


def _clients_around(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [n], at how many other clients each node has neighbours."""
    source, target = graph.edges[:, graph.crosses_silos]
    pairs = np.unique(target * graph.num_silos + graph.silo_of[source])
    return np.bincount(pairs // graph.num_silos, minlength=graph.num_devices).astype(np.int64)
