"""Degrees of foreign nodes and of their neighbours, read off FedStar's features in closed form.

The diagonal of A^ is the reciprocal of a degree, so every degree is there to read; that of A^^2 has the sum of the
neighbours' reciprocals, which only few multisets of the degrees in the graph have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.degree_multisets import TOLERANCE, DegreeMultisets
from fgl_secure.attacks.ego_networks import degree_words, ego_networks, neighbour_degrees, undirected
from fgl_secure.attacks.nsf_views import OWN_EDGES, foreign_features, own_rows
from fgl_secure.attacks.nsf_walks import NeighbourSums, neighbour_sums
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


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
    solvers: dict[bytes, _Solver] = {}
    for client, held in foreign_features(view).items():
        sums = neighbour_sums(held.values)
        if sums is None:
            continue
        present = sums.degrees
        if client in edges:
            own = np.asarray(undirected(edges[client][:, :2].T, size).sum(axis=1), dtype=np.int64)
            present = np.concatenate([present, own[edges[client][:, 0]]])
        looped = np.unique(present[present > 0]) + 1
        solver = solvers.setdefault(looped.tobytes(), _Solver(looped))
        found.append(ReadDegrees(client, held.nodes, sums.degrees, solver.neighbours(sums)))
    return found


class NsfWalkDegrees(Attack[list[ReadDegrees]]):
    """A client solves return probabilities for the degrees of foreign nodes and of their neighbours."""

    @property
    def card(self) -> Card:
        """Every client alone."""
        return Card(
            "nsf-walk-degrees",
            "a client reads degrees off FedStar's features, and solves them for the degrees of neighbours",
            "on FedStruct (ICLR 2025) App. A and G.1: the diagonals of A^ and its powers are shared",
            Role.SILO,
            Secret.DEGREE,
            Material.STRUCTURE,
            Reference.FEDSTRUCT_LOUVAIN,
            minimum=0.52,
        )

    def infer(self, view: View, public: PublicParameters) -> list[ReadDegrees] | None:  # noqa: ARG002  # needs none
        """Reads every foreign node at every client alone."""
        return read_degrees(view) or None

    def score(self, guess: list[ReadDegrees], truth: Truth) -> tuple[Measurement, ...]:
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
        inner: NDArray[np.bool_] = np.asarray(~truth.foreign_neighbours.any(axis=1))[nodes]
        found = (_share("degrees", read == degrees[nodes], nodes, degrees),)
        return (*found, _share("neighbours' degrees", exact[inner], nodes[inner], around)) if inner.any() else found


class _Solver:
    """Solves sums for multisets of some degrees, each sum once.

    Args:
        looped: int64 [k], one more than the degrees that there are, ascending.
    """

    def __init__(self, looped: Ids) -> None:
        self._multisets = DegreeMultisets(looped)
        self._solved: dict[tuple[str, ...], Ids | None] = {}

    def neighbours(self, sums: NeighbourSums) -> tuple[Ids | None, ...]:
        """The degrees of each node's neighbours."""
        keys = np.stack([sums.degrees, *(np.round(each / TOLERANCE) for each in (sums.reciprocals, sums.squares))])
        rows = zip(keys.T.tolist(), sums.degrees.tolist(), sums.reciprocals, sums.squares, strict=True)
        return tuple(self._one(tuple(map(str, key)), *row) for key, *row in rows)

    def _one(self, key: tuple[str, ...], degree: int, reciprocals: float, squares: float) -> Ids | None:
        if degree == 0:
            return np.empty(0, dtype=np.int64)
        if key not in self._solved:
            found = self._multisets.solve(degree, reciprocals, squares)
            self._solved[key] = None if found is None else found - 1
        return self._solved[key]


def _name(degrees: Ids) -> int:
    """The name that `neighbour_degrees` gives to a multiset."""
    return int(degree_words(degrees).sum(dtype=np.uint64).view(np.int64))


def _share(metric: str, right: NDArray[np.bool_], nodes: Ids, actual: Ids) -> Measurement:
    share = clustered_proportion(right, nodes, seed=0)
    prior, random = largest_share(actual[nodes][:, None]), 1 / max(len(np.unique(actual)), 1)
    finding = f"Of {len(right):,} foreign nodes, the {metric} of {int(right.sum()):,} are read exactly."
    return Measurement(metric, share.value, share.interval, share.n, random, prior, 1.0, True, finding)
