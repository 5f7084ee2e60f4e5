"""Edges between foreign nodes from their structure features.

Features that are learnt or trained along the edges (Hop2Vec, Node2Vec) are alike at both ends of an edge. FedStar's say
the degrees of a node's neighbours, and an edge needs that each end has a neighbour of the other's degree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.nsf_views import MODEL, OWN_EDGES, embedded, foreign_features, own_rows
from fgl_secure.attacks.nsf_walk_degrees import ReadDegrees, read_degrees
from fgl_secure.attacks.pair_ranking import PairScores, rank_pairs
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RankedPairs:
    """The scores that clients give to pairs of foreign nodes, one table a client."""

    clients: tuple[PairScores, ...]


class NsfCosineEdges(InformedAttack[RankedPairs]):
    """The cosine of two nodes' features."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "nsf-cosine-edges",
            "a client takes foreign nodes for neighbours whose learnt structure features point the same way",
            "on FedStruct (ICLR 2025) App. G.1, as Duddu et al. (2020) for node embeddings",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT,
            circumstance=Circumstance.SHARED_FEATURES,
            minimum=0.55,
            auxiliary=MODEL,
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> RankedPairs | None:  # noqa: ARG002  # needs no parameter
        """Scores all pairs of foreign nodes at every client alone."""
        found = []
        for client, held in foreign_features(view).items():
            rows = embedded(held, auxiliary)
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(length > 0, length, 1)
            found.append(PairScores(client, held.nodes, ((rows, rows),)))
        return RankedPairs(tuple(found)) if found else None

    def score(self, guess: RankedPairs, truth: Truth) -> tuple[Measurement, ...]:
        """Edges against random pairs of the same owners, see `ranking_of_edges`."""
        return ranking_of_edges(guess, truth)


class NsfWalkEdges(Attack[RankedPairs]):
    """How likely an edge is that joins two nodes with these degrees and these degrees of neighbours."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "nsf-walk-edges",
            "a client intersects the neighbours' degrees that FedStar's features say of foreign nodes",
            "on FedStruct (ICLR 2025) App. A and G.1: the diagonals of A^ and its powers are shared",
            Role.SILO,
            Secret.FOREIGN_EDGE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_LOUVAIN,
            circumstance=Circumstance.SHARED_FEATURES,
            minimum=0.55,
        )

    def infer(self, view: View, public: PublicParameters) -> RankedPairs | None:  # noqa: ARG002  # needs no parameter
        """Scores all pairs of foreign nodes at every client alone."""
        edges = own_rows(view, OWN_EDGES)
        found = [_likely(read, edges.get(read.observer)) for read in read_degrees(view)]
        return RankedPairs(tuple(found)) if found else None

    def score(self, guess: RankedPairs, truth: Truth) -> tuple[Measurement, ...]:
        """Edges against random pairs of the same owners, see `ranking_of_edges`."""
        return ranking_of_edges(guess, truth)


def ranking_of_edges(guess: RankedPairs, truth: Truth) -> tuple[Measurement, ...]:
    """Twice the area under the curve less one, edges against random pairs of the same owners: 0 without a view."""
    ranking = rank_pairs(guess.clients, truth)
    if ranking is None:
        return ()
    gain, bounds = 2 * ranking.same_owners - 1, ranking.interval
    interval = Interval(2 * bounds.low - 1, 2 * bounds.high - 1)
    finding = (
        f"Edges between foreign nodes are ranked above pairs of the same owners with an area under the curve of "
        f"{ranking.same_owners:.3f}, above random pairs with {ranking.random:.3f}, above pairs two hops apart with "
        f"{ranking.two_hops:.3f}; {ranking.precision:.1%} of as many top pairs as there are edges are edges, of all "
        f"pairs {ranking.density:.2%}."
    )
    return (Measurement("ranking of edges", gain, interval, ranking.edges, 0.0, 0.0, 1.0, False, finding),)


def _likely(read: ReadDegrees, own: Ids | None) -> PairScores:
    """Edges that a node has to nodes of a degree, times the same the other way, over all edges between both degrees.

    That is the probability of the edge where edges fall at random under these counts.
    """
    degrees, place = np.unique(read.degrees, return_inverse=True)
    towards = _towards(read, degrees)
    if own is not None:
        towards = np.maximum(towards - _known(read.nodes, own, degrees), 0)
    between = np.zeros((len(degrees), len(degrees)))
    np.add.at(between, place, towards)
    share = np.divide(towards, between[place], out=np.zeros_like(towards), where=between[place] > 0)
    which = np.eye(len(degrees))[place]
    return PairScores(read.observer, read.nodes, ((share, which), (which, towards)))


def _towards(read: ReadDegrees, degrees: Ids) -> Floats:
    """Neighbours of each degree, float64 [m, k]; where they are open, as an edge's end has them on average."""
    ends = np.array([(read.degrees == degree).sum() * degree for degree in degrees], dtype=np.float64)
    average = ends / max(float(ends.sum()), 1.0)
    towards = read.degrees[:, None] * average
    for row, neighbours in enumerate(read.neighbours):
        if neighbours is not None:
            there = neighbours[np.isin(neighbours, degrees)]
            towards[row] = np.bincount(np.searchsorted(degrees, there), minlength=len(degrees))
    return towards


def _known(nodes: Ids, own: Ids, degrees: Ids) -> Floats:
    """Neighbours of each degree that are the client's own, float64 [m, k], from its rows (own node, neighbour, ...)."""
    known = np.zeros((len(nodes), len(degrees)))
    ends, counts = np.unique(own[:, 0], return_counts=True)
    degree = counts[np.searchsorted(ends, own[:, 0])]
    row = np.minimum(np.searchsorted(nodes, own[:, 1]), max(len(nodes) - 1, 0))
    column = np.minimum(np.searchsorted(degrees, degree), max(len(degrees) - 1, 0))
    there = (nodes[row] == own[:, 1]) & (degrees[column] == degree)
    np.add.at(known, (row[there], column[there]), 1)
    return known
