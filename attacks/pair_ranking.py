"""Scores of pairs of nodes, and how well they rank edges above pairs that are none.

Two kinds of pairs without an edge: random ones, and the harder ones two hops apart. Clients know who owns which node,
and most edges of a clustered partition are inside clients; so the random pairs that count have the same owners as the
edges, and the best guess without the transcript ranks no better than chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.ego_networks import undirected
from fgl_secure.attacks.pair_sampling import among, is_edge, sampled_pairs
from fgl_secure.attacks.ranking_area import area, area_of_pairs
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.metrics import Interval

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 5_000
"""Pairs of a kind that a figure rests on, drawn among more."""
CELLS = 4_000_000
"""Scores that are laid out at once."""


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """A client's scores of all pairs of foreign nodes, in factors: the product of the inner products of rows.

    Attributes:
        observer: party identifier of the client.
        nodes: int64 [m], device indices, ascending.
        factors: pairs of float64 [m, k], for the first node and the second.
    """

    observer: int
    nodes: Ids
    factors: tuple[tuple[Floats, Floats], ...]

    def of(self, pairs: Ids) -> Floats:
        """The scores float64 [k] of pairs int64 [2, k] of device indices, both among `nodes`."""
        first, second = np.searchsorted(self.nodes, pairs)
        parts = [np.einsum("kd,kd->k", left[first], right[second]) for left, right in self.factors]
        return np.asarray(np.prod(parts, axis=0), dtype=np.float64)

    def top(self, count: int) -> Ids:
        """The `count` pairs of the highest scores, int64 [2, count] of device indices, first below second."""
        size = len(self.nodes)
        best, kept = np.empty(0), np.empty(0, dtype=np.int64)
        step = max(1, CELLS // max(size, 1))
        for start in range(0, size, step):
            rows = np.arange(start, min(start + step, size))
            parts = [left[rows] @ right.T for left, right in self.factors]
            scores = np.where(rows[:, None] < np.arange(size), np.prod(parts, axis=0), -np.inf).ravel()
            best, kept = np.append(best, scores), np.append(kept, start * size + np.arange(len(scores)))
            if len(best) > count:
                chosen = np.argpartition(-best, count - 1)[:count]
                best, kept = best[chosen], kept[chosen]
        return self.nodes[np.stack([kept // max(size, 1), kept % max(size, 1)])]


@dataclass(frozen=True, slots=True)
class PairRanking:
    """How well edges between foreign nodes are ranked.

    Attributes:
        same_owners: area under the curve against random pairs whose ends have the same owners as the edge's.
        interval: 95 % interval of that area, by resampling nodes (a pair counts as often as the product of its ends).
        random: the area against random pairs.
        two_hops: the area against pairs two hops apart.
        precision: the share of edges among as many top pairs of the first client as it has edges to find.
        density: the share of edges among all its pairs.
        edges: how many edges the areas rest on.
    """

    same_owners: float
    interval: Interval
    random: float
    two_hops: float
    precision: float
    density: float
    edges: int


def rank_pairs(scored: tuple[PairScores, ...], truth: Truth) -> PairRanking | None:
    """Compares scores with the edges of a graph; None where no client has an edge to find."""
    size, rng = len(truth.silo_of), np.random.default_rng(0)
    adjacency = undirected(truth.edges, size)
    edges, near = (np.stack(each.nonzero()).astype(np.int64) for each in (adjacency, adjacency @ adjacency))
    far = near[:, ~is_edge(near, edges, size) & (near[0] != near[1])]
    most = -(-MOST // len(scored))
    drawn = [sampled_pairs(each.nodes, edges, far, truth.silo_of, most, rng) for each in scored]
    if not sum(pairs.edges.shape[1] for pairs in drawn):
        return None
    kinds = ([getattr(pairs, name) for pairs in drawn] for name in ("edges", "alike", "random", "hops"))
    found = [
        (
            np.concatenate([each.of(pairs) for each, pairs in zip(scored, kind, strict=True)]),
            np.concatenate(kind, axis=1),
        )
        for kind in kinds
    ]
    (positive, ends), (alike, others), (random, _), (hops, _) = found
    interval = area_of_pairs(positive, alike, ends, others, size)
    areas = (area(positive, alike), interval, area(positive, random), area(positive, hops))
    return PairRanking(*areas, *_precision(scored[0], edges, size), len(positive))


def _precision(scores: PairScores, edges: Ids, size: int) -> tuple[float, float]:
    there = among(edges, scores.nodes).shape[1]
    pairs = len(scores.nodes) * (len(scores.nodes) - 1) / 2
    if not there:
        return 0.0, 0.0
    return float(is_edge(scores.top(there), edges, size).mean()), there / pairs
