"""Linear relations between the coordinates of a view, found by elimination over the field.

Shares of linear schemes break by linear relations: T + 1 points of one polynomial of degree T, or two shares under
one mask, determine a combination of secrets. Pairs of coordinates show those of two terms with coefficient 1; the
null space of a sample shows all of them. Relations must be found on other samples than they are tested on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Ints = NDArray[np.int64]

MAX_RELATIONS = 16
MAX_COLUMNS = 96
"""Coordinates among which relations are looked for: the first ones that vary."""

SPARE = 32
"""Samples beyond the number of columns: a chance relation has probability modulus ** -SPARE or so."""


def affine_relations(views: Ints, modulus: int, most: int = MAX_RELATIONS) -> Ints:
    """Combinations of coordinates that are constant over a sample.

    Args:
        views: int64 [n, d], a sample with more rows than coordinates that vary.
        modulus: a prime.
        most: how many relations to return at most.

    Returns:
        Coefficients int64 [r, d] in 0 .. modulus - 1, linearly independent, none of them about a constant coordinate
        alone; r = 0 for a sample without relations.
    """
    varying = np.flatnonzero((views != views[0]).any(axis=0))[:MAX_COLUMNS]
    if len(views) < len(varying) + SPARE:
        raise InputError(f"views must number at least {len(varying) + SPARE}; found {len(views)}")
    wide = np.int64 if modulus <= 2**31 else np.object_  # a product of two elements must fit
    moves = ((views[1:, varying] % modulus).astype(wide) - (views[0, varying] % modulus).astype(wide)) % modulus
    reduced, pivots = _row_echelon(moves, modulus)
    free = np.setdiff1d(np.arange(len(varying)), pivots)[:most]
    relations = np.zeros((len(free), views.shape[1]), dtype=np.int64)
    relations[np.arange(len(free)), varying[free]] = 1
    relations[:, varying[pivots]] = (-reduced[: len(pivots), free].T % modulus).astype(np.int64)
    return relations


def _row_echelon(matrix: NDArray[np.int64], modulus: int) -> tuple[NDArray[np.int64], Ints]:
    """The reduced row echelon form modulo a prime, and its pivot columns."""
    rows = matrix.copy()
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        below = np.flatnonzero(rows[:, column][len(pivots) :])
        if not len(below):
            continue
        top, found = len(pivots), len(pivots) + int(below[0])
        rows[[top, found]] = rows[[found, top]]
        rows[top] = rows[top] * pow(int(rows[top, column]), -1, modulus) % modulus
        factors = rows[:, column].copy()
        factors[top] = 0
        rows = (rows - factors[:, None] * rows[top] % modulus) % modulus
        pivots.append(column)
    return rows, np.array(pivots, dtype=np.int64)
