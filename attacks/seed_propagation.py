"""Growing a matching of two graphs from nodes that are known in both (Narayanan and Shmatikov, IEEE S&P 2009)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ids = NDArray[np.int64]

ECCENTRICITY = 0.5
"""By how many standard deviations of the scores the best must lead the second best."""


def common_neighbours(left: sparse.csr_array, right: sparse.csr_array, mapping: Ids) -> sparse.csr_array:
    """How many matched neighbours every pair of nodes has in common: float64 [n, k], sparse.

    Args:
        left: 0/1 [n, n], symmetric.
        right: 0/1 [k, k], symmetric.
        mapping: int64 [n], the right node of each left node, -1 where there is none.
    """
    known = np.flatnonzero(mapping >= 0)
    ends = (known, mapping[known])
    matched = sparse.csr_array((np.ones(len(known)), ends), shape=(left.shape[0], right.shape[0]))
    return sparse.csr_array(left.astype(np.float64) @ matched @ right.astype(np.float64))


def over_root_degree(scores: sparse.csr_array, right: sparse.csr_array) -> sparse.csr_array:
    """Scores [n, k] over the root of each column's degree in `right`, 0/1 [k, k]."""
    degree = np.maximum(np.asarray(right.sum(axis=1), dtype=np.float64), 1)
    return sparse.csr_array(scores @ sparse.diags_array(1 / np.sqrt(degree)))


def eccentric_best(scores: sparse.csr_array) -> Ids:
    """The column of the best score of each row, where it leads the second best clearly: int64 [n], else -1.

    The lead is measured in standard deviations over all columns, those without a score included.
    """
    best = np.full(scores.shape[0], -1, dtype=np.int64)
    columns = scores.shape[1]
    for row in np.flatnonzero(np.diff(scores.indptr)).tolist():
        values = scores.data[scores.indptr[row] : scores.indptr[row + 1]]
        top = np.sort(np.append(values, 0.0))[-2:]
        deviation = np.sqrt(max((values**2).sum() / columns - (values.sum() / columns) ** 2, 0.0))
        if top[1] - top[0] > ECCENTRICITY * deviation:
            best[row] = scores.indices[scores.indptr[row] + int(values.argmax())]
    return best


def propagate(left: sparse.csr_array, right: sparse.csr_array, seeds: Ids) -> Ids:
    """Matches nodes that are each other's eccentric best, again and again until there are no more.

    Args:
        left: 0/1 [n, n], symmetric.
        right: 0/1 [k, k], symmetric.
        seeds: int64 [n], the right nodes of the seeds, -1 elsewhere.

    Returns:
        int64 [n], the right node of each left node, -1 where none is found.
    """
    mapping = seeds.copy()
    while True:
        inverse = _inverse(mapping, right.shape[0])
        free, there = mapping < 0, inverse < 0
        forth = eccentric_best(_between(_scores(left, right, mapping), free, there))
        back = eccentric_best(_between(_scores(right, left, inverse), there, free))
        found = np.flatnonzero(forth >= 0)
        found = found[back[forth[found]] == found]
        if not len(found):
            return mapping
        mapping[found] = forth[found]


def _scores(left: sparse.csr_array, right: sparse.csr_array, mapping: Ids) -> sparse.csr_array:
    return over_root_degree(common_neighbours(left, right, mapping), right)


def _inverse(mapping: Ids, size: int) -> Ids:
    inverse = np.full(size, -1, dtype=np.int64)
    known = np.flatnonzero(mapping >= 0)
    inverse[mapping[known]] = known
    return inverse


def _between(scores: sparse.csr_array, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> sparse.csr_array:
    """Scores of some rows and columns, all others left out."""
    outer, inner = (sparse.diags_array(each.astype(np.float64)) for each in (rows, columns))
    kept = sparse.csr_array(outer @ scores @ inner)
    kept.eliminate_zeros()
    return kept
