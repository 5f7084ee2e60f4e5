"""Small graphs with features that tell classes, and short runs on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, load, partition, random_split
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.training import MakeChildren, train_fed2gnn
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.scheme import Scheme as ServerScheme
from fgl_secure.runtime import Channel, Recording
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import CollectiveSums

QUICK = Fed2GNNPreset(
    "honest",
    epochs=4,
    decoder=DecoderPreset(epochs=3, width=16, coordinates=8),
    latent=LatentPreset(width=16, epochs=2),
)
PLAIN = replace(QUICK, latent=None, dropout=0.0, neighbours=10_000)
"""Without anything that is drawn anew where a graph has other nodes."""


def some_digits(nodes: int = 300, clients: int = 4, name: str = "random") -> FederatedGraph:
    """The digits that come first, among clients."""
    whole = load("digits")
    inside = (whole.edges < nodes).all(axis=0)
    graph = Graph.from_arrays("some digits", whole.features[:nodes], whole.labels[:nodes], whole.edges[:, inside])
    masks = random_split(nodes, 0, (0.4, 0.3, 0.3))
    return FederatedGraph.from_assignment(graph, partition(name, graph, clients, 0), masks, name)


def channel_of(graph: FederatedGraph, scheme: Scheme | None = None, recording: Recording | None = None) -> Channel:
    return Channel(hierarchy_of(graph, (scheme or Plaintext()).helpers), SimulationCoins(0), recording)


def train(
    graph: FederatedGraph,
    preset: Fed2GNNPreset = QUICK,
    scheme: Scheme | None = None,
    updates: ServerScheme | None = None,
    *,
    backbone: str = "gcn",
    children: MakeChildren | None = None,
    recording: Recording | None = None,
    seed: int = 0,
) -> TrainingResult:
    scheme = scheme or Plaintext()
    channel = channel_of(graph, scheme, recording)
    sums = CollectiveSums(updates or Plaintext(), channel)
    return train_fed2gnn(graph, channel, preset, scheme, sums, backbone=backbone, children=children, seed=seed)


def relabelled(graph: FederatedGraph, client_of: np.ndarray) -> FederatedGraph:
    """The same graph among other clients."""
    return replace(graph, silo_of=client_of)
