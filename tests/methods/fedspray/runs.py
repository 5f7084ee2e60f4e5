"""Graphs, channels and presets that the tests of FedSpray share."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, load, partition, random_split
from fgl_secure.graph.partition import SplitMasks
from fgl_secure.methods.fedspray.preset import HONEST, FedSprayPreset
from fgl_secure.runtime import Channel, Phase, Recording
from fgl_secure.training.parties import hierarchy_of

SMALL = replace(HONEST, epochs=3, local_epochs=2, hidden=8, width=6)


@lru_cache(maxsize=1)
def digits() -> FederatedGraph:
    """The embedded graph, dealt to three clients."""
    data = load("digits")
    return FederatedGraph.from_assignment(data, partition("louvain", data, 3, 0), random_split(data.num_nodes, 0))


def channel_of(graph: FederatedGraph, recording: Recording | None = None) -> Channel:
    """A channel between server and clients."""
    return Channel(hierarchy_of(graph), SimulationCoins(0), recording)


def sent(channel: Channel) -> list[np.ndarray]:
    """The rows [K, P] that went to the server in the clear, round by round."""
    batches = [batch for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
    return [np.asarray(batch.payload) for batch in batches]


def tiny(*, edges: bool = True, classes: tuple[int, ...] = (0, 1, 2), labelled: int = 4) -> FederatedGraph:
    """Two clients of eight nodes each: paths with one isolated node, features that tell the classes.

    Args:
        edges: whether there are any.
        classes: labels that occur, dealt in turn.
        labelled: nodes of each client that train.
    """
    labels = np.resize(np.array(classes), 16)
    draws = np.random.default_rng(1)
    features = np.eye(3)[labels] + draws.uniform(0, 0.5, (16, 3))
    source = np.array([0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13])  # nodes 7 and 15 stay alone
    both = np.concatenate([[source, source + 1], [source + 1, source]], axis=1)
    graph = Graph.from_arrays("tiny", features, labels, both if edges else np.empty((2, 0), dtype=np.int64))
    place = np.arange(16) % 8
    masks = SplitMasks(place < labelled, place == 6, (place >= 4) & (place != 6))
    return FederatedGraph.from_assignment(graph, np.repeat([0, 1], 8), masks)


def with_epochs(preset: FedSprayPreset, epochs: int) -> FedSprayPreset:
    """A short run of a preset."""
    return replace(preset, epochs=epochs, local_epochs=1, hidden=4, width=4)
