"""One training run of Fed2GNN or of what it is compared with, as a measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, partition, random_split
from fgl_secure.methods.fed2gnn.baselines import Fed2GNNBaseline, train_fed2gnn_baseline
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.training import train_fed2gnn
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel
from fgl_secure.schemes import parse
from fgl_secure.tables.table import Choices, Metric
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.server_sums import CollectiveSums

ACCURACY = Metric("accuracy (%)", 2)
"""Over the test nodes of all clients together."""
SPLIT = (0.4, 0.3, 0.3)
"""Shares of nodes that train, validate and test (5.1)."""
PARTITION = "louvain-delta"
DRAWS, APART = 100, 1_000_003
"""Most draws of a partition, and how far apart their seeds are."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What varies from run to run.

    Attributes:
        backbone: "gcn", "sage" or "dagnn".
        clients: number of clients.
        hops: K; None takes the preset's.
        neighbours: d; None takes the preset's.
    """

    backbone: str
    clients: int = 1
    hops: int | None = None
    neighbours: int | None = None

    def federated(self, data: Graph, seed: int) -> FederatedGraph:
        """The data set among the clients; the seed repeats partition and split.

        A partition that leaves a client without a labelled node is drawn again, at most `DRAWS` times in all.
        """
        masks = random_split(data.num_nodes, seed, SPLIT)
        for draw in range(DRAWS):
            client_of = _partition(data, self.clients, seed + draw * APART)
            if np.bincount(client_of[masks.train], minlength=self.clients).all():
                break
        return FederatedGraph.from_assignment(data, client_of, masks, PARTITION)

    def preset(self, data: Graph, choices: Choices) -> Fed2GNNPreset:
        """The preset of the choices, with K and d as the setting says."""
        chosen = fed2gnn_preset(choices.preset, data.name, self.backbone).with_epochs(choices.epochs)
        if choices.epochs is not None:  # a short run trains its decoders no longer than its model
            chosen = replace(chosen, decoder=replace(chosen.decoder, epochs=min(choices.epochs, chosen.decoder.epochs)))
        return chosen.with_trees(self.hops, self.neighbours)


@dataclass(frozen=True, slots=True)
class Fed2GNNRun:
    """One run of Fed2GNN, as a measure.

    Attributes:
        setting: who has what.
    """

    setting: Setting

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once; the choices' scheme computes the sums over neighbours."""
        graph, scheme = self.setting.federated(data, seed), parse(choices.scheme, ("neighbours",))[1]
        channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(seed))
        preset, sums = self.setting.preset(data, choices), CollectiveSums(Plaintext(), channel)
        backbone = self.setting.backbone
        return _measured(train_fed2gnn(graph, channel, preset, scheme, sums, backbone=backbone, seed=seed))


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """One run of a baseline, as a measure.

    Attributes:
        baseline: who sees which edges.
        setting: who has what.
    """

    baseline: Fed2GNNBaseline
    setting: Setting

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in the clear."""
        graph, preset = self.setting.federated(data, seed), self.setting.preset(data, choices)
        backbone = self.setting.backbone
        return _measured(train_fed2gnn_baseline(graph, self.baseline, preset, backbone=backbone, seed=seed))


def _measured(result: TrainingResult) -> Mapping[Metric, float]:
    assert result.accuracy.test is not None
    return {ACCURACY: 100 * result.accuracy.test}


@lru_cache(maxsize=8)
def _partition(data: Graph, clients: int, seed: int) -> NDArray[np.int64]:
    """Louvain takes seconds for the larger graphs, and all methods share a seed."""
    if clients == 1:
        return np.zeros(data.num_nodes, dtype=np.int64)
    return partition(PARTITION, data, clients, seed)
