"""Runs of FedStruct for attacks, what attackers know beside their views, and runs that attacks must break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.message_passing.knowledge import TRAINING
from fgl_secure.attacks.structure.hop_sums import noted_embeddings
from fgl_secure.attacks.structure.knowledge import (
    FEDSTRUCT,
    FEDSTRUCT_HOPWISE,
    FEDSTRUCT_LOUVAIN,
    FEDSTRUCT_QUERIES,
    STRUCTURE,
    CrawledGraph,
    EmbeddingModel,
)
from fgl_secure.attacks.truth import MessageTruth, StructureTruth, sent_rows
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import structure_features
from fgl_secure.methods.fedstruct.client import LearntRows, NodePerceptron
from fgl_secure.methods.fedstruct.exchange import Exchange, FeatureSharing, HopwiseExchange, RowExchange
from fgl_secure.methods.fedstruct.preset import FedStructPreset
from fgl_secure.methods.fedstruct.program import HOP2VEC, FedStructClient, FedStructTask, client_features, clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import PublicParameters, Recording, Role, Transcript
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.typing import Ids

CRAWLED = 0.9
"""Share of the edges that a crawl has."""


class SeenModels:
    """The models of a run, from which follows what attackers know beside their views."""

    def __init__(self) -> None:
        self._models: list[NodePerceptron | None] = []
        self._start: NDArray[np.float32] | None = None

    def see(self, clients: Sequence[FedStructClient]) -> None:
        """Keeps g and the structure features, before the first round, and g once more after the last."""
        features = {client.silo.silo: client.model.own_features for client in clients}
        if not self._models and features[0] is not None:
            order = np.argsort(np.concatenate([client.silo.nodes for client in clients]))
            self._start = np.concatenate([rows for rows in features.values() if rows is not None])[order]
        self._models.append(clients[0].model.embedding_model())

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
        # Both directions of a share of the edges, int64 [2, m].
        one_way = graph.edges[:, graph.edges[0] < graph.edges[1]]
        remaining = one_way[:, np.random.default_rng(seed).random(one_way.shape[1]) < rate]
        crawl = np.concatenate([remaining, remaining[::-1]], axis=1)
        first, last = (self._models[0], self._models[-1]) if self._models else (None, None)
        learnt = features == HOP2VEC
        rule = None if learnt else _rule(graph, preset, features, seed)
        embed = _embedding(last) if learnt and last is not None else None
        jacobian = _jacobian(first, self._start) if first is not None and self._start is not None else None
        return CrawledGraph(crawl, graph.silo_of, rate, rule), EmbeddingModel(embed, jacobian)


def _rule(
    graph: FederatedGraph, preset: FedStructPreset, features: str, seed: int
) -> Callable[[Ids, Ids], NDArray[Any]]:
    """How clients compute features, for a party that has edges of the whole graph and who owns which node."""

    def compute(edges: Ids, owners: Ids) -> NDArray[np.float32]:
        blank = np.zeros((len(owners), 1), dtype=np.float32)
        copied = Graph.from_arrays(graph.graph.name, blank, np.zeros(len(owners), dtype=np.int64), edges)
        if preset.name == "paper":
            return structure_features(features, copied, preset.structure_width, seed)
        return client_features(replace(graph, graph=copied, silo_of=owners), preset, features, seed)

    return compute


def _embedding(model: NodePerceptron) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def embed(rows: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            outputs: NDArray[Any] = _outputs(model, torch.from_numpy(rows.astype(np.float32))).cpu().numpy()
        return outputs

    return embed


def _jacobian(model: NodePerceptron, start: NDArray[np.float32]) -> Callable[[Ids], NDArray[Any]]:
    def jacobian(nodes: Ids) -> NDArray[Any]:
        rows = torch.from_numpy(start[nodes]).requires_grad_()
        outputs = _outputs(model, rows)
        item = [torch.autograd.grad(column.sum(), rows, retain_graph=True)[0] for column in outputs.T]
        stacked: NDArray[Any] = torch.stack(item, dim=1).numpy()
        return stacked

    return jacobian


def _outputs(model: NodePerceptron, rows: torch.Tensor) -> torch.Tensor:
    outputs: torch.Tensor = model.cpu()(LearntRows(rows), CoinDropout(0.0, 0))
    return outputs


def recorded_structure(
    graph: FederatedGraph, preset: FedStructPreset, exchange: Exchange, features: str, description: str
) -> RecordedRun:
    """FedStruct, recorded up to the first round, under repeatable coins; attackers have a crawl of all edges."""
    models = SeenModels()
    job = clients_of(graph, FedStructTask(preset, exchange, features=features), shown=models.see)
    channel = job.channel(SimulationCoins(0), Recording.everything(1))
    job.train(channel)
    knowledge = models.knowledge(graph, preset, features, 0, 1.0)
    return structure_run("drawn for attacks", description, graph, exchange, channel.transcript, knowledge)


def structure_run(
    label: str,
    description: str,
    graph: FederatedGraph,
    exchange: Exchange,
    transcript: Transcript,
    knowledge: tuple[CrawledGraph, EmbeddingModel],
) -> RecordedRun:
    """A recorded run as attacks read it.

    Args:
        label: what the exchange is called.
        description: what was exchanged, in words.
        graph: who has what.
        exchange: how structure was exchanged.
        transcript: what was said.
        knowledge: what attackers know beside their views.
    """
    # a scheme notes field elements, and clients their own real rows
    rows = {**sent_rows(transcript), **noted_embeddings(transcript)}
    truth = StructureTruth.of(transcript.parties, graph, rows)
    public = exchange.sums.public if isinstance(exchange, HopwiseExchange) else PublicParameters()
    return RecordedRun(label, description, STRUCTURE, public, transcript, (truth,), knowledge)


def relay_run(
    label: str, what: str, graph: FederatedGraph, exchange: HopwiseExchange, transcript: Transcript
) -> RecordedRun:
    """What relays were sent of a recorded run, for attacks on sums over neighbours; arguments as for `structure_run`.

    Messages are those between nodes of different clients.
    """
    relays, crossing = transcript.parties.ids(Role.RELAY), graph.edges[:, graph.crosses_silos]
    truth = replace(MessageTruth.of(transcript, graph), edges=crossing)
    messages = [batch for batch in transcript.messages if np.isin(batch.receivers, relays).all()]
    private = [batch for batch in transcript.private if np.isin(batch.owners, relays).all()]
    seen = replace(transcript, messages=messages, private=private)
    return RecordedRun(label, f"{what}, at relays", TRAINING, exchange.sums.public, seen, (truth,))


@cache
def _in_the_clear() -> RecordedRun:
    """Hop2Vec as published, clients dealt at random."""
    return recorded_structure(_communities(apart=False), _PRESET, RowExchange(), HOP2VEC, "reference, hop2vec")


@cache
def _apart() -> RecordedRun:
    """FedStar's features as published, clients along communities."""
    preset = replace(_PRESET, structure_hidden=(8,), epochs=1)
    return recorded_structure(
        _communities(apart=True, links=1, classes=3), preset, RowExchange(), "fedstar", "reference, fedstar"
    )


@cache
def _counted_run() -> RecordedRun:
    """Aggregated queries that clients count, as published."""
    exchange = RowExchange(sharing=FeatureSharing.QUERIES, rule=None)
    preset = replace(_PRESET, epochs=1)
    return recorded_structure(_communities(apart=False), preset, exchange, HOP2VEC, "reference, queries")


@cache
def _hop_by_hop() -> RecordedRun:
    """Sums over foreign neighbours in plaintext."""
    preset = replace(_PRESET, epochs=1, hops=5)
    return recorded_structure(_scale_free(), preset, HopwiseExchange(Plaintext()), HOP2VEC, "reference, hopwise")


_PRESET = FedStructPreset(
    "reference",
    epochs=60,
    learning_rate=0.05,
    structure_rate=0.05,
    weight_decay=5e-4,
    dropout=0.0,
    feature_hidden=(8,),
    feature_hops=1,
    sage_widths=(8,),
    structure_hidden=None,
    hops=2,
    kept=None,
    selection=None,
)


def _communities(
    *, apart: bool, links: int = 2, nodes: int = 240, clients: int = 3, classes: int = 4
) -> FederatedGraph:
    """Preferential attachment inside each class, a few edges between classes; a quarter of the nodes is labelled.

    Args:
        apart: whether clients go along classes; else nodes are dealt to them at random.
        links: edges that each node comes with; with one, surroundings recur.
        nodes: how many.
        clients: how many.
        classes: how many, of equal size.
    """
    rng = np.random.default_rng(0)
    parts = [nx.barabasi_albert_graph(nodes // classes, links, seed=item) for item in range(classes)]
    inside: Ids = np.array(nx.disjoint_union_all(parts).edges, dtype=np.int64)
    pairs = np.concatenate([inside, rng.integers(nodes, size=(nodes // 8, 2))])
    client_of = np.arange(nodes) * clients // nodes if apart else rng.permutation(nodes) % clients
    return _make_graph(pairs, np.arange(nodes) // (nodes // classes), client_of, rng)


def _scale_free(nodes: int = 600, clients: int = 2) -> FederatedGraph:
    """A preferential-attachment tree dealt to two clients at random: many nodes have a single foreign neighbour."""
    rng = np.random.default_rng(0)
    pairs: Ids = np.array(nx.barabasi_albert_graph(nodes, 1, seed=0).edges, dtype=np.int64)
    return _make_graph(pairs, np.arange(nodes) % 4, rng.permutation(nodes) % clients, rng)


def _make_graph(pairs: Ids, labels: Ids, client_of: Ids, rng: np.random.Generator) -> FederatedGraph:
    nodes = len(labels)
    train = rng.random(nodes) < 0.25
    train[[int(np.flatnonzero(client_of == client)[0]) for client in np.unique(client_of)]] = True
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    words = rng.normal(size=(nodes, 8)).astype(np.float32)
    graph = Graph.from_arrays("reference", words, labels, edges)
    return FederatedGraph.from_assignment(graph, client_of, SplitMasks(train, np.zeros_like(train), ~train))


CONTROLS: Makers = MappingProxyType({
    FEDSTRUCT: _in_the_clear,
    FEDSTRUCT_LOUVAIN: _apart,
    FEDSTRUCT_QUERIES: _counted_run,
    FEDSTRUCT_HOPWISE: _hop_by_hop,
})  # fmt: skip
"""What attacks on structure must break, by name; each is made on first use."""
