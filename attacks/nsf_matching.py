"""Matching the rows of two tables by their distance: to the nearest, or one to one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

DENSE = 5_000
"""Rows up to which all distances are laid out."""
NEAREST = 50
"""Candidates of each row beyond that."""
ROUNDING = 1e-12
"""Squared distances up to this share of the rows' mean squared length are rounding, and count as none."""


def comparable(values: Floats) -> Floats:
    """Features [m, d] as they are best compared: counts, whose tails are heavy, as log2(1 + count), else as they are.

    Zeros and ones stay what they are.
    """
    counts = bool((values >= 0).all() and (values == np.rint(values)).all())
    return np.log2(1 + values) if counts else values


def nearest(rows: Floats, table: Floats, count: int, rng: np.random.Generator) -> Ids:
    """The `count` nearest rows of a table, from near to far, equally near ones in random order.

    Args:
        rows: [m, d].
        table: [k, d], k at least 1.
        count: how many of the table, as far as there are that many.
        rng: breaks ties.

    Returns:
        int64 [m, min(count, k)], rows of the table.
    """
    order = rng.permutation(len(table))
    if max(len(rows), len(table)) > DENSE:
        return order[_tree_nearest(rows, table[order], min(count, len(table)))]
    distance = squared_distances(rows, table[order])
    return np.asarray(order[distance.argsort(axis=1, kind="stable")[:, :count]])


def one_to_one(rows: Floats, table: Floats, rng: np.random.Generator) -> Ids:
    """The assignment of least total squared distance, of each row of the table once at most.

    Kuhn's Hungarian method on all distances up to 5,000 rows, else a sparse one (Jonker and Volgenant 1987) on the 50
    nearest of each row.

    Args:
        rows: [m, d].
        table: [k, d].
        rng: breaks ties.

    Returns:
        int64 [m], rows of the table; -1 for those that remain without one.
    """
    order = rng.permutation(len(table))
    shuffled = table[order]
    if max(len(rows), len(table)) > DENSE:
        return _named(_sparse_assignment(rows, shuffled), order)
    matched = np.full(len(rows), -1, dtype=np.int64)
    which, column = linear_sum_assignment(squared_distances(rows, shuffled))
    matched[which] = column
    return _named(matched, order)


def squared_distances(rows: Floats, table: Floats) -> Floats:
    """Squared Euclidean distances [m, k], 0 where they may come from rounding to single precision."""
    distance = cdist(rows, table, "sqeuclidean")
    scale = float((table**2).sum(axis=1).mean()) if len(table) else 0.0
    return np.asarray(np.where(distance <= ROUNDING * scale, 0.0, distance))


def equal_rows(rows: Floats) -> Ids:
    """How many rows of a table [m, d] are equal to each up to rounding, itself included: int64 [m]."""
    scale = float(np.sqrt((rows**2).sum(axis=1).mean())) if len(rows) else 0.0
    coarse = np.round(rows / max(scale, np.finfo(np.float64).tiny), 6)
    _, group, count = np.unique(coarse, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(count[group.ravel()], dtype=np.int64)


def _named(matched: Ids, order: Ids) -> Ids:
    return np.where(matched >= 0, order[matched], -1)


def _tree_nearest(rows: Floats, table: Floats, count: int) -> Ids:
    _, found = KDTree(table).query(rows, k=count)
    return np.asarray(found, dtype=np.int64).reshape(len(rows), count)


def _sparse_assignment(rows: Floats, table: Floats) -> Ids:
    """Each row may also stay alone, at more than any distance: so there always is a full matching."""
    count = min(NEAREST, len(table))
    distance, found = (np.asarray(each).reshape(len(rows), count) for each in KDTree(table).query(rows, k=count))
    cost = distance**2
    alone = (cost.max(initial=0.0) + 1) * (len(rows) + 1)
    which = np.arange(len(rows))
    data = np.concatenate([cost.ravel() + 1, np.full(len(rows), alone)])  # an entry of zero would be none
    ends = np.concatenate([np.repeat(which, count), which]), np.concatenate([found.ravel(), len(table) + which])
    graph = sparse.csr_array((data, ends), shape=(len(rows), len(table) + len(rows)))
    row, column = min_weight_full_bipartite_matching(graph)
    matched = np.full(len(rows), -1, dtype=np.int64)
    matched[row] = np.where(column < len(table), column, -1)
    return matched
