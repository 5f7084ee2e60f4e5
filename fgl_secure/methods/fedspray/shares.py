"""Shares of classes among a client's labelled nodes (a_j of Eq. 15): exact fractions, or multiples of a public unit.

Fractions of clients with different numbers of labelled nodes have different denominators, and their exact sum often has
one explanation only. Multiples of one unit all have the same denominator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Reals = NDArray[np.float64]


def shares_of(counts: Ids, grid: int | None) -> Reals:
    """Shares that sum to one.

    On a grid, each is rounded down to a multiple of 1 / grid, and what is missing to one goes, a unit each, to those
    that lost most (largest remainders; of equals to the class of the lower number). So a share is off by less than
    1 / grid, that of an absent class is zero, and one below 1 / grid may become zero: then the class weighs nothing.

    Args:
        counts: int64 [C], labelled nodes of each class.
        grid: public number of units that make one; None for exact shares.

    Returns:
        float64 [C]; zeros without a labelled node.
    """
    labelled = int(counts.sum())
    if not labelled:
        return np.zeros(len(counts))
    if grid is None:
        return np.asarray(counts / labelled, dtype=np.float64)
    units, lost = np.divmod(counts.astype(np.int64) * grid, labelled)
    missing = grid - int(units.sum())
    units[np.argsort(-lost, kind="stable")[:missing]] += 1
    return np.asarray(units / grid, dtype=np.float64)
