"""FedStar as one client runs it: an own encoder of features beside a shared one of structure.

A client takes steps of Adam on all of its model, and the structure encoder alone is averaged, weighted by labelled
nodes. What is learnt on features never leaves a client, and predictions are its own model's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from fgl_reproduction.methods.fedstar.structure import StructureAffine, StructureEncoder, structure_rows
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.node_models import (
    APART,
    AveragedRounds,
    Matrix,
    NodeModel,
    Propagation,
    Surroundings,
    degree_weights,
)
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import PRESETS, AveragedPreset
from fgl_secure.typing import Array


@dataclass(frozen=True, slots=True)
class FedStarPreset(AveragedPreset):
    """Everything about training that is not the graph or how sums are computed.

    Attributes:
        layers: of both encoders.
        walks: n_rw, steps of the longest random walk.
        degrees: n_dg, columns of the one-hot degree; larger ones share the last.
    """

    layers: int = 3
    walks: int = 16
    degrees: int = 16

    def __post_init__(self) -> None:
        AveragedPreset.__post_init__(self)
        for name in ("layers", "walks", "degrees"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1; found {getattr(self, name)}")


_PUBLISHED = FedStarPreset("paper", hidden=64, epochs=200, learning_rate=1e-3, weight_decay=5e-4)
"""The defaults of the public code, except for batches of 128 graphs: a client has one graph here, and takes a step on
it. There the model after the last round is scored; here validation nodes choose the round, in both presets."""

HONEST = replace(_PUBLISHED, name="honest", learning_rate=0.003)
"""The rate is chosen among .001, .003 and .01 on validation nodes (Cora, ten clients by Louvain, seed 0)."""


def fedstar_preset(name: str) -> FedStarPreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" or "paper".
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED


@dataclass(frozen=True, slots=True, eq=False)
class StructuredGraph(Surroundings):
    """A graph with what is known of its nodes from edges alone.

    Attributes:
        structure: float32 [n, walks + degrees].
        sums: [n, n], A + I.
    """

    structure: torch.Tensor
    sums: Matrix

    @classmethod
    def of(
        cls, features: NDArray[np.float32], edges: NDArray[np.int64], preset: FedStarPreset, device: torch.device
    ) -> StructuredGraph:
        """The graph of features float32 [n, d] and edges int64 [2, m], sources above targets."""
        (source, target), count = edges, len(features)
        ones = np.ones(len(source))
        degree = np.bincount(target, minlength=count).astype(np.float64)
        adjacency = sparse.csr_array((ones, (target, source)), shape=(count, count))
        return cls(
            Matrix(sparse.csr_array(features), device),
            Matrix(degree_weights(source, target, ones, degree, Propagation.SYMMETRIC), device),
            torch.from_numpy(structure_rows(count, edges, preset.walks, preset.degrees)).to(device),
            Matrix(sparse.csr_array(adjacency + sparse.eye_array(count)), device),
        )


class FedStarModel(NodeModel):
    """Graph isomorphism layers on [features, structure], with a structure encoder beside them (section 4.3).

    Layer l has x_l = relu(MLP((A + I) [x_(l-1), s_(l-1)])), with dropout, where s_l is the encoder's; a linear map of
    the last [x, s] goes through a layer with ReLU and dropout, and one that scores classes. Published is the same for
    whole graphs, with the sum over the nodes of a graph ahead of the last two layers.

    Args:
        features: columns of the features.
        classes: of the nodes.
        preset: widths and layers.
        common: draws the initial structure encoder, the same for all clients.
        own: draws all else.

    Attributes:
        structure: the structure encoder.
    """

    def __init__(
        self, features: int, classes: int, preset: FedStarPreset, common: torch.Generator, own: torch.Generator
    ) -> None:
        super().__init__()
        hidden, layers = preset.hidden, preset.layers
        self.structure = StructureEncoder(preset.walks + preset.degrees, hidden, layers, common)
        self.first = StructureAffine(features, hidden, own)
        self.inner = nn.ModuleList(StructureAffine(2 * hidden, hidden, own) for _ in range(layers))
        self.outer = nn.ModuleList(StructureAffine(hidden, hidden, own) for _ in range(layers))
        self.joint = StructureAffine(2 * hidden, hidden, own)
        self.last = StructureAffine(hidden, hidden, own)
        self.scores = StructureAffine(hidden, classes, own)

    @property
    def shared_parameters(self) -> list[torch.Tensor]:
        """The structure encoder, and nothing that was learnt on features: the map of its inputs comes first."""
        return list(self.structure.parameters())

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        assert isinstance(graph, StructuredGraph)
        x, encoded = self.first(graph.rows), self.structure(graph.structure, graph.neighbours)
        for inner, outer, s in zip(self.inner, self.outer, encoded, strict=False):
            x = outer(torch.relu(inner(graph.sums @ torch.cat([x, s], dim=1))))
            x = dropout(torch.relu(x), training=self.training)
        joint = self.joint(torch.cat([x, encoded[-1]], dim=1))
        result: torch.Tensor = self.scores(dropout(torch.relu(self.last(joint)), training=self.training))
        return result


class FedStarClient(AveragedRounds):
    """One client of FedStar.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        seed: of initial weights and dropout; where a client's own part of the model begins, it alone knows.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self, comm: Collectives, preset: FedStarPreset, *, seed: int = 0, device: torch.device | None = None
    ) -> None:
        facts, own = comm.silo.facts, seed + APART * (1 + comm.silo.silo)
        coins = (torch.Generator().manual_seed(item) for item in (seed, own))
        super().__init__(
            comm, preset, FedStarModel(facts.features, facts.classes, preset, *coins), seed=seed, device=device
        )
        self._structure = preset

    def surroundings(self) -> StructuredGraph:
        """The client's nodes and the edges between them."""
        return StructuredGraph.of(self.silo.features, self.silo.alone.edges, self._structure, self.device)

    @property
    def report(self) -> dict[str, Array]:
        """As of averaging: "theta" is the structure encoder after the last round; and the whole model."""
        model = self.learner.model
        return {**super().report, "theta": flat(model.shared_parameters), "own theta": flat(list(model.parameters()))}


def clients_of(
    graph: FederatedGraph, scheme: Scheme, preset: FedStarPreset, *, seed: int = 0, device: torch.device | None = None
) -> Job:
    """The clients, each with its own subgraph.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds up structure encoders, and figures.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
    """

    def make(comm: Collectives, _coins: Coins) -> FedStarClient:
        return FedStarClient(comm, preset, seed=seed, device=device)

    return Job(Task(make, {SERVER: scheme}, preset.epochs), graph, message_graph=graph.restricted_to_silos())
