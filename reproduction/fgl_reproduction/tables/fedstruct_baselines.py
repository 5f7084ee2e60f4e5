"""What FedStruct (ICLR 2025, section 6 and App. F) is compared with: the same models without shared structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import NoExchange
from fgl_secure.methods.fedstruct.preset import FeatureModelKind, FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStructTask, clients_of
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.parties import hierarchy_of


class Sharing(Enum):
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
        kind: of the model.
        sharing: what clients have in common.
    """

    name: str
    kind: FeatureModelKind
    sharing: Sharing


CENTRAL_GNN = FedStructBaseline("Central GNN", FeatureModelKind.SAGE, Sharing.EVERYTHING)
CENTRAL_DGCN = FedStructBaseline("Central DGCN", FeatureModelKind.DGCN, Sharing.EVERYTHING)
CENTRAL_MLP = FedStructBaseline("Central MLP", FeatureModelKind.MLP, Sharing.EVERYTHING)
FEDAVG_GNN = FedStructBaseline("FedAvg GNN", FeatureModelKind.SAGE, Sharing.MODELS)
FEDAVG_DGCN = FedStructBaseline("FedAvg DGCN", FeatureModelKind.DGCN, Sharing.MODELS)
FEDAVG_MLP = FedStructBaseline("FedAvg MLP", FeatureModelKind.MLP, Sharing.MODELS)
FEDSGD_GNN = FedStructBaseline("FedSGD GNN", FeatureModelKind.SAGE, Sharing.GRADIENTS)
FEDSGD_DGCN = FedStructBaseline("FedSGD DGCN", FeatureModelKind.DGCN, Sharing.GRADIENTS)
FEDSGD_MLP = FedStructBaseline("FedSGD MLP", FeatureModelKind.MLP, Sharing.GRADIENTS)
LOCAL_GNN = FedStructBaseline("Local GNN", FeatureModelKind.SAGE, Sharing.NOTHING)
LOCAL_DGCN = FedStructBaseline("Local DGCN", FeatureModelKind.DGCN, Sharing.NOTHING)
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
    seen = graph.in_one_silo() if baseline.sharing is Sharing.EVERYTHING else graph
    exchange = NoExchange(baseline.sharing is not Sharing.NOTHING, averaged=baseline.sharing is Sharing.MODELS)
    if not exchange.together:
        _check_labelled(seen)
    channel = Channel(hierarchy_of(seen), SimulationCoins(seed))
    return clients_of(seen, FedStructTask(chosen, exchange, seed=seed), device=device).train(channel, progress)


def _check_labelled(graph: FederatedGraph) -> None:
    idle = np.flatnonzero(np.bincount(graph.silo_of[graph.train_mask], minlength=graph.num_silos) == 0)
    if len(idle):
        raise InputError(f"masks.train must mark at least one node of every client; client {idle[0]} has none")
