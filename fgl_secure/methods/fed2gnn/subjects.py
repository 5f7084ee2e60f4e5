"""Fed2GNN under each scheme for its hop sums, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import Plan
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.claims import claim_of
from fgl_secure.methods.fed2gnn.grouping import sampled_neighbours
from fgl_secure.methods.fed2gnn.hop_subjects import NOTES, HopSubject, check_sums, schemes_of
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.scenarios import CONTROLS, trained_hops
from fgl_secure.methods.fed2gnn.training import clients_of
from fgl_secure.runtime import Claim
from fgl_secure.training.job import Job
from fgl_secure.training.loop import compute_device
from fgl_secure.training.presets import choice_of_round

if TYPE_CHECKING:
    from fgl_secure.methods.fed2gnn.configuration import Fed2GNN

SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (Fed2GNN, 5.1)."""

CLIENT_NOTE = (
    "A client of Fed2GNN is a silo of this report: it holds its nodes, their features and the edges with an end in it."
)


@dataclass(frozen=True, slots=True, eq=False)
class Fed2GNNSubject(HopSubject):
    """Fed2GNN under one scheme for hop sums and one for models.

    Attributes:
        method: checked choices.
        preset: how to train.
    """

    method: Fed2GNN
    preset: Fed2GNNPreset

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.scheme, self.averaging, self.graph.num_silos)}

    @property
    def job(self) -> Job:
        """Hop sums are exchanged, and models trained."""
        return clients_of(
            self.graph,
            self.schemes,
            self.preset,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )

    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""
        return trained_hops(
            self.graph,
            self.preset,
            self.scheme,
            self.averaging,
            backbone=self.method.backbone,
            seed=self.seed,
            device=self.device,
        )


def fed2gnn_plan(method: Fed2GNN, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    runs = [schemes_of(method, run) for run in asked.runs]
    graph = asked.federated(SPLIT)
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fed2gnn; found {graph.num_silos}")
    chosen = fed2gnn_preset(method.preset, graph.graph.name, method.backbone).with_epochs(method.epochs)
    preset = chosen.with_trees(method.hops, method.neighbours)
    sampled = sampled_neighbours(graph, preset.neighbours, asked.seed)
    for run in runs:
        check_sums(sampled, *run, f" and {preset.neighbours} sampled neighbours")
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
        choice_of_round(preset.selection, graph),
        tuple(Fed2GNNSubject(asked.seed, graph, *run, device, method, preset) for run in runs),
        CONTROLS,
        (CLIENT_NOTE, *NOTES),
    )
