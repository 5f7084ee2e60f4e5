"""What Fed2GNN's tables and figures (anonymous submission) run: who has what, and one run of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.methods.fedsage.program import FedSagePreset, fedsage_preset
from fgl_reproduction.methods.fedsage.program import clients_of as fedsage_clients
from fgl_reproduction.tables.costs import MEGA, SentTraffic, count_sent
from fgl_reproduction.tables.fed2gnn_baselines import Fed2GNNBaseline, baseline_of
from fgl_reproduction.tables.statistics import with_labels
from fgl_reproduction.tables.table import Choices, Metric
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, partition, random_split
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset, fed2gnn_preset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient, clients_of
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.schemes import parse
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import AveragedPreset

ACCURACY = Metric("accuracy (%)", 2)
"""Over the test nodes of all clients together."""
SPLIT = (0.4, 0.3, 0.3)
"""Shares of nodes that train, validate and test (5.1)."""
PARTITION = "louvain-delta"


@dataclass(frozen=True, slots=True)
class Fed2GNNSetting:
    """What varies from run to run.

    Attributes:
        backbone: "gcn", "sage" or "dagnn".
        clients: number of clients.
        hops: K; None takes the preset's.
        neighbours: d; None takes the preset's.
        partition: how nodes are assigned to clients.
    """

    backbone: str
    clients: int = 1
    hops: int | None = None
    neighbours: int | None = None
    partition: str = PARTITION

    def load_graph(self, data: Graph, seed: int) -> FederatedGraph:
        """The data set among the clients; the seed repeats partition and split.

        A partition that leaves a client without a labelled node is drawn again.
        """
        masks = random_split(data.num_nodes, seed, SPLIT)
        client_of = with_labels(partial(_partition, data, self.partition, self.clients), masks, self.clients, seed)
        return FederatedGraph.from_assignment(data, client_of, masks, self.partition)

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
        kind: a client's program.
    """

    setting: Fed2GNNSetting
    kind: type[Fed2GNNClient] = Fed2GNNClient

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once; the choices' scheme computes the sums over neighbours."""
        clients = self.job(data, choices, seed)
        return _accuracy(clients.train(clients.channel(SimulationCoins(seed))))

    def job(self, data: Graph, choices: Choices, seed: int) -> Job:
        """The clients."""
        graph, scheme = self.setting.load_graph(data, seed), parse(choices.scheme, ("neighbours",))[1]
        return clients_of(
            graph,
            {NEIGHBOURS: scheme},
            self.setting.preset(data, choices),
            backbone=self.setting.backbone,
            seed=seed,
            device=choices.place,
            kind=self.kind,
        )


@dataclass(frozen=True, slots=True)
class Fed2GNNBaselineRun:
    """One run of a baseline, as a measure.

    Attributes:
        baseline: who sees which edges.
        setting: who has what.
        mapped: whether features go through the latent map.
    """

    baseline: Fed2GNNBaseline
    setting: Fed2GNNSetting
    mapped: bool = True

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in plaintext."""
        return _accuracy(self.job(data, choices, seed).train())

    def job(self, data: Graph, choices: Choices, seed: int) -> Job:
        """The clients."""
        graph, preset = self.setting.load_graph(data, seed), self.setting.preset(data, choices)
        if not self.mapped:
            preset = replace(preset, latent=None)
        backbone, device = self.setting.backbone, choices.place
        return baseline_of(graph, self.baseline, preset, backbone=backbone, seed=seed, device=device)


@dataclass(frozen=True, slots=True)
class FedSageRun:
    """One run of FedSage+ on the backbone and with the settings of the table, as a measure.

    Attributes:
        setting: who has what.
    """

    setting: Fed2GNNSetting

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in plaintext, on features as they are."""
        graph, shared = self.setting.load_graph(data, seed), self.setting.preset(data, choices)
        settings = {field.name: getattr(shared, field.name) for field in fields(AveragedPreset)}
        preset = FedSagePreset(**settings, generator=fedsage_preset(choices.preset).generator)
        backbone, device = self.setting.backbone, choices.place
        return _accuracy(fedsage_clients(graph, {}, preset, backbone=backbone, seed=seed, device=device).train())


LOSS_AFTER = (1, 10, 25, 50, 100, 200)
"""Rounds after which Figure 5's losses are told; where there are fewer, after the last."""


def loss_after(rounds: int) -> Metric:
    """The mean training loss after so many rounds."""
    return Metric(f"loss after {rounds}", 3)


@dataclass(frozen=True, slots=True)
class Fed2GNNLossCurve:
    """The losses of one run while it trains, as a measure.

    Attributes:
        run: what is trained.
    """

    run: Fed2GNNRun | Fed2GNNBaselineRun

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        clients = self.run.job(data, choices, seed)
        losses = clients.train(clients.channel(SimulationCoins(seed))).losses
        return {loss_after(after): losses[min(after, len(losses)) - 1] for after in LOSS_AFTER}


AMONG, BEFORE, TRAINING = (Metric(f"{name} (MB)", 2) for name in ("among clients", "before training", "training"))
SECONDS_BEFORE, SECONDS = Metric("before training (s)", 2), Metric("time per round (s)", 4)


@dataclass(frozen=True, slots=True)
class Fed2GNNCost:
    """What one run of Fed2GNN sends, and how long it takes, as a measure.

    Attributes:
        run: what is trained.
    """

    run: Fed2GNNRun

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        result = count_sent(self.run.job(data, choices, seed), seed)
        return {**_megabytes(result), **_seconds(result.result)}


def _megabytes(found: SentTraffic) -> Mapping[Metric, float]:
    return {AMONG: found.among / MEGA, BEFORE: found.before / MEGA, TRAINING: found.training / MEGA}


def _seconds(training: TrainingResult) -> Mapping[Metric, float]:
    before = max(training.seconds - training.seconds_per_round * training.rounds, 0.0)
    return {SECONDS_BEFORE: before, SECONDS: training.seconds_per_round}


def _accuracy(result: TrainingResult) -> Mapping[Metric, float]:
    assert result.accuracy.test is not None
    return {ACCURACY: 100 * result.accuracy.test}


@lru_cache(maxsize=8)
def _partition(data: Graph, name: str, clients: int, seed: int) -> NDArray[np.int64]:
    """Louvain takes seconds for the larger graphs, and all methods share a seed."""
    if clients == 1:
        return np.zeros(data.num_nodes, dtype=np.int64)
    return partition(name, data, clients, seed)
