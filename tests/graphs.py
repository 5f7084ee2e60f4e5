"""Small federated graphs for the tests of training."""

from dataclasses import replace

import numpy as np

from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.datasets import NEIGHBOURS, load_digits_graph


def two_communities(devices: int = 40, silos: int = 2, seed: int = 0) -> FederatedGraph:
    """Two communities whose label shows in noisy features and in who is connected; no device without a neighbour.

    Half of the devices train, a quarter validates and a quarter tests, in every silo alike.
    """
    rng = np.random.default_rng(seed)
    node = np.arange(devices)
    labels = node % 2
    likely = np.where(labels[:, None] == labels[None, :], 0.2, 0.02)
    friends = np.triu(rng.random((devices, devices)) < likely, 1)
    friends[node, (node + 2) % devices] = True
    source, target = np.nonzero(friends | friends.T)
    features = rng.normal(size=(devices, 8)) + labels[:, None]
    graph = Graph.from_arrays("two communities", features, labels, np.stack([source, target]))
    part = node // (2 * silos) % 4
    masks = SplitMasks(part < 2, part == 2, part == 3)
    return FederatedGraph.from_assignment(graph, node // 2 % silos, masks)


def lacking(graph: FederatedGraph) -> dict[str, FederatedGraph]:
    """Graphs that lack something, by what it is; of classes 0 and 1, and of silos the second alone where it is one."""
    second, train = graph.silo_of == 1, graph.train_mask
    joined = graph.edges[:, (graph.edges > 3).all(axis=0)]
    return {
        "a class in a silo": replace(graph, train_mask=train & ((graph.labels == 0) | ~second)),
        "a class everywhere": replace(graph, train_mask=train & (graph.labels == 0)),
        "labels in a silo": replace(graph, train_mask=train & ~second),
        "nodes to score in a silo": replace(
            graph, validation_mask=graph.validation_mask & ~second, test_mask=graph.test_mask & ~second
        ),
        "edges between silos": graph.restricted_to_silos(),
        "edges of some nodes": replace(graph, graph=replace(graph.graph, edges=joined)),
        "edges": graph.without_edges(),
    }


def first_digits(count: int) -> Graph:
    """The embedded digits that come first, and the edges between them, under the same name."""
    whole = load_digits_graph()
    edges = whole.edges[:, (whole.edges < count).all(axis=0)]
    return Graph.from_arrays("digits", whole.features[:count], whole.labels[:count], edges, image_shape=(8, 8))


def joined_digits(count: int) -> Graph:
    """The embedded digits that come first, each joined to its nearest among them, as all are in the whole."""
    whole = load_digits_graph()
    features, labels = whole.features[:count], whole.labels[:count]
    apart = (features**2).sum(axis=1) - 2 * features @ features.T  # and a part that is the same in a row
    np.fill_diagonal(apart, np.inf)
    source = np.argsort(apart, axis=1, kind="stable")[:, :NEIGHBOURS].ravel()
    target = np.repeat(np.arange(count), NEIGHBOURS)
    both_ways = np.hstack([[source, target], [target, source]])
    return Graph.from_arrays("digits", features, labels, both_ways, image_shape=(8, 8))
