"""One training run of FedStruct or of what it is compared with, as a measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, partition, random_split
from fgl_secure.graph.structure_features import structure_features
from fgl_secure.methods.fedstruct.baselines import FedStructBaseline, train_baseline
from fgl_secure.methods.fedstruct.exchange import HOP2VEC, client_features
from fgl_secure.methods.fedstruct.presets import FedStructPreset, fedstruct_preset
from fgl_secure.methods.fedstruct.program import Structure
from fgl_secure.methods.fedstruct.structure_sum import StructureSum
from fgl_secure.methods.fedstruct.training import shared_rows, train_fedstruct
from fgl_secure.tables.table import Choices, Metric
from fgl_secure.training.loop import TrainingResult

ACCURACY = Metric("accuracy (%)", 2)
"""Of test nodes, averaged over clients as the preset says."""
LABELLED = 0.1
"""Share of nodes that train the model; as many choose it, the others test it (section 6)."""
VALIDATION = 0.1
PLAINTEXT = "plaintext"
DRAWS, APART = 100, 1_000_003
"""Most draws of a partition, and how far apart their seeds are."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Who has what.

    Attributes:
        clients: number of clients.
        partition: how nodes are assigned to them.
        labelled: share of nodes that train the model.
    """

    clients: int
    partition: str = "binomial"
    labelled: float = LABELLED

    def federated(self, data: Graph, seed: int) -> FederatedGraph:
        """The data set under this setting; the seed repeats partition and split.

        A partition that leaves a client without a labelled node is drawn again, at most `DRAWS` times in all: with 50
        clients every other one does.
        """
        fractions = (self.labelled, VALIDATION, 1 - VALIDATION - self.labelled)
        masks = random_split(data.num_nodes, seed, fractions)
        for draw in range(DRAWS):
            client_of = partition(self.partition, data, self.clients, seed + draw * APART)
            if np.bincount(client_of[masks.train], minlength=self.clients).all():
                break
        return FederatedGraph.from_assignment(data, client_of, masks, self.partition)


@dataclass(frozen=True, slots=True)
class FedStructRun:
    """One run of FedStruct, as a measure.

    Attributes:
        features: name of the structure features; "hop2vec" learns them.
        setting: who has what.
        pruned: whether powers of the adjacency are pruned as the preset says.
        hops: L_s; None takes the preset's.
    """

    features: str
    setting: Setting
    pruned: bool = True
    hops: int | None = None

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        graph, preset = undirected(data), self._preset(data, choices)
        federated = self.setting.federated(graph, seed)
        features = None if self.features == HOP2VEC else _features(self.features, federated, preset, seed)
        structure = Structure(_rows(graph, preset.hops, preset.kept), features)
        return _measured(train_fedstruct(federated, preset, structure, seed=seed))

    def _preset(self, data: Graph, choices: Choices) -> FedStructPreset:
        preset = _chosen(data, choices)
        kept = preset.kept if self.pruned else None
        return replace(preset, kept=kept, hops=self.hops or preset.hops)


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """One run of a baseline, as a measure.

    Attributes:
        baseline: the model and who trains it.
        setting: who has what.
    """

    baseline: FedStructBaseline
    setting: Setting

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        graph = self.setting.federated(undirected(data), seed)
        return _measured(train_baseline(self.baseline, graph, _chosen(data, choices), seed=seed))


def _chosen(data: Graph, choices: Choices) -> FedStructPreset:
    if choices.scheme != PLAINTEXT:
        raise InputError(f"scheme must be {PLAINTEXT} for FedStruct's tables; found {choices.scheme}")
    return fedstruct_preset(choices.preset, data.name).with_epochs(choices.epochs)


def _measured(result: TrainingResult) -> Mapping[Metric, float]:
    assert result.accuracy.test is not None
    return {ACCURACY: 100 * result.accuracy.test}


@lru_cache(maxsize=1)
def undirected(data: Graph) -> Graph:
    """Every edge in both directions, as the public code has it."""
    if data.is_symmetric:
        return data
    edges = np.concatenate([data.edges, data.edges[::-1]], axis=1)
    return Graph.from_arrays(data.name, data.features, data.labels, edges)


@lru_cache(maxsize=2)
def _rows(data: Graph, hops: int, kept: int | None) -> StructureSum:
    return shared_rows(data, hops, kept)


def _features(name: str, graph: FederatedGraph, preset: FedStructPreset, seed: int) -> NDArray[np.float32]:
    if preset.name != "paper":
        return client_features(graph, preset, name, seed)
    return _global_features(name, graph.graph, preset.structure_width)


@lru_cache(maxsize=2)
def _global_features(name: str, data: Graph, width: int) -> NDArray[np.float32]:
    """Those of the whole graph, as the public code has them; no draws are made for the features of the tables."""
    return structure_features(name, data, width, 0)
