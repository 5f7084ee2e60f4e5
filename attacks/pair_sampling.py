"""Edges and pairs that are none, drawn among the foreign nodes of one client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

ATTEMPTS = 20
"""Times that an end is moved before a pair is left out: only where nearly all nodes of a client are joined."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledPairs:
    """Pairs of device indices, int64 [2, k] each.

    Attributes:
        edges: edges, each once.
        alike: random pairs without an edge whose ends have the owners that an edge's have.
        random: random pairs without an edge.
        hops: pairs without an edge that have a neighbour in common, each once.
    """

    edges: Ids
    alike: Ids
    random: Ids
    hops: Ids


def sampled_pairs(nodes: Ids, edges: Ids, far: Ids, owner_of: Ids, most: int, rng: np.random.Generator) -> SampledPairs:
    """Draws up to `most` pairs of each kind.

    Args:
        nodes: int64 [m], ascending; both ends are among them.
        edges: int64 [2, e], both directions of all edges.
        far: int64 [2, f], both directions of all pairs two hops apart.
        owner_of: int64 [n].
        most: how many of a kind.
        rng: draws.
    """
    pairs = _some(among(edges, nodes), most, rng)
    anywhere = nodes[rng.integers(max(len(nodes), 1), size=pairs.shape)] if pairs.size else pairs
    return SampledPairs(
        pairs,
        _with_another_end(pairs, edges, owner_of, nodes, rng),
        anywhere[:, ~is_edge(anywhere, edges, len(owner_of)) & (anywhere[0] != anywhere[1])],
        _some(among(far, nodes), most, rng),
    )


def _some(pairs: Ids, most: int, rng: np.random.Generator) -> Ids:
    return pairs if pairs.shape[1] <= most else pairs[:, rng.choice(pairs.shape[1], most, replace=False)]


def among(pairs: Ids, nodes: Ids) -> Ids:
    """Pairs with both ends among nodes, each once: the first below the second."""
    return pairs[:, (pairs[0] < pairs[1]) & np.isin(pairs, nodes).all(axis=0)]


def _with_another_end(pairs: Ids, edges: Ids, owner_of: Ids, among: Ids, rng: np.random.Generator) -> Ids:
    """Edges with the second end moved to a random node of the same owner, such that they are none."""
    moved = pairs.copy()
    for _ in range(ATTEMPTS):
        wrong = np.flatnonzero(is_edge(moved, edges, len(owner_of)) | (moved[0] == moved[1]))
        moved[1, wrong] = _same_owner(moved[1, wrong], owner_of, among, rng)
    return moved[:, ~is_edge(moved, edges, len(owner_of)) & (moved[0] != moved[1])]


def _same_owner(nodes: Ids, owner_of: Ids, among: Ids, rng: np.random.Generator) -> Ids:
    """For each node a random one of the same owner."""
    other = nodes.copy()
    for owner in np.unique(owner_of[nodes]).tolist():
        here = np.flatnonzero(owner_of[nodes] == owner)
        other[here] = rng.choice(among[owner_of[among] == owner], size=len(here))
    return other


def is_edge(pairs: Ids, edges: Ids, size: int) -> NDArray[np.bool_]:
    """Whether each pair [2, k] is among edges [2, m] of `size` nodes: bool [k]."""
    return np.asarray(np.isin(pairs[0] * size + pairs[1], edges[0] * size + edges[1]))
