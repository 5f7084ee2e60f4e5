"""One level of a client's trees after the other, from sums alone (Fed2GNN, Algorithm 2).

A level is decoded into single nodes, or one node with the mean of the level stands for all of it (the last layer of the
paper's trees, "a single node", and every layer below the decoded ones here). A node that stands for n others is joined
to its father with weight n, which for linear propagation of sums is what n nodes of one degree would do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.decoder import Decoder
from fgl_secure.methods.fed2gnn.hop_sums import HopSums
from fgl_secure.training.node_models import Matrix, Propagation, Surroundings, degree_weights
from fgl_secure.typing import Array, Floats, Ids

UNKNOWN = -1
"""The node of a position that was decoded."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeLevel:
    """Positions in one layer of a client's trees.

    Attributes:
        parent: int64 [b], the place of each father in the level above; -1 for roots.
        value: float64 [b, w], rows as they are exchanged.
        below: float64 [b, r, w], sums over the next r layers of the subtree of each position.
        children: float64 [b], numbers of children.
        neighbours: float64 [b], numbers of neighbours, father included.
        count: float64 [b], for how many nodes a position stands.
        node: int64 [b], which node it is, where that is known.
        father: int64 [b], which node its father is, likewise.
    """

    parent: Ids
    value: Floats
    below: Floats
    children: Floats
    neighbours: Floats
    count: Floats
    node: Ids
    father: Ids

    @property
    def size(self) -> int:
        """Positions b."""
        return len(self.parent)


class Children(ABC):
    """Where the nodes of a level come from.

    Attributes:
        longest: largest norm of a row. A sum over n rows is no longer than n such: that bounds n from below, where
            predictions of n go wrong far down a tree.
    """

    longest: float = float("inf")

    @abstractmethod
    def single(self, level: TreeLevel) -> TreeLevel:
        """The children of all positions of a level, one by one."""

    @abstractmethod
    def degrees(self, elements: Floats) -> Floats:
        """Numbers of other neighbours of nodes with rows and first sums, float64 [b, at least 1, w] to [b]."""

    def mean(self, level: TreeLevel) -> TreeLevel:
        """One child for each position that has any: the mean of its children."""
        parent = np.flatnonzero(level.children > 0)
        least = np.linalg.norm(level.below[parent, 0], axis=1) / self.longest
        count = np.maximum(np.rint(level.children[parent]), np.maximum(np.ceil(least), 1))
        elements = level.below[parent] / count[:, None, None]
        children = self.degrees(elements)
        unknown = np.full(len(parent), UNKNOWN, dtype=np.int64)
        return TreeLevel(
            parent, elements[:, 0], elements[:, 1:], children, children + 1, count, unknown, level.node[parent]
        )


class DecodedChildren(Children):
    """What a client's decoders make of sums.

    Args:
        decoders: by the number of parts that they decode.
        most: d, most children.
        usual: number of other neighbours of a node of which no sum is known.
        nodes: of the whole graph, which bounds predicted numbers of neighbours.
        longest: largest norm of a row.
    """

    def __init__(
        self, decoders: Mapping[int, Decoder], most: int, usual: float, nodes: int, longest: float = float("inf")
    ) -> None:
        self._decoders, self._most, self._usual, self._nodes, self.longest = decoders, most, usual, nodes, longest

    def single(self, level: TreeLevel) -> TreeLevel:
        """Decodes as many children as are known or predicted; beyond d, each stands for more than one node."""
        decoder = self._decoders[level.below.shape[1]]
        counts = np.clip(np.rint(level.children).astype(np.int64), 0, self._most)
        above = np.flatnonzero(counts)
        elements = decoder.decode(level.below[above], counts[above])
        parent = np.repeat(above, counts[above])
        children = self.degrees(elements)
        unknown = np.full(len(parent), UNKNOWN, dtype=np.int64)
        count = np.maximum(level.children[parent] / counts[parent], 1)
        value, below = elements[:, 0] / count[:, None], elements[:, 1:] / count[:, None, None]
        return TreeLevel(parent, value, below, children, children + 1, count, unknown, level.node[parent])

    def degrees(self, elements: Floats) -> Floats:
        """As the degree predictor believes; the usual number where there is no sum to look at, or no predictor."""
        if elements.shape[1] < 2 or not self._decoders:  # a row and a sum
            return np.full(len(elements), self._usual)
        return self._decoders[max(self._decoders)].degrees(elements, self._nodes)


@dataclass(frozen=True, slots=True, eq=False)
class CompletedGraph:
    """The local graph of a client, and positions of trees.

    Attributes:
        rows: float64 [t, w], features; the client's own nodes come first.
        source: int64 [m], edges in both directions.
        target: int64 [m].
        count: float64 [m], for how many nodes the source stands, as seen from the target.
        neighbours: float64 [t], numbers of neighbours in the whole graph, as known or predicted.
    """

    rows: Floats
    source: Ids
    target: Ids
    count: Floats
    neighbours: Floats

    def state(self) -> dict[str, Array]:
        """All of it, as arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def surroundings(self, kind: Propagation, device: torch.device | None = None) -> Surroundings:
        """As a model computes on it."""
        weights = degree_weights(self.source, self.target, self.count, self.neighbours, kind)
        return Surroundings(Matrix(sparse.csr_array(self.rows), device), Matrix(weights, device))


def sent_values(features: Floats, neighbours: Floats, kind: Propagation) -> Floats:
    """What is summed in the exchange: x / sqrt(|N| + 1) for symmetric propagation (Appendix A), x for the mean."""
    scale = np.sqrt(neighbours + 1) if kind is Propagation.SYMMETRIC else np.ones(len(features))
    result: Floats = features / scale[:, None]
    return result


def roots_of(graph: FederatedGraph, client: int, values: Floats, sums: HopSums, foreign: Ids) -> TreeLevel:
    """The first level of a client's trees: its own nodes.

    Args:
        graph: who has what.
        client: which.
        values: float64 [n, w], as they are exchanged.
        sums: of Protocol 1.
        foreign: int64 [n], neighbours at other clients over which each node heard sums.
    """
    devices = graph.devices_of(client)
    local = np.bincount(graph.edges[1, ~graph.crosses_silos], minlength=graph.num_devices)[devices]
    return TreeLevel(
        parent=np.full(len(devices), UNKNOWN, dtype=np.int64),
        value=values[devices],
        below=sums.f[:, devices].transpose(1, 0, 2),
        children=foreign[devices].astype(np.float64),
        neighbours=(local + foreign[devices]).astype(np.float64),
        count=np.ones(len(devices)),
        node=devices,
        father=np.full(len(devices), UNKNOWN, dtype=np.int64),
    )


def complete(
    graph: FederatedGraph, client: int, roots: TreeLevel, children: Children, decoded: int, kind: Propagation
) -> CompletedGraph:
    """Hangs the trees on the local graph.

    Args:
        graph: who has what.
        client: whose graph.
        roots: its own nodes; they have sums over K layers.
        children: where further levels come from.
        decoded: levels of single nodes, from 0 to K; one node a father stands for each level below.
        kind: of propagation, by which rows are scaled.
    """
    hops = roots.below.shape[1]
    if not 0 <= decoded <= hops:
        raise InputError(f"decoded must be in 0..{hops} levels, the sums at hand; found {decoded}")
    levels = [roots]
    for depth in range(hops):
        levels.append(children.single(levels[-1]) if depth < decoded else children.mean(levels[-1]))
    start = np.cumsum([0, *(level.size for level in levels)])
    devices = graph.devices_of(client)
    inside = graph.edges[:, (graph.silo_of[graph.edges] == client).all(axis=0)]
    source, target = np.searchsorted(devices, inside)
    child = np.arange(start[1], start[-1])
    father = np.concatenate([above + level.parent for above, level in zip(start, levels[1:], strict=False)])
    ones = np.ones(len(child))
    neighbours = np.concatenate([level.neighbours for level in levels])
    values = np.concatenate([level.value for level in levels])
    scale = np.sqrt(neighbours + 1) if kind is Propagation.SYMMETRIC else np.ones(len(values))
    return CompletedGraph(
        rows=values * scale[:, None],
        source=np.concatenate([source, child, father]),
        target=np.concatenate([target, father, child]),
        count=np.concatenate([np.ones(len(source)), *(level.count for level in levels[1:]), ones]),
        neighbours=neighbours,
    )
