"""Degrees of foreign nodes and of their neighbours, read off FedStar's features in closed form.

The diagonal of A^ is the reciprocal of a degree, so every degree is there to read; that of A^^2 has the sum of the
neighbours' reciprocals, which only few multisets of the degrees in the graph have.

Edges between foreign nodes from their structure features, and how well scores rank pairs.

Two kinds of pairs without an edge: random ones, and the harder ones two hops apart. Clients know who owns which node,
and most edges of a clustered partition are inside clients; so the random pairs that count have the same owners as the
edges, and the best guess without the transcript ranks no better than chance.

Features that are learnt or trained along the edges (Hop2Vec, Node2Vec) are alike at both ends of an edge. FedStar's say
the degrees of a node's neighbours, and an edge needs that each end has a neighbour of the other's degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.areas import Ranking, area, area_interval
from fgl_secure.attacks.base import Attack, Card, DataSecret, InformedAttack, Measurement
from fgl_secure.attacks.neighbourhoods import OWN_EDGES, degree_words, ego_networks, undirected_adjacency
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.structure.knowledge import (
    FEDSTRUCT,
    FEDSTRUCT_LOUVAIN,
    MODEL,
    MODEL_ALONE,
    STRUCTURE,
    EmbeddingModel,
    ReturnSums,
    StructureCircumstance,
    embed_features,
    foreign_features,
    neighbour_sums,
    own_rows,
)
from fgl_secure.attacks.truth import StructureTruth, foreign_neighbours
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval, clustered_proportion
from fgl_secure.typing import Floats, Ids

TOLERANCE = 1e-5
"""Distance of sums that count as equal, in single precision."""
LARGEST = 6
"""Numbers in a sum up to which all combinations are tried, half of them at a time."""
MOST_COMBINATIONS = 200_000
"""Combinations of half the numbers up to which they are tried."""


class DegreeMultisets:
    """All multisets of up to three of some whole numbers, ready for finding the multisets behind a sum.

    Args:
        numbers: int64 [k], ascending; the numbers that may occur.
    """

    def __init__(self, numbers: Ids) -> None:
        self._numbers = numbers
        self._solved: dict[tuple[str, ...], Ids | None] = {}
        self._halves: list[tuple[Ids, Floats, Floats]] = [self._sums(np.empty((1, 0), dtype=np.int64))]
        rows = self._halves[0][0]
        for size in range(1, LARGEST // 2 + 1):
            if len(numbers) ** size > MOST_COMBINATIONS * reduce(lambda a, b: a * b, range(1, size + 1)):
                break
            rows = self._longer(rows)
            self._halves.append(self._sums(rows))

    def solve(self, count: int, reciprocals: float, squares: float) -> Ids | None:
        """The one multiset of `count` numbers with these sums; None where there are several, none, or too many to try.

        Args:
            count: how many numbers.
            reciprocals: sum of 1 / number.
            squares: sum of 1 / number^2, or more by a sum over triangles; NaN where it is unknown.

        Returns:
            int64 [count], ascending.
        """
        large = (count + 1) // 2
        if count < 1 or large >= len(self._halves):
            return None
        (candidates, p1, q1), (rest, p2, q2) = self._halves[count - large], self._halves[large]
        low = np.searchsorted(p2, reciprocals - p1 - TOLERANCE, side="left")
        high = np.searchsorted(p2, reciprocals - p1 + TOLERANCE, side="right")
        first = np.repeat(np.arange(len(candidates)), high - low)
        second = _ranges(low, high)
        excess = squares - q1[first] - q2[second]
        exact = np.abs(excess) <= TOLERANCE
        for fits in (exact, excess > TOLERANCE) if not np.isnan(squares) else (np.ones(len(first), dtype=np.bool_),):
            result = np.unique(np.sort(np.hstack([candidates[first[fits]], rest[second[fits]]]), axis=1), axis=0)
            if len(result):
                return np.asarray(self._numbers[result[0]]) if len(result) == 1 else None
        return None

    def neighbours(self, sums: ReturnSums) -> tuple[Ids | None, ...]:
        """The degrees of each node's neighbours, where the numbers are one more than degrees; each sum once."""
        keys = np.stack([sums.degrees, *(np.round(item / TOLERANCE) for item in (sums.reciprocals, sums.squares))])
        rows = zip(keys.T.tolist(), sums.degrees.tolist(), sums.reciprocals, sums.squares, strict=True)
        return tuple(self._one(tuple(map(str, key)), *row) for key, *row in rows)

    def _one(self, key: tuple[str, ...], degree: int, reciprocals: float, squares: float) -> Ids | None:
        if degree == 0:
            return np.empty(0, dtype=np.int64)
        if key not in self._solved:
            result = self.solve(degree, reciprocals, squares)
            self._solved[key] = None if result is None else result - 1
        return self._solved[key]

    def _longer(self, rows: Ids) -> Ids:
        """Rows of places, ascending in each, with one more place at the end."""
        last = rows[:, -1] if rows.shape[1] else np.zeros(len(rows), dtype=np.int64)
        again = len(self._numbers) - last
        added = _ranges(last, np.full(len(rows), len(self._numbers)))
        return np.hstack([np.repeat(rows, again, axis=0), added[:, None]])

    def _sums(self, rows: Ids) -> tuple[Ids, Floats, Floats]:
        """Rows of places by ascending sum of reciprocals, with both sums."""
        reciprocal = 1 / self._numbers[rows].astype(np.float64)
        total = reciprocal.sum(axis=1)
        order = np.argsort(total, kind="stable")
        return rows[order], total[order], (reciprocal**2).sum(axis=1)[order]


def _ranges(low: Ids, high: Ids) -> Ids:
    """low[0] .. high[0] - 1, low[1] .. high[1] - 1 and so on, in one array."""
    lengths = high - low
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.arange(int(lengths.sum())) - starts + np.repeat(low, lengths), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _ReadDegrees:
    """What one client reads off the features of foreign nodes."""

    observer: int  # party identifier of the client
    nodes: Ids  # int64 [m], device indices
    degrees: Ids  # int64 [m], numbers of neighbours
    # for each node the degrees of its neighbours, int64 [degree] ascending; None where they are open
    neighbours: tuple[Ids | None, ...]


def _read_degrees(view: View) -> list[_ReadDegrees]:
    """What every client reads alone; empty where features have no return probabilities."""
    edges, size = own_rows(view, OWN_EDGES), len(view.parties.ids(Role.DEVICE))
    degrees: list[_ReadDegrees] = []
    solvers: dict[bytes, DegreeMultisets] = {}
    for client, feature in foreign_features(view).items():
        sums = neighbour_sums(feature.values)
        if sums is None:
            continue
        present = sums.degrees
        if client in edges:
            own_degrees = np.asarray(undirected_adjacency(edges[client][:, :2].T, size).sum(axis=1), dtype=np.int64)
            present = np.concatenate([present, own_degrees[edges[client][:, 0]]])
        looped = np.unique(present[present > 0]) + 1
        solver = solvers.setdefault(looped.tobytes(), DegreeMultisets(looped))
        degrees.append(_ReadDegrees(client, feature.nodes, sums.degrees, solver.neighbours(sums)))
    return degrees


def _neighbour_degrees(adjacency: sparse.csr_array) -> Ids:
    """Names of the sorted degrees of each node's neighbours, int64 [n]: the sum of their `degree_words`.

    Args:
        adjacency: 0/1 [n, n], symmetric, without a diagonal.
    """
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.int64)
    return np.asarray((adjacency.astype(np.uint64) @ degree_words(degrees)).view(np.int64))


class _NsfWalkDegrees(Attack[list[_ReadDegrees], StructureTruth]):
    """A client solves return probabilities for the degrees of foreign nodes and of their neighbours."""

    card = Card(
        "nsf-walk-degrees",
        "a client reads degrees off FedStar's features, and solves them for the degrees of neighbours",
        "on FedStruct (ICLR 2025) App. A and G.1: the diagonals of A^ and its powers are shared",
        Role.SILO, Secret.DEGREE, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.52, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> list[_ReadDegrees] | None:  # noqa: ARG002  # needs none
        return _read_degrees(view) or None

    def score(self, guess: list[_ReadDegrees], truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of degrees that are exact, and of nodes whose neighbours all have the degrees that are claimed.

        The latter is over nodes without a neighbour at another client: a client that computes features of its own
        nodes on what it sees knows but part of the edges of the others'.
        """
        adjacency = undirected_adjacency(truth.edges, len(truth.silo_of))
        degrees, around = ego_networks(adjacency)[0], _neighbour_degrees(adjacency)
        nodes = np.concatenate([item.nodes for item in guess])
        read = np.concatenate([item.degrees for item in guess])
        names = [neighbours for item in guess for neighbours in item.neighbours]
        solved = np.array([item is not None for item in names], dtype=np.bool_)
        claimed = np.array([0 if item is None else _name(item) for item in names], dtype=np.int64)
        exact = solved & (claimed == around[nodes])
        inner: NDArray[np.bool_] = np.asarray(~foreign_neighbours(truth).any(axis=1))[nodes]
        result = (_share("degrees", read == degrees[nodes], nodes, degrees),)
        return (*result, _share("neighbours' degrees", exact[inner], nodes[inner], around)) if inner.any() else result


def _name(degrees: Ids) -> int:
    """The name that `_neighbour_degrees` gives to a multiset."""
    return int(degree_words(degrees).sum(dtype=np.uint64).view(np.int64))


def _share(metric: str, right: NDArray[np.bool_], nodes: Ids, actual: Ids) -> Measurement:
    prior, random = largest_share(actual[nodes][:, None]), 1 / max(len(np.unique(actual)), 1)
    finding = f"Of {len(right):,} foreign nodes, the {metric} of {int(right.sum()):,} are read exactly."
    share = clustered_proportion(right, nodes, seed=0)
    return Measurement.of_share(metric, share, finding, random=random, prior=prior)


ATTEMPTS = 20
"""Times that an end is moved before a pair is left out: only where nearly all nodes of a client are joined."""


def _sample_pairs(
    nodes: Ids, edges: Ids, distant: Ids, owner_of: Ids, most: int, rng: np.random.Generator
) -> tuple[Ids, ...]:
    """Draws up to `most` pairs int64 [2, k] of nodes int64 [m], ascending, of each kind.

    Args:
        nodes: both ends are among them.
        edges: int64 [2, e], both directions of all edges.
        distant: int64 [2, f], both directions of all pairs two hops apart.
        owner_of: int64 [n].
        most: how many of a kind.
        rng: draws.

    Returns:
        Edges, each once; random pairs without an edge whose ends have the owners that an edge's have; random pairs
        without an edge; pairs without an edge that have a neighbour in common, each once.
    """
    pairs = _some(_among(edges, nodes), most, rng)
    anywhere = nodes[rng.integers(max(len(nodes), 1), size=pairs.shape)] if pairs.size else pairs
    # Edges with the second end moved to a random node of the same owner, such that they are none.
    moved = pairs.copy()
    for _ in range(ATTEMPTS):
        rejected = np.flatnonzero(_is_edge(moved, edges, len(owner_of)) | (moved[0] == moved[1]))
        ends = moved[1, rejected]
        for owner in np.unique(owner_of[ends]).tolist():
            same_owner = owner_of[ends] == owner
            moved[1, rejected[same_owner]] = rng.choice(nodes[owner_of[nodes] == owner], size=int(same_owner.sum()))
    alike = moved[:, ~_is_edge(moved, edges, len(owner_of)) & (moved[0] != moved[1])]
    apart = anywhere[:, ~_is_edge(anywhere, edges, len(owner_of)) & (anywhere[0] != anywhere[1])]
    return pairs, alike, apart, _some(_among(distant, nodes), most, rng)


def _some(pairs: Ids, most: int, rng: np.random.Generator) -> Ids:
    return pairs if pairs.shape[1] <= most else pairs[:, rng.choice(pairs.shape[1], most, replace=False)]


def _among(pairs: Ids, nodes: Ids) -> Ids:
    """Pairs with both ends among nodes, each once: the first below the second."""
    return pairs[:, (pairs[0] < pairs[1]) & np.isin(pairs, nodes).all(axis=0)]


def _is_edge(pairs: Ids, edges: Ids, size: int) -> NDArray[np.bool_]:
    """Whether each pair [2, k] is among edges [2, m] of `size` nodes: bool [k]."""
    return np.asarray(np.isin(pairs[0] * size + pairs[1], edges[0] * size + edges[1]))


MOST = 5_000
"""Pairs of a kind that a figure rests on, drawn among more."""
CELLS = 4_000_000
"""Scores that are laid out at once."""


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """A client's scores of all pairs of foreign nodes, in factors: the product of the inner products of rows."""

    observer: int  # party identifier of the client
    nodes: Ids  # int64 [m], device indices, ascending
    factors: tuple[tuple[Floats, Floats], ...]  # pairs of float64 [m, k], for the first node and the second

    def of(self, pairs: Ids) -> Floats:
        """The scores float64 [k] of pairs int64 [2, k] of device indices, both among `nodes`."""
        first, second = np.searchsorted(self.nodes, pairs)
        parts = [np.einsum("kd,kd->k", left[first], right[second]) for left, right in self.factors]
        return np.asarray(np.prod(parts, axis=0), dtype=np.float64)

    def top(self, count: int) -> Ids:
        """The `count` pairs of the highest scores, int64 [2, count] of device indices, first below second."""
        size = len(self.nodes)
        best, pairs = np.empty(0), np.empty(0, dtype=np.int64)
        step = max(1, CELLS // max(size, 1))
        for start in range(0, size, step):
            rows = np.arange(start, min(start + step, size))
            parts = [left[rows] @ right.T for left, right in self.factors]
            scores = np.where(rows[:, None] < np.arange(size), np.prod(parts, axis=0), -np.inf).ravel()
            best, pairs = np.append(best, scores), np.append(pairs, start * size + np.arange(len(scores)))
            if len(best) > count:
                top_pairs = np.argpartition(-best, count - 1)[:count]
                best, pairs = best[top_pairs], pairs[top_pairs]
        return self.nodes[np.stack([pairs // max(size, 1), pairs % max(size, 1)])]


@dataclass(frozen=True, slots=True)
class _PairRanking:
    """How well edges between foreign nodes are ranked."""

    same_owners: float  # area under the curve against random pairs whose ends have the same owners as the edge's
    # 95 % interval of that area, by resampling nodes (a pair counts as often as the product of its ends)
    interval: Interval
    random: float  # the area against random pairs
    two_hops: float  # the area against pairs two hops apart
    precision: float  # the share of edges among as many top pairs of the first client as it has edges to find
    density: float  # the share of edges among all its pairs
    edges: int  # how many edges the areas rest on


def rank_pairs(scored: tuple[PairScores, ...], truth: StructureTruth) -> _PairRanking | None:
    """Compares scores with the edges of a graph; None where no client has an edge to find."""
    size, rng = len(truth.silo_of), np.random.default_rng(0)
    adjacency = undirected_adjacency(truth.edges, size)
    edges, near = (np.stack(item.nonzero()).astype(np.int64) for item in (adjacency, adjacency @ adjacency))
    distant = near[:, ~_is_edge(near, edges, size) & (near[0] != near[1])]
    most = -(-MOST // len(scored))
    samples = [_sample_pairs(item.nodes, edges, distant, truth.silo_of, most, rng) for item in scored]
    if not sum(pairs.shape[1] for pairs, *_ in samples):
        return None
    kinds = list(zip(*samples, strict=True))
    positive, alike, random, hops = (
        np.concatenate([item.of(pairs) for item, pairs in zip(scored, kind, strict=True)]) for kind in kinds
    )
    ends, others = (np.concatenate(kind, axis=1) for kind in kinds[:2])
    is_edge, value = np.arange(len(positive) + len(alike)) < len(positive), area(positive, alike)
    both = Ranking(np.concatenate([ends, others], axis=1), np.concatenate([positive, alike]), is_edge)
    interval = area_interval(value, [both], np.ones(1, np.int64), size, len(np.unique(ends)))
    first = scored[0]
    edge_count, pairs = _among(edges, first.nodes).shape[1], len(first.nodes) * (len(first.nodes) - 1) / 2
    precision = float(_is_edge(first.top(edge_count), edges, size).mean()) if edge_count else 0.0
    density = edge_count / pairs if edge_count else 0.0
    return _PairRanking(
        value, interval, area(positive, random), area(positive, hops), precision, density, len(positive)
    )


RankedPairs = tuple[PairScores, ...]
"""The scores that clients give to pairs of foreign nodes, one table a client."""


class _NsfCosineEdges(InformedAttack[RankedPairs, EmbeddingModel, StructureTruth]):
    """The cosine of two nodes' features."""

    card = Card(
        "nsf-cosine-edges",
        "a client takes foreign nodes for neighbours whose learnt structure features point the same way",
        "on FedStruct (ICLR 2025) App. G.1, as Duddu et al. (2020) for node embeddings",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT, minimum=0.55,
        circumstance=StructureCircumstance.SHARED_FEATURES, auxiliary=MODEL, truth=StructureTruth,
        knowledge=EmbeddingModel, tells_nothing=MODEL_ALONE,
    )  # fmt: skip

    def infer_with(self, view: View, public: PublicParameters, known: EmbeddingModel) -> RankedPairs | None:  # noqa: ARG002  # needs no parameter
        result = []
        for client, feature in foreign_features(view).items():
            rows = embed_features(feature, known)
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(length > 0, length, 1)
            result.append(PairScores(client, feature.nodes, ((rows, rows),)))
        return tuple(result) or None

    def score(self, guess: RankedPairs, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Edges against random pairs of the same owners, see `_ranking_of_edges`."""
        return _ranking_of_edges(guess, truth)


class _NsfWalkEdges(Attack[RankedPairs, StructureTruth]):
    """How likely an edge is that joins two nodes with these degrees and these degrees of neighbours."""

    card = Card(
        "nsf-walk-edges",
        "a client intersects the neighbours' degrees that FedStar's features say of foreign nodes",
        "on FedStruct (ICLR 2025) App. A and G.1: the diagonals of A^ and its powers are shared",
        Role.SILO, DataSecret.FOREIGN_EDGE, STRUCTURE, FEDSTRUCT_LOUVAIN,
        circumstance=StructureCircumstance.SHARED_FEATURES, minimum=0.55, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> RankedPairs | None:  # noqa: ARG002  # needs no parameter
        edges = own_rows(view, OWN_EDGES)
        result = [_likely(degree, edges.get(degree.observer)) for degree in _read_degrees(view)]
        return tuple(result) or None

    def score(self, guess: RankedPairs, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Edges against random pairs of the same owners, see `_ranking_of_edges`."""
        return _ranking_of_edges(guess, truth)


def _ranking_of_edges(guess: RankedPairs, truth: StructureTruth) -> tuple[Measurement, ...]:
    """Twice the area under the curve less one, edges against random pairs of the same owners: 0 without a view."""
    ranking = rank_pairs(guess, truth)
    if ranking is None:
        return ()
    finding = (
        f"Edges between foreign nodes are ranked above pairs of the same owners with an area under the curve of "
        f"{ranking.same_owners:.3f}, above random pairs with {ranking.random:.3f}, above pairs two hops apart with "
        f"{ranking.two_hops:.3f}; {ranking.precision:.1%} of as many top pairs as there are edges are edges, of all "
        f"pairs {ranking.density:.2%}."
    )
    return (Measurement.of_area("ranking of edges", ranking.same_owners, ranking.interval, ranking.edges, finding),)


def _likely(read_degrees: _ReadDegrees, own_counts: Ids | None) -> PairScores:
    """Edges that a node has to nodes of a degree, times the same the other way, over all edges between both degrees.

    That is the probability of the edge where edges fall at random under these counts.
    """
    degrees, place = np.unique(read_degrees.degrees, return_inverse=True)
    # Neighbours of each degree, float64 [m, k]; where they are open, as an edge's end has them on average.
    ends = np.array([(read_degrees.degrees == degree).sum() * degree for degree in degrees], dtype=np.float64)
    average = ends / max(float(ends.sum()), 1.0)
    towards = read_degrees.degrees[:, None] * average
    for row, neighbours in enumerate(read_degrees.neighbours):
        if neighbours is not None:
            present_degrees = neighbours[np.isin(neighbours, degrees)]
            towards[row] = np.bincount(np.searchsorted(degrees, present_degrees), minlength=len(degrees))
    if own_counts is not None:
        towards = np.maximum(towards - _own_neighbour_counts(read_degrees.nodes, own_counts, degrees), 0)
    between = np.zeros((len(degrees), len(degrees)))
    np.add.at(between, place, towards)
    share = np.divide(towards, between[place], out=np.zeros_like(towards), where=between[place] > 0)
    identity = np.eye(len(degrees))[place]
    return PairScores(read_degrees.observer, read_degrees.nodes, ((share, identity), (identity, towards)))


def _own_neighbour_counts(nodes: Ids, pairs: Ids, degrees: Ids) -> Floats:
    """Neighbours of each degree that are the client's own, float64 [m, k], from its rows (own node, neighbour, ...)."""
    known = np.zeros((len(nodes), len(degrees)))
    ends, counts = np.unique(pairs[:, 0], return_counts=True)
    degree = counts[np.searchsorted(ends, pairs[:, 0])]
    row = np.minimum(np.searchsorted(nodes, pairs[:, 1]), max(len(nodes) - 1, 0))
    column = np.minimum(np.searchsorted(degrees, degree), max(len(degrees) - 1, 0))
    matches = (nodes[row] == pairs[:, 1]) & (degrees[column] == degree)
    np.add.at(known, (row[matches], column[matches]), 1)
    return known


ATTACKS: tuple[Attack[Any, Any], ...] = (_NsfWalkDegrees(), _NsfWalkEdges(), _NsfCosineEdges())
