"""Which public rows a weighted sum of few of them is made of.

A row averaged over neighbours has a non-zero entry wherever one of them has: only rows whose entries other than 0 are
among those of the sum can be part of it, and few are. Their weights follow by non-negative least squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

WEIGHT = 1e-3
"""Weights up to this share of the largest are none."""

NUMBER = 1e-5
"""Entries up to this share of the largest are zero, and sums that are off by more do not fit."""


def parts_of(total: Floats, dictionary: Floats, eligible: NDArray[np.bool_]) -> Ids:
    """The rows of a dictionary that a sum is made of, int64 [k] ascending; none where no sum of them fits.

    Args:
        total: float64 [d], a sum of rows with positive weights.
        dictionary: float64 [n, d], non-negative.
        eligible: bool [n], rows that can be in it.
    """
    there = np.abs(total) > NUMBER * np.abs(total).max(initial=0.0)
    outside, inside = (dictionary @ np.stack([~there, there], axis=1).astype(np.float64)).T
    rows = np.flatnonzero(eligible & (outside == 0) & (inside > 0))
    if not len(rows) or len(rows) > there.sum():
        return np.empty(0, dtype=np.int64)
    weights, error = nnls(dictionary[np.ix_(rows, np.flatnonzero(there))].T, total[there])
    if error > NUMBER * np.linalg.norm(total):
        return np.empty(0, dtype=np.int64)
    return np.asarray(rows[weights > WEIGHT * weights.max()], dtype=np.int64)
