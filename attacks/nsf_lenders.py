"""Which own node's structure features are nearest to a foreign node's: what a client compares it with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.ego_networks import undirected
from fgl_secure.attacks.nsf_matching import comparable, nearest
from fgl_secure.attacks.nsf_views import OWN_EDGES, HeldFeatures, foreign_features, own_features, own_rows
from fgl_secure.attacks.nsf_walks import neighbour_sums
from fgl_secure.runtime import Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class KnownNodes:
    """What one client knows.

    Attributes:
        client: its party identifier.
        foreign: features of other clients' nodes.
        own: features of its own nodes.
        adjacency: 0/1 [n, n], the edges with an end among its nodes.
    """

    client: int
    foreign: HeldFeatures
    own: HeldFeatures
    adjacency: sparse.csr_array

    def lenders(self, among: Ids) -> Ids:
        """int64 [m]: for each foreign node the nearest of some own nodes (positions in `own.nodes`).

        Return probabilities are compared by what they say of neighbours' degrees, which is what an ego network is.
        """
        sums = neighbour_sums(np.concatenate([self.foreign.values, self.own.values]))
        if sums is None:
            rows, table = self._tables()
            return self._nearest(rows, table, among)
        around = np.stack([sums.degrees.astype(np.float64), sums.reciprocals, np.nan_to_num(sums.squares)], axis=1)
        return self._nearest(around[: len(self.foreign.nodes)], around[len(self.foreign.nodes) :], among)

    def degree_lenders(self, degrees: Ids) -> Ids:
        """int64 [m]: the nearest own nodes in the one column that goes with the degree of own nodes, else in all.

        Args:
            degrees: int64 [n], right for own nodes.
        """
        rows, table = self._tables()
        column = _degree_column(table, degrees[self.own.nodes])
        chosen = slice(None) if column is None else slice(column, column + 1)
        return self._nearest(rows[:, chosen], table[:, chosen], np.arange(len(table)))

    def _tables(self) -> tuple[Floats, Floats]:
        both = comparable(np.concatenate([self.foreign.values, self.own.values]))
        return standardised(both[: len(self.foreign.nodes)], both[len(self.foreign.nodes) :])

    def _nearest(self, rows: Floats, table: Floats, among: Ids) -> Ids:
        chosen = nearest(rows, table[among], 1, np.random.default_rng(self.client))[:, 0]
        return np.asarray(self.own.nodes[among[chosen]])


def known_nodes(view: View) -> list[KnownNodes]:
    """What every client knows, of those that know features of both and their own edges."""
    foreign, own, edges = foreign_features(view), own_features(view), own_rows(view, OWN_EDGES)
    size = len(view.parties.ids(Role.DEVICE))
    return [
        KnownNodes(client, foreign[client], own[client], undirected(edges[client][:, :2].T, size))
        for client in sorted(set(foreign) & set(own) & set(edges))
    ]


def standardised(rows: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Two tables in units of the standard deviations of the second; columns of zeros and ones stay as they are."""
    spread = table.std(axis=0)
    flags = ((table == 0) | (table == 1)).all(axis=0) & ((rows == 0) | (rows == 1)).all(axis=0)
    unit = np.where(flags | (spread == 0), 1.0, spread)
    return rows / unit, table / unit


def _degree_column(table: Floats, degrees: Ids) -> int | None:
    """The first column that has one value for each degree and no value for two; None without one or with one degree."""
    kinds = len(np.unique(degrees))
    for column in range(table.shape[1] if kinds > 2 else 0):
        values = np.round(table[:, column], 6)
        pairs = np.unique(np.stack([values, degrees]), axis=1).shape[1]
        if pairs == kinds == len(np.unique(values)):
            return column
    return None
