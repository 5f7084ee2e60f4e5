"""What return probabilities say of a node: its degree, and sums of reciprocals of its neighbours' degrees.

FedStar's features, as FedStruct takes them over (ICLR 2025, App. A), are the diagonal of powers of A^ = D~^-1 (A + I),
with D~ one more than the degree. With p_k the sum of (1/d~_w)^k over the neighbours w of u,

    A^_uu   = 1 / d~_u
    A^^2_uu = (1 / d~_u + p_1) / d~_u
    A^^3_uu = (1 / d~_u^2 + 2 p_1 / d~_u + p_2 + t) / d~_u,

t being the sum of 2 / (d~_v d~_w) over the triangles u v w. One-hot degrees say the degree alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

WHOLE = 1e-3
"""How far the reciprocal of a return probability may be from a whole number, in single precision."""

DIGITS = 5
"""Decimal digits of sums of reciprocals that survive single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourSums:
    """What three return probabilities say.

    Attributes:
        degrees: int64 [m], numbers of neighbours.
        reciprocals: float64 [m], p_1.
        squares: float64 [m], p_2 + t; NaN where there are only two probabilities.
    """

    degrees: Ids
    reciprocals: Floats
    squares: Floats


def neighbour_sums(values: Floats) -> NeighbourSums | None:
    """Reads features [m, d] that have return probabilities in consecutive columns; None where none do."""
    column = _first_return(values)
    if column is None:
        return None
    one, two = values[:, column], values[:, column + 1]
    looped = np.rint(1 / one)
    reciprocals = two * looped - 1 / looped
    squares = np.full(len(values), np.nan)
    if column + 2 < values.shape[1]:
        squares = values[:, column + 2] * looped - 1 / looped**2 - 2 * reciprocals / looped
    return NeighbourSums(looped.astype(np.int64) - 1, reciprocals, squares)


def one_hot(values: Floats) -> Ids | None:
    """The place of the one in each row of zeros and ones, int64 [m]; None where rows are anything else."""
    flags = ((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all()
    return values.argmax(axis=1).astype(np.int64) if flags and values.shape[1] > 1 else None


def degree_hashes(values: Floats) -> NDArray[np.float64] | None:
    """What can be read off features [m, d] for certain of degrees, and of neighbours' degrees in sorted order.

    Returns:
        float64 [m, k], rows equal where these are equal; None for features that say neither.
    """
    sums = neighbour_sums(values)
    if sums is not None:
        columns = (sums.degrees, np.round(sums.reciprocals, DIGITS), np.round(np.nan_to_num(sums.squares), DIGITS - 1))
        return np.stack(columns, axis=1).astype(np.float64)
    places = one_hot(values)
    return None if places is None else places[:, None].astype(np.float64)


def _first_return(values: Floats) -> int | None:
    """The first column of reciprocals of whole numbers that the next column may be the square of."""
    if not len(values):
        return None
    for column in range(values.shape[1] - 1):
        one, two = values[:, column], values[:, column + 1]
        if (one <= 0).any() or (one > 1).any() or (two > 1 + WHOLE).any():
            continue
        looped = 1 / one
        if (np.abs(looped - np.rint(looped)) <= WHOLE * looped).all() and (two >= one**2 * (1 - WHOLE)).all():
            return column
    return None
