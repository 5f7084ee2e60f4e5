"""A client's local graph with a tree hung on every node that has neighbours at other clients (4.1, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.hop_sums import HopSums
from fgl_secure.methods.fed2gnn.tree_levels import UNKNOWN, Children, Level
from fgl_secure.training.node_models import Matrix, Propagation, Surroundings, degree_weights
from fgl_secure.typing import Array, Floats, Ids


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
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def surroundings(self, kind: Propagation, device: torch.device | None = None) -> Surroundings:
        """As a model computes on it."""
        weights = degree_weights(self.source, self.target, self.count, self.neighbours, kind)
        return Surroundings(Matrix(sparse.csr_array(self.rows), device), Matrix(weights, device))


def sent_values(features: Floats, neighbours: Floats, kind: Propagation) -> Floats:
    """What is summed in the exchange: x / sqrt(|N| + 1) for symmetric propagation (Appendix A), x for the mean."""
    scale = np.sqrt(neighbours + 1) if kind is Propagation.SYMMETRIC else np.ones(len(features))
    found: Floats = features / scale[:, None]
    return found


def roots_of(graph: FederatedGraph, client: int, values: Floats, sums: HopSums, foreign: Ids) -> Level:
    """The first level of a client's trees: its own nodes.

    Args:
        graph: who has what.
        client: which.
        values: float64 [n, w], as they are exchanged.
        sums: of Protocol 1.
        foreign: int64 [n], neighbours at other clients over which each node heard sums.
    """
    own = graph.devices_of(client)
    local = np.bincount(graph.edges[1, ~graph.crosses_silos], minlength=graph.num_devices)[own]
    return Level(
        parent=np.full(len(own), UNKNOWN, dtype=np.int64),
        value=values[own],
        below=sums.f[:, own].transpose(1, 0, 2),
        children=foreign[own].astype(np.float64),
        neighbours=(local + foreign[own]).astype(np.float64),
        count=np.ones(len(own)),
        node=own,
        father=np.full(len(own), UNKNOWN, dtype=np.int64),
    )


def complete(
    graph: FederatedGraph, client: int, roots: Level, children: Children, decoded: int, kind: Propagation
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
    own = graph.devices_of(client)
    inside = graph.edges[:, (graph.silo_of[graph.edges] == client).all(axis=0)]
    source, target = np.searchsorted(own, inside)
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
