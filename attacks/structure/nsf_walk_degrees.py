"""Degrees of foreign nodes and of their neighbours, read off FedStar's features in closed form.

The diagonal of A^ is the reciprocal of a degree, so every degree is there to read; that of A^^2 has the sum of the
neighbours' reciprocals, which only few multisets of the degrees in the graph have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.neighbourhoods import OWN_EDGES, degree_words, ego_networks, neighbour_degrees, undirected
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT_LOUVAIN, STRUCTURE
from fgl_secure.attacks.structure.nsf_views import NeighbourSums, foreign_features, neighbour_sums, own_rows
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.attacks.truth import foreign_neighbours
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion
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
        (some, p1, q1), (rest, p2, q2) = self._halves[count - large], self._halves[large]
        low = np.searchsorted(p2, reciprocals - p1 - TOLERANCE, side="left")
        high = np.searchsorted(p2, reciprocals - p1 + TOLERANCE, side="right")
        first = np.repeat(np.arange(len(some)), high - low)
        second = _ranges(low, high)
        excess = squares - q1[first] - q2[second]
        exact = np.abs(excess) <= TOLERANCE
        for fits in (exact, excess > TOLERANCE) if not np.isnan(squares) else (np.ones(len(first), dtype=np.bool_),):
            found = np.unique(np.sort(np.hstack([some[first[fits]], rest[second[fits]]]), axis=1), axis=0)
            if len(found):
                return np.asarray(self._numbers[found[0]]) if len(found) == 1 else None
        return None

    def neighbours(self, sums: NeighbourSums) -> tuple[Ids | None, ...]:
        """The degrees of each node's neighbours, where the numbers are one more than degrees; each sum once."""
        keys = np.stack([sums.degrees, *(np.round(each / TOLERANCE) for each in (sums.reciprocals, sums.squares))])
        rows = zip(keys.T.tolist(), sums.degrees.tolist(), sums.reciprocals, sums.squares, strict=True)
        return tuple(self._one(tuple(map(str, key)), *row) for key, *row in rows)

    def _one(self, key: tuple[str, ...], degree: int, reciprocals: float, squares: float) -> Ids | None:
        if degree == 0:
            return np.empty(0, dtype=np.int64)
        if key not in self._solved:
            found = self.solve(degree, reciprocals, squares)
            self._solved[key] = None if found is None else found - 1
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
class ReadDegrees:
    """What one client reads off the features of foreign nodes.

    Attributes:
        observer: party identifier of the client.
        nodes: int64 [m], device indices.
        degrees: int64 [m], numbers of neighbours.
        neighbours: for each node the degrees of its neighbours, int64 [degree] ascending; None where they are open.
    """

    observer: int
    nodes: Ids
    degrees: Ids
    neighbours: tuple[Ids | None, ...]


def read_degrees(view: View) -> list[ReadDegrees]:
    """What every client reads alone; empty where features have no return probabilities."""
    edges, size = own_rows(view, OWN_EDGES), len(view.parties.ids(Role.DEVICE))
    found: list[ReadDegrees] = []
    solvers: dict[bytes, DegreeMultisets] = {}
    for client, held in foreign_features(view).items():
        sums = neighbour_sums(held.values)
        if sums is None:
            continue
        present = sums.degrees
        if client in edges:
            own = np.asarray(undirected(edges[client][:, :2].T, size).sum(axis=1), dtype=np.int64)
            present = np.concatenate([present, own[edges[client][:, 0]]])
        looped = np.unique(present[present > 0]) + 1
        solver = solvers.setdefault(looped.tobytes(), DegreeMultisets(looped))
        found.append(ReadDegrees(client, held.nodes, sums.degrees, solver.neighbours(sums)))
    return found


class NsfWalkDegrees(Attack[list[ReadDegrees], StructureTruth]):
    """A client solves return probabilities for the degrees of foreign nodes and of their neighbours."""

    card = Card(
        "nsf-walk-degrees",
        "a client reads degrees off FedStar's features, and solves them for the degrees of neighbours",
        "on FedStruct (ICLR 2025) App. A and G.1: the diagonals of A^ and its powers are shared",
        Role.SILO, Secret.DEGREE, STRUCTURE, FEDSTRUCT_LOUVAIN, minimum=0.52, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> list[ReadDegrees] | None:  # noqa: ARG002  # needs none
        """Reads every foreign node at every client alone."""
        return read_degrees(view) or None

    def score(self, guess: list[ReadDegrees], truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of degrees that are exact, and of nodes whose neighbours all have the degrees that are claimed.

        The latter is over nodes without a neighbour at another client: a client that computes features of its own
        nodes on what it sees knows but part of the edges of the others'.
        """
        adjacency = undirected(truth.edges, len(truth.silo_of))
        degrees, around = ego_networks(adjacency)[0], neighbour_degrees(adjacency)
        nodes = np.concatenate([each.nodes for each in guess])
        read = np.concatenate([each.degrees for each in guess])
        names = [neighbours for each in guess for neighbours in each.neighbours]
        solved = np.array([each is not None for each in names], dtype=np.bool_)
        claimed = np.array([0 if each is None else _name(each) for each in names], dtype=np.int64)
        exact = solved & (claimed == around[nodes])
        inner: NDArray[np.bool_] = np.asarray(~foreign_neighbours(truth).any(axis=1))[nodes]
        found = (_share("degrees", read == degrees[nodes], nodes, degrees),)
        return (*found, _share("neighbours' degrees", exact[inner], nodes[inner], around)) if inner.any() else found


def _name(degrees: Ids) -> int:
    """The name that `neighbour_degrees` gives to a multiset."""
    return int(degree_words(degrees).sum(dtype=np.uint64).view(np.int64))


def _share(metric: str, right: NDArray[np.bool_], nodes: Ids, actual: Ids) -> Measurement:
    share = clustered_proportion(right, nodes, seed=0)
    prior, random = largest_share(actual[nodes][:, None]), 1 / max(len(np.unique(actual)), 1)
    finding = f"Of {len(right):,} foreign nodes, the {metric} of {int(right.sum()):,} are read exactly."
    return Measurement.of_share(metric, share, finding, random=random, prior=prior)
