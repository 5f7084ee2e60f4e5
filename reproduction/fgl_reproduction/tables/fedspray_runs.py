"""What FedSpray's tables and figures (KDD 2024) run: who has what, and one run of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.datasets.fedspray_clients import fedspray_partition, kept_clients, louvain_floor
from fgl_reproduction.tables.fedspray_baselines import Baseline, PlainClient, plain_clients
from fgl_reproduction.tables.table import Choices, Metric
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods.fedspray.client import clients_of
from fgl_secure.methods.fedspray.preset import FedSprayPreset, fedspray_preset
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.program import Program

OVERALL = Metric("accuracy (%)", 2)
MINORITY = Metric("minority accuracy (%)", 2)
Changes = tuple[tuple[str, object], ...]
"""Fields of a preset and what they are instead."""
FLOOR = 1000
"""Least nodes of a community that becomes a client, or a twentieth of the graph if that is less."""


class NodePartition(StrEnum):
    """Who has which nodes; the value is what tables call it."""

    PUBLISHED = "published clients"
    LOUVAIN = "own Louvain"

    def load_graph(self, data: Graph, seed: int, data_root: Path | None) -> FederatedGraph:
        """The data set among these clients; the seed repeats communities and split."""
        client_of = (
            _load_partition(data.name, data_root) if self is NodePartition.PUBLISHED else _communities(data, seed)
        )
        return kept_clients(data, client_of, seed, partition=self.value)


@dataclass(frozen=True, slots=True)
class FedSprayRun:
    """One run of FedSpray, as a measure.

    Attributes:
        backbone: "gcn", "sgc" or "sage".
        clients: who has what.
        changes: fields of the preset that are other ones here.
    """

    backbone: str
    clients: NodePartition
    changes: Changes = ()

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        preset, graph = (
            choose_preset(data, choices, self.changes),
            self.clients.load_graph(data, seed, choices.data_root),
        )
        clients = clients_of(graph, Plaintext(), preset, backbone=self.backbone, seed=seed, device=choices.place)
        return _accuracies(clients.train())


@dataclass(frozen=True, slots=True)
class FedSprayBaselineRun:
    """One run of a baseline, as a measure.

    Attributes:
        baseline: what clients have in common.
        backbone: "gcn", "sgc", "sage" or "mlp".
        clients: who has what.
        changes: fields of the preset that are other ones here.
    """

    baseline: Baseline
    backbone: str
    clients: NodePartition
    changes: Changes = ()

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        return _accuracies(self.job(data, choices, seed).train())

    def job(self, data: Graph, choices: Choices, seed: int) -> Job:
        """The clients."""
        preset = choose_preset(data, choices, self.changes)
        graph = self.clients.load_graph(data, seed, choices.data_root)
        return plain_clients(
            self.baseline, graph, Plaintext(), preset, backbone=self.backbone, seed=seed, device=choices.place
        )


@dataclass(frozen=True, slots=True)
class MinorityRun:
    """One run of FedAvg, as a measure of every client: the accuracy over its minority test nodes (Figure 2).

    Attributes:
        backbone: "gcn", "sgc", "sage" or "mlp".
    """

    backbone: str

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        run, shares = FedSprayBaselineRun(Baseline.FEDAVG, self.backbone, NodePartition.PUBLISHED), list[float]()

        def see(programs: tuple[Program, ...]) -> None:
            shares[:] = [program.own_minority for program in programs if isinstance(program, PlainClient)]

        result = replace(run.job(data, choices, seed), shown=see).train()
        overall = {OVERALL: _accuracies(result)[OVERALL]}
        return overall | {minority_of(client): 100 * share for client, share in enumerate(shares, 1)}


def minority_of(client: int) -> Metric:
    """The accuracy over a client's minority test nodes; clients count from 1."""
    return Metric(f"minority accuracy, client {client} (%)", 2)


def choose_preset(data: Graph, choices: Choices, changes: Changes = ()) -> FedSprayPreset:
    """The preset that the choices name, except for some of its fields; the choices' own number of rounds comes last.

    Raises:
        InputError: a scheme was chosen, which makes no difference to accuracies: sums are exact.
    """
    choices.check_plaintext()
    preset: FedSprayPreset = replace(fedspray_preset(choices.preset, data.name), **dict(changes))  # type: ignore[arg-type]
    return preset.with_epochs(choices.epochs)


def _accuracies(result: TrainingResult) -> Mapping[Metric, float]:
    assert result.accuracy.test is not None
    return {OVERALL: 100 * result.accuracy.test, MINORITY: 100 * float(result.report["minority"])}


@lru_cache(maxsize=2)
def _load_partition(name: str, data_root: Path | None) -> NDArray[np.int64]:
    return fedspray_partition(name, data_root)


@lru_cache(maxsize=8)
def _communities(data: Graph, seed: int) -> NDArray[np.int64]:
    """Louvain takes half a minute for Physics, and nine cases share a seed."""
    return louvain_floor(data, min(FLOOR, data.num_nodes // 20), seed)
