"""What FedStruct's tables and figures (ICLR 2025) run: who has what, and one run of each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_reproduction.methods.fedgcn.program import clients_of as fedgcn_clients
from fgl_reproduction.methods.fedgcn.program import fedgcn_preset
from fgl_reproduction.methods.fedpub.program import FedPubPreset, fedpub_preset
from fgl_reproduction.methods.fedpub.program import clients_of as fedpub_clients
from fgl_reproduction.methods.fedsage.program import FedSagePreset, fedsage_preset
from fgl_reproduction.methods.fedsage.program import clients_of as fedsage_clients
from fgl_reproduction.tables.fedstruct_baselines import FEDSGD_GNN, LOCAL_GNN, FedStructBaseline, train_baseline
from fgl_reproduction.tables.statistics import with_labels
from fgl_reproduction.tables.table import Choices, Measure, Metric, Paper
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, partition, random_split
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency, structure_features
from fgl_secure.methods.fedstruct.client import neighbour_means
from fgl_secure.methods.fedstruct.exchange import Exchange, HopwiseExchange, RowExchange
from fgl_secure.methods.fedstruct.preset import FeatureModelKind, FedStructPreset, fedstruct_preset
from fgl_secure.methods.fedstruct.program import (
    HOP2VEC,
    FedStructClient,
    FedStructTask,
    SimulatedInputs,
    client_features,
    clients_of,
)
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.topology import CLIENTS as CLIENTS_SUM
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.runtime import Channel
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.silo import Silo

ACCURACY = Metric("accuracy (%)", 2)
"""Of test nodes, averaged over clients as the preset says."""
PAPER = Paper("FedStruct", "ICLR 2025", ("Cora", "CiteSeer", "PubMed", "Chameleon", "Photo"), (ACCURACY,))
"""Of its data sets Amazon Ratings is left out."""
LABELLED = 0.1
"""Share of nodes that train the model; as many choose it, the others test it (section 6)."""
VALIDATION = 0.1


@dataclass(frozen=True, slots=True)
class FedStructSetting:
    """Who has what.

    Attributes:
        clients: number of clients.
        partition: how nodes are assigned to them.
        labelled: share of nodes that train the model.
    """

    clients: int
    partition: str = "binomial"
    labelled: float = LABELLED

    def load_graph(self, data: Graph, seed: int) -> FederatedGraph:
        """The data set under this setting; the seed repeats partition and split.

        With 50 clients every other partition leaves one without a labelled node, and is drawn again.
        """
        fractions = (self.labelled, VALIDATION, 1 - VALIDATION - self.labelled)
        masks = random_split(data.num_nodes, seed, fractions)
        client_of = with_labels(partial(partition, self.partition, data, self.clients), masks, self.clients, seed)
        return FederatedGraph.from_assignment(data, client_of, masks, self.partition)


class StructureScored(FedStructClient):
    """A client whose model trains as FedStruct's, and predicts from structure embeddings alone."""

    def scores(self) -> torch.Tensor:
        """The scores of own nodes, float [m, classes]; when not training, those of structure features."""
        if self.structure is None or torch.is_grad_enabled():
            return super().scores()
        return self.structure.combine(self.model.embeddings())


@dataclass(frozen=True, slots=True)
class FedStructRun:
    """One run of FedStruct, as a measure.

    Attributes:
        features: name of the structure features; "hop2vec" learns them.
        setting: who has what.
        pruned: whether powers of the adjacency are pruned as the preset says.
        hops: L_s; None takes the preset's.
        model: of own features and edges; GraphSAGE is one of structure features, too, on a graph that the server
            knows.
        known: whether the server knows the graph (App. H), so that structure features are those of the whole graph
            whatever the preset.
        structure_alone: whether the trained model is tested without its scores of own features and edges (6.2).
    """

    features: str
    setting: FedStructSetting
    pruned: bool = True
    hops: int | None = None
    model: FeatureModelKind = FeatureModelKind.DGCN
    known: bool = False
    structure_alone: bool = False

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        graph, preset = load_undirected(data), self._preset(data, choices)
        federated = self.setting.load_graph(graph, seed)
        features = None if self.features == HOP2VEC else self._features(federated, preset, seed)
        rows = self._rows(graph, preset)
        means = neighbour_means(federated) if self.model is FeatureModelKind.SAGE else None
        exchange: Exchange = HopwiseExchange(Plaintext()) if rows is None else RowExchange()

        def inputs_of(silo: Silo) -> SimulatedInputs:
            own = None if features is None else features[silo.nodes]
            return SimulatedInputs(None if rows is None else rows[silo.nodes], own, means)

        channel = Channel(hierarchy_of(federated), SimulationCoins(seed))
        task = FedStructTask(preset, exchange, self.features, seed)
        kind = StructureScored if self.structure_alone else FedStructClient
        return _accuracy(clients_of(federated, task, device=choices.place, given=inputs_of, kind=kind).train(channel))

    def _preset(self, data: Graph, choices: Choices) -> FedStructPreset:
        preset = choose_preset(data, choices)
        kept = preset.kept if self.pruned else None
        return replace(preset, kept=kept, hops=self.hops or preset.hops, feature_model=self.model)

    def _features(self, graph: FederatedGraph, preset: FedStructPreset, seed: int) -> NDArray[np.float32]:
        if preset.name != "paper" and not self.known:
            return client_features(graph, preset, self.features, seed)
        drawn = seed if self.features == "node2vec" else 0
        return _global_features(self.features, graph.graph, preset.structure_width, drawn)

    def _rows(self, graph: Graph, preset: FedStructPreset) -> sparse.csr_array | None:
        """What clients have of z; None where they get it hop by hop, so that no party needs to hold a whole power."""
        if (
            self.model is FeatureModelKind.SAGE
        ):  # each node's embedding itself, as a server that knows the graph sends it
            return sparse.csr_array(sparse.eye_array(graph.num_nodes))
        return None if preset.kept is None else _rows(graph, preset.hops, preset.kept)


@dataclass(frozen=True, slots=True)
class FedStructBaselineRun:
    """One run of a baseline, as a measure.

    Attributes:
        baseline: the model and who trains it.
        setting: who has what.
    """

    baseline: FedStructBaseline
    setting: FedStructSetting

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        graph = self.setting.load_graph(load_undirected(data), seed)
        preset = choose_preset(data, choices)
        return _accuracy(train_baseline(self.baseline, graph, preset, seed=seed, device=choices.place))


@dataclass(frozen=True, slots=True)
class FedStructRivalRun:
    """One run of another paper's method with its own settings, for the paper prints none, as a measure.

    Attributes:
        preset: of the method, by name.
        clients: makes its clients.
        sums: topologies of its sums.
        setting: who has what.
        published: changes a preset to the settings of FedStruct's own repository for a data set, under `paper`.
    """

    preset: Callable[[str], Any]
    clients: Callable[..., Job]
    sums: tuple[str, ...]
    setting: FedStructSetting
    published: Callable[[Any, str], Any] | None = None

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in plaintext."""
        preset = self.preset(choices.preset)
        if self.published is not None and choices.preset == "paper":
            preset = self.published(preset, data.name)
        preset = preset.with_epochs(choices.epochs)
        graph = self.setting.load_graph(load_undirected(data), seed)
        clear = {item: Plaintext() for item in self.sums}
        return _accuracy(self.clients(graph, clear, preset, seed=seed, device=choices.place).train())


def choose_preset(data: Graph, choices: Choices) -> FedStructPreset:
    """The preset of the choices.

    Raises:
        InputError: a scheme was chosen, which makes no difference to accuracies: sums are exact.
    """
    choices.check_plaintext()
    return fedstruct_preset(choices.preset, data.name).with_epochs(choices.epochs)


def _accuracy(result: TrainingResult) -> Mapping[Metric, float]:
    assert result.accuracy.test is not None
    return {ACCURACY: 100 * result.accuracy.test}


@lru_cache(maxsize=1)
def load_undirected(data: Graph) -> Graph:
    """Every edge in both directions, as the public code has it."""
    if data.is_symmetric:
        return data
    edges = np.concatenate([data.edges, data.edges[::-1]], axis=1)
    return Graph.from_arrays(data.name, data.features, data.labels, edges)


@lru_cache(maxsize=2)
def _rows(data: Graph, hops: int, kept: int) -> sparse.csr_array:
    """A-bar as the exchange would leave it, whose cost is not the tables' business."""
    return combined_adjacency(adjacency_powers(data, hops, kept))


@lru_cache(maxsize=2)
def _global_features(name: str, data: Graph, width: int, seed: int) -> NDArray[np.float32]:
    """Those of the whole graph, as the public code has them; only Node2Vec draws anything."""
    return structure_features(name, data, width, seed)


_FEDPUB_SETTINGS = {"Cora": (30, 0.01), "CiteSeer": (100, 0.001)}
"""Rounds and rate in the configuration files of FedStruct's repository."""
_FEDSAGE_ROUNDS = {"Cora": 40, "CiteSeer": 30}
"""Of the generator, in the same files."""


def published_fedpub(preset: FedPubPreset, dataset: str) -> FedPubPreset:
    """Return the preset with the settings of FedStruct's repository, tested after the last average.

    Data sets without settings here keep the preset as it is.
    """
    if dataset not in _FEDPUB_SETTINGS:
        return preset
    rounds, rate = _FEDPUB_SETTINGS[dataset]
    return replace(preset, epochs=rounds, learning_rate=rate, selection=None, tested_averaged=True)


def published_fedsage(preset: FedSagePreset, dataset: str) -> FedSagePreset:
    """Return the preset with the settings of FedStruct's repository for FedSage+'s generator.

    Data sets without settings here keep the preset as it is.
    """
    if dataset not in _FEDSAGE_ROUNDS:
        return preset
    return replace(preset, generator=replace(preset.generator, rounds=_FEDSAGE_ROUNDS[dataset], learning_rate=2e-3))


Make = Callable[[FedStructSetting], Measure | None]
"""From who has what to a run."""

DEG: Make = partial(FedStructRun, "degree")
FEDSTAR: Make = partial(FedStructRun, "fedstar")
H2V: Make = partial(FedStructRun, HOP2VEC)
DEG_F: Make = partial(FedStructRun, "degree", pruned=False)
FEDSTAR_F: Make = partial(FedStructRun, "fedstar", pruned=False)
H2V_F: Make = partial(FedStructRun, HOP2VEC, pruned=False)
FEDSGD: Make = partial(FedStructBaselineRun, FEDSGD_GNN)
LOCAL: Make = partial(FedStructBaselineRun, LOCAL_GNN)
FEDGCN: Make = partial(FedStructRivalRun, fedgcn_preset, fedgcn_clients, (NEIGHBOURS, SERVER))
FEDGCN_1HOP: Make = partial(FedStructRivalRun, partial(fedgcn_preset, hops=1), fedgcn_clients, (NEIGHBOURS, SERVER))
FEDSAGE: Make = partial(
    FedStructRivalRun, fedsage_preset, fedsage_clients, (CLIENTS_SUM, SERVER), published=published_fedsage
)
FEDPUB: Make = partial(
    FedStructRivalRun, fedpub_preset, fedpub_clients, (CLIENTS_SUM, SERVER), published=published_fedpub
)
