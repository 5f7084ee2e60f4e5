"""What FedStruct (ICLR 2025, section 6 and App. F) is compared with: the same models without shared structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import NoExchange
from fgl_secure.methods.fedstruct.preset import FeatureModelKind, FedStructPreset, Weighting
from fgl_secure.methods.fedstruct.program import FedStructClient, FedStructTask, clients_of
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Figures, Progress, TrainingResult
from fgl_secure.training.parameters import unflatten
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.typing import Array


class SharedParts(Enum):
    """What clients have in common."""

    EVERYTHING = "everything"
    """One party has all nodes and edges (Central)."""
    GRADIENTS = "gradients"
    """One model, trained on the sum of the clients' gradients on their local subgraphs (FedSGD)."""
    MODELS = "models"
    """Every client takes a step of its own in a round, and the models are averaged (FedAvg)."""
    NOTHING = "nothing"
    """Every client trains a model of its own (Local)."""


@dataclass(frozen=True, slots=True)
class FedStructBaseline:
    """A model and who trains it.

    Attributes:
        name: what tables call it.
        kind: of the model; None for a perceptron, which has no edges.
        sharing: what clients have in common.
    """

    name: str
    kind: FeatureModelKind | None
    sharing: SharedParts


CENTRAL_GNN = FedStructBaseline("Central GNN", FeatureModelKind.SAGE, SharedParts.EVERYTHING)
CENTRAL_DGCN = FedStructBaseline("Central DGCN", FeatureModelKind.DGCN, SharedParts.EVERYTHING)
CENTRAL_MLP = FedStructBaseline("Central MLP", None, SharedParts.EVERYTHING)
FEDAVG_GNN = FedStructBaseline("FedAvg GNN", FeatureModelKind.SAGE, SharedParts.MODELS)
FEDAVG_DGCN = FedStructBaseline("FedAvg DGCN", FeatureModelKind.DGCN, SharedParts.MODELS)
FEDAVG_MLP = FedStructBaseline("FedAvg MLP", None, SharedParts.MODELS)
FEDSGD_GNN = FedStructBaseline("FedSGD GNN", FeatureModelKind.SAGE, SharedParts.GRADIENTS)
FEDSGD_DGCN = FedStructBaseline("FedSGD DGCN", FeatureModelKind.DGCN, SharedParts.GRADIENTS)
FEDSGD_MLP = FedStructBaseline("FedSGD MLP", None, SharedParts.GRADIENTS)
LOCAL_GNN = FedStructBaseline("Local GNN", FeatureModelKind.SAGE, SharedParts.NOTHING)
LOCAL_DGCN = FedStructBaseline("Local DGCN", FeatureModelKind.DGCN, SharedParts.NOTHING)
LOCAL_MLP = FedStructBaseline("Local MLP", None, SharedParts.NOTHING)


class BaselineClient(FedStructClient):
    """A client that trains a model of its own, which is averaged with those of others or not.

    Args:
        comm: the collectives of the run.
        task: what is trained.
        averaged: whether models are averaged after each step.
        own_ends: whether clients are tested each with the model that its own last step left, which the mean of the last
            round comes too late for, and keep LayerNorms that are never averaged, as in the public code.
        rest: as for `FedStructClient`.
    """

    alone = True

    def __init__(
        self, comm: Collectives, task: FedStructTask, *, averaged: bool, own_ends: bool = False, **rest: Any
    ) -> None:
        super().__init__(comm, task, **rest)
        self._averaged, self._own_ends = averaged, own_ends

    def train(self, number: int) -> Figures:
        """The client's own step, and the mean of all models where they are averaged."""
        counts = self._counts(number)
        self.model.train()
        self.model.forget()
        loss = self.model.loss(self.scores())
        torch.autograd.backward(loss)
        self.model.step(self.model.gradient(), None)
        given = self._share * self.model.parameters()["theta"] if self._averaged else np.empty(0, dtype=np.float32)
        row, parts = np.append(given, float(loss.detach())), (len(given),) * bool(len(given))
        told, sums = self.comm.server(row, counts, parts=parts)
        if self._averaged and not (self._own_ends and number + 1 == self._preset.epochs):
            self._take(told[:-1])
        return Figures(float(told[-1]) / self.silo.facts.silos, sums, counts, self._score(sums, number))

    @property
    def _share(self) -> float:
        """What the client's model weighs in the mean over clients."""
        facts = self.silo.facts
        if self._preset.weighting is Weighting.LABELLED:
            return int(self.silo.train.sum()) / max(facts.labelled, 1)
        return len(self.silo.nodes) / facts.nodes

    def _take(self, theta: Array) -> None:
        """Goes on with the mean over clients, except for LayerNorms that stay."""
        modules = self.model.models.modules() if self._own_ends else ()
        staying = {id(leaf) for module in modules if isinstance(module, nn.LayerNorm) for leaf in module.parameters()}
        with torch.no_grad():
            for leaf, values in zip(self.model.theta, unflatten(theta, self.model.theta), strict=True):
                if id(leaf) not in staying:
                    leaf.copy_(values)


def baseline_job(
    baseline: FedStructBaseline,
    graph: FederatedGraph,
    preset: FedStructPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    own_ends: bool | None = None,
) -> Job:
    """A baseline's clients; arguments as for `train_baseline`."""
    chosen = replace(preset, feature_model=baseline.kind or FeatureModelKind.DGCN)
    chosen = chosen if baseline.kind else replace(chosen, feature_hops=0)
    task = FedStructTask(chosen, NoExchange(), seed=seed)
    if baseline.sharing in (SharedParts.EVERYTHING, SharedParts.GRADIENTS):
        return clients_of(graph, task, device=device)
    ends = preset.name == "paper" if own_ends is None else own_ends
    averaged = baseline.sharing is SharedParts.MODELS
    return clients_of(graph, task, device=device, kind=partial(BaselineClient, averaged=averaged, own_ends=ends))


def train_baseline(
    baseline: FedStructBaseline,
    graph: FederatedGraph,
    preset: FedStructPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
    own_ends: bool | None = None,
) -> TrainingResult:
    """Trains a baseline and selects a round as the preset says; one round is reported for all clients.

    Args:
        baseline: the model and who trains it.
        graph: who has what, with all edges.
        preset: how to train; the baseline says which kind of model.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
        own_ends: see `BaselineClient`; None has it under the `paper` preset.
    """
    seen = graph.in_one_silo() if baseline.sharing is SharedParts.EVERYTHING else graph
    if baseline.sharing is SharedParts.NOTHING:
        _check_labelled(seen)
    channel = Channel(hierarchy_of(seen), SimulationCoins(seed))
    job = baseline_job(baseline, seen, preset, seed=seed, device=device, own_ends=own_ends)
    return job.train(channel, progress)


def _check_labelled(graph: FederatedGraph) -> None:
    idle = np.flatnonzero(np.bincount(graph.silo_of[graph.train_mask], minlength=graph.num_silos) == 0)
    if len(idle):
        raise InputError(f"masks.train must mark at least one node of every client; client {idle[0]} has none")
