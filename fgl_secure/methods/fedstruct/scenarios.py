"""Runs of FedStruct for attacks, and what attackers know beside their views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.structure.hop_sums import noted_embeddings
from fgl_secure.attacks.structure.knowledge import STRUCTURE, CrawledGraph, EmbeddingModel
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.attacks.truth import sent_rows
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.structure_features import structure_features
from fgl_secure.methods.fedstruct.exchange import (
    HOP2VEC,
    Exchange,
    HopwiseExchange,
    client_features,
    helpers_of,
    run_fedstruct,
)
from fgl_secure.methods.fedstruct.models import Dropout, LearntRows, Perceptron
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct
from fgl_secure.methods.hifgl.program import hierarchy_of
from fgl_secure.runtime import Channel, PublicParameters, Recording, Transcript

CRAWLED = 0.9
"""Share of the edges that a crawl has."""

Ids = NDArray[np.int64]


class SeenModels:
    """The models of a run, from which follows what attackers know beside their views."""

    def __init__(self) -> None:
        self._models: list[Perceptron | None] = []
        self._start: NDArray[np.float32] | None = None

    def see(self, method: FedStruct) -> None:
        """Keeps g and the structure features, before the first round, and g once more after the last."""
        if not self._models:
            self._start = method.structure_features
        self._models.append(method.embedding_model())

    def knowledge(
        self, graph: FederatedGraph, preset: FedStructPreset, features: str, seed: int, rate: float = CRAWLED
    ) -> tuple[CrawledGraph, EmbeddingModel]:
        """What is known of a run on a graph: how features are computed and a crawl, and the model.

        Args:
            graph: who has what.
            preset: how it was trained.
            features: name of the structure features.
            seed: of node2vec's walks and of the crawl.
            rate: share of the edges that the crawl has.
        """
        crawl = thinned(graph, rate, seed)
        first, last = (self._models[0], self._models[-1]) if self._models else (None, None)
        learnt = features == HOP2VEC
        rule = None if learnt else _rule(graph, preset, features, seed)
        embed = _embedding(last) if learnt and last is not None else None
        jacobian = _jacobian(first, self._start) if first is not None and self._start is not None else None
        return CrawledGraph(crawl, graph.silo_of, rate, rule), EmbeddingModel(embed, jacobian)


def thinned(graph: FederatedGraph, rate: float, seed: int) -> Ids:
    """Both directions of a share of the edges, int64 [2, m]."""
    one_way = graph.edges[:, graph.edges[0] < graph.edges[1]]
    kept = one_way[:, np.random.default_rng(seed).random(one_way.shape[1]) < rate]
    return np.concatenate([kept, kept[::-1]], axis=1)


def _rule(
    graph: FederatedGraph, preset: FedStructPreset, features: str, seed: int
) -> Callable[[Ids, Ids], NDArray[Any]]:
    """How clients compute features, for whoever has edges of the whole graph and who owns which node."""

    def compute(edges: Ids, owners: Ids) -> NDArray[np.float32]:
        blank = np.zeros((len(owners), 1), dtype=np.float32)
        copied = Graph.from_arrays(graph.graph.name, blank, np.zeros(len(owners), dtype=np.int64), edges)
        if preset.name == "paper":
            return structure_features(features, copied, preset.structure_width, seed)
        return client_features(replace(graph, graph=copied, silo_of=owners), preset, features, seed)

    return compute


def _embedding(model: Perceptron) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def embed(rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            outputs: NDArray[Any] = _outputs(model, torch.from_numpy(rows.astype(np.float32))).cpu().numpy()
        return outputs

    return embed


def _jacobian(model: Perceptron, start: NDArray[np.float32]) -> Callable[[Ids], NDArray[Any]]:
    def jacobian(nodes: Ids) -> NDArray[Any]:
        rows = torch.from_numpy(start[nodes]).requires_grad_()
        outputs = _outputs(model, rows)
        each = [torch.autograd.grad(column.sum(), rows, retain_graph=True)[0] for column in outputs.T]
        stacked: NDArray[Any] = torch.stack(each, dim=1).numpy()
        return stacked

    return jacobian


def _outputs(model: Perceptron, rows: torch.Tensor) -> torch.Tensor:
    outputs: torch.Tensor = model.cpu()(LearntRows(rows), Dropout(0.0, 0, torch.device("cpu")))
    return outputs


def recorded_structure(
    graph: FederatedGraph, preset: FedStructPreset, exchange: Exchange, features: str, what: str
) -> RecordedRun:
    """FedStruct, recorded up to the first round, under repeatable coins; attackers have a crawl of all edges."""
    models = SeenModels()
    parties = hierarchy_of(graph, helpers_of(exchange))
    channel = Channel(parties, SimulationCoins(0), Recording.everything(1))
    run_fedstruct(graph, preset, exchange, channel, features=features, seen=models.see)
    knowledge = models.knowledge(graph, preset, features, 0, 1.0)
    return structure_run("drawn for attacks", what, graph, exchange, channel.transcript, knowledge)


def structure_run(
    label: str,
    what: str,
    graph: FederatedGraph,
    exchange: Exchange,
    transcript: Transcript,
    knowledge: tuple[CrawledGraph, EmbeddingModel],
) -> RecordedRun:
    """A recorded run as attacks read it.

    Args:
        label: what the exchange is called.
        what: what was exchanged, in words.
        graph: who has what.
        exchange: how structure was exchanged.
        transcript: what was said.
        knowledge: what attackers know beside their views.
    """
    truth = structure_truth(transcript, graph)
    return RecordedRun(label, what, STRUCTURE, structure_public(exchange), transcript, (truth,), knowledge)


def structure_public(exchange: Exchange) -> PublicParameters:
    """What everybody knows of the schemes of an exchange."""
    return exchange.sums.public if isinstance(exchange, HopwiseExchange) else PublicParameters()


def structure_truth(transcript: Transcript, graph: FederatedGraph) -> StructureTruth:
    """The secrets of a recorded run."""
    # a scheme notes field elements, and clients their own real rows
    rows = {**sent_rows(transcript), **noted_embeddings(transcript)}
    return StructureTruth.of(transcript.parties, graph, rows)
