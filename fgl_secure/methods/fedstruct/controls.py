"""Runs of FedStruct that attacks on structure must break."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, FEDSTRUCT_HOPWISE, FEDSTRUCT_LOUVAIN, FEDSTRUCT_QUERIES
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedstruct.exchange import (
    HOP2VEC,
    FeatureSharing,
    HopwiseExchange,
    RowExchange,
)
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.fedstruct.scenarios import recorded_structure
from fgl_secure.protocols.plaintext import Plaintext

Ids = NDArray[np.int64]


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
def _counted() -> RecordedRun:
    """Aggregated queries that clients count, as published."""
    exchange = RowExchange(sharing=FeatureSharing.QUERIES, rule=None)
    preset = replace(_PRESET, epochs=1)
    return recorded_structure(_communities(apart=False), preset, exchange, HOP2VEC, "reference, queries")


@cache
def _hop_by_hop() -> RecordedRun:
    """Sums over foreign neighbours in the clear."""
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
    parts = [nx.barabasi_albert_graph(nodes // classes, links, seed=each) for each in range(classes)]
    inside: Ids = np.array(nx.disjoint_union_all(parts).edges, dtype=np.int64)
    pairs = np.concatenate([inside, rng.integers(nodes, size=(nodes // 8, 2))])
    client_of = np.arange(nodes) * clients // nodes if apart else rng.permutation(nodes) % clients
    return _federated(pairs, np.arange(nodes) // (nodes // classes), client_of, rng)


def _scale_free(nodes: int = 600, clients: int = 2) -> FederatedGraph:
    """A preferential-attachment tree dealt to two clients at random: many nodes have a single foreign neighbour."""
    rng = np.random.default_rng(0)
    pairs: Ids = np.array(nx.barabasi_albert_graph(nodes, 1, seed=0).edges, dtype=np.int64)
    return _federated(pairs, np.arange(nodes) % 4, rng.permutation(nodes) % clients, rng)


def _federated(pairs: Ids, labels: Ids, client_of: Ids, rng: np.random.Generator) -> FederatedGraph:
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
    FEDSTRUCT_QUERIES: _counted,
    FEDSTRUCT_HOPWISE: _hop_by_hop,
})  # fmt: skip
"""What attacks on structure must break, by name; each is made when it is first asked for."""
