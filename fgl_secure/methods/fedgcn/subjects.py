"""FedGCN under each scheme for its sums, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import Plan
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.grouping import check_undirected
from fgl_secure.methods.fed2gnn.hop_subjects import NOTES, HopSubject, check_sums, schemes_of
from fgl_secure.methods.fed2gnn.hop_sums import Reals
from fgl_secure.methods.fed2gnn.scenarios import CONTROLS, HopSetting, before_training
from fgl_secure.methods.fedgcn import program
from fgl_secure.methods.fedgcn.claims import claim_of
from fgl_secure.methods.fedgcn.configuration import FedGCN
from fgl_secure.methods.fedgcn.preset import fedgcn_preset
from fgl_secure.methods.fedgcn.training import clients_of, row_range
from fgl_secure.runtime import Claim
from fgl_secure.training.job import Job
from fgl_secure.training.loop import compute_device
from fgl_secure.training.presets import AveragedPreset, choice_of_round
from fgl_secure.training.program import Program

SPLIT = (0.1, 0.1, 0.8)
"""Shares of the nodes that train, validate and test, as FedStruct (ICLR 2025, section 6) compares it."""

OWN_NOTES = (
    "A client of FedGCN is a silo of this report: it holds its nodes, their features and the edges with an end in it.",
    "With two hops a client also gets sums around neighbours elsewhere, which the attacks here do not read: that none "
    "is over fewer than k_min clients beside it is tested.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedGCNSubject(HopSubject):
    """FedGCN under one scheme for sums of features and one for models.

    Attributes:
        preset: how to train.
    """

    preset: AveragedPreset

    @property
    def claims(self) -> Mapping[str, Claim]:
        """That of both schemes."""
        return {self.name: claim_of(self.scheme, self.averaging, self.graph.num_silos, self.preset.hops)}

    @property
    def job(self) -> Job:
        """Sums are exchanged, and models trained."""
        return clients_of(self.graph, self.schemes, self.preset, seed=self.seed, device=self.device)

    def exchange(self) -> RecordedRun:
        """The exchange of sums, run without training."""
        setting = HopSetting(1, self.scheme, rows=row_range(self.preset, self.scheme))
        return before_training(self.job, setting, _sums_of, f"{self.preset.hops} hops of FedGCN", self.seed)


def _sums_of(client: Program) -> tuple[Reals, Reals]:
    assert isinstance(client, program.FedGCN)
    return client.values, client.heard


def fedgcn_plan(method: FedGCN, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    preset = fedgcn_preset(method.preset, method.hops).with_epochs(method.epochs)
    runs = [schemes_of(method, run) for run in asked.runs]
    graph = asked.federated(SPLIT)
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fedgcn; found {graph.num_silos}")
    check_undirected(graph)
    for run in runs:
        check_sums(graph, *run)
    return Plan(
        method.name,
        "gcn",
        asked.seed,
        graph,
        int(graph.crosses_silos.sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(preset.selection, graph),
        tuple(FedGCNSubject(asked.seed, graph, *run, device, preset) for run in runs),
        CONTROLS,
        (*OWN_NOTES, *NOTES),
    )
