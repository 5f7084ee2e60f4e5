"""What FedStruct (ICLR 2025, section 6 and App. F) is compared with: the same models without shared structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedstruct.presets import FeatureModelKind, FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct, Trainee
from fgl_secure.methods.fedstruct.training import run_rounds
from fgl_secure.runtime import Step
from fgl_secure.training.loop import Progress, TrainingResult


class Sharing(Enum):
    """What clients have in common."""

    EVERYTHING = "everything"
    """One party has all nodes and edges (Central)."""
    GRADIENTS = "gradients"
    """One model, trained on the sum of the clients' gradients on their local subgraphs (FedSGD)."""
    NOTHING = "nothing"
    """Every client trains a model of its own (Local)."""


@dataclass(frozen=True, slots=True)
class FedStructBaseline:
    """A model and who trains it.

    Attributes:
        name: what tables call it.
        kind: of the model.
        sharing: what clients have in common.
    """

    name: str
    kind: FeatureModelKind
    sharing: Sharing


CENTRAL_GNN = FedStructBaseline("Central GNN", FeatureModelKind.SAGE, Sharing.EVERYTHING)
CENTRAL_MLP = FedStructBaseline("Central MLP", FeatureModelKind.MLP, Sharing.EVERYTHING)
FEDSGD_GNN = FedStructBaseline("FedSGD GNN", FeatureModelKind.SAGE, Sharing.GRADIENTS)
FEDSGD_DGCN = FedStructBaseline("FedSGD DGCN", FeatureModelKind.DGCN, Sharing.GRADIENTS)
LOCAL_GNN = FedStructBaseline("Local GNN", FeatureModelKind.SAGE, Sharing.NOTHING)
LOCAL_MLP = FedStructBaseline("Local MLP", FeatureModelKind.MLP, Sharing.NOTHING)


def train_baseline(
    baseline: FedStructBaseline,
    graph: FederatedGraph,
    preset: FedStructPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains a baseline and selects a round as the preset says; one round is reported for all clients.

    Args:
        baseline: the model and who trains it.
        graph: who has what, with all edges.
        preset: how to train; the baseline says which kind of model.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
    """
    chosen = replace(preset, feature_model=baseline.kind)
    if baseline.sharing is Sharing.NOTHING:
        return run_rounds(LocalModels(graph, chosen, seed, device), graph, chosen, progress=progress)
    seen = graph.in_one_silo() if baseline.sharing is Sharing.EVERYTHING else graph
    return run_rounds(FedStruct(seen, chosen, None, seed=seed, device=device), seen, chosen, progress=progress)


class LocalModels(Trainee):
    """A model for each client, trained on its own subgraph.

    Args:
        graph: who has what.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs.
    """

    def __init__(self, graph: FederatedGraph, preset: FedStructPreset, seed: int, device: torch.device | None) -> None:
        self._members = [graph.devices_of(client) for client in range(graph.num_silos)]
        self._shape = graph.num_devices, graph.num_classes
        self._models = [
            FedStruct(alone(graph, client), preset, None, seed=seed, device=device) for client in range(graph.num_silos)
        ]

    @property
    def parameters(self) -> int:
        """Of one client's model."""
        return self._models[0].parameters

    def round(self, number: int) -> float:
        """One step of every client; the mean of their losses."""
        return float(np.mean([model.round(number) for model in self._models]))

    def predict(self, step: Step) -> torch.Tensor:
        """The scores of all nodes by their own clients' models; a class that a client has no node of has score -inf."""
        n, classes = self._shape
        scores = torch.full((n, classes), -torch.inf)
        for members, model in zip(self._members, self._models, strict=True):
            own = model.predict(step).cpu()
            padded = functional.pad(own, (0, classes - own.shape[1]), value=-torch.inf)
            scores[torch.from_numpy(members)] = padded
        return scores


def alone(graph: FederatedGraph, client: int) -> FederatedGraph:
    """The nodes of one client, renumbered from 0, with the edges between them."""
    members = graph.devices_of(client)
    if not graph.train_mask[members].any():
        raise InputError(f"masks.train must mark at least one node of every client; client {client} has none")
    number = np.full(graph.num_devices, -1, dtype=np.int64)
    number[members] = np.arange(len(members))
    edges = number[graph.edges]
    inside = edges[:, (edges >= 0).all(axis=0)]
    own = Graph.from_arrays(graph.graph.name, graph.features[members], graph.labels[members], inside)
    masks = SplitMasks(graph.train_mask[members], graph.validation_mask[members], graph.test_mask[members])
    return FederatedGraph.from_assignment(own, np.zeros(len(members), dtype=np.int64), masks, "none")
