"""Which unknowns a system of linear equations determines although it does not determine all.

Unknown u is the same in all solutions of M x = b exactly where the unit vector e_u lies in the row space of M, that is
where its leverage, the squared length of its projection onto that space, is 1 (Chin and Ozsoyoglu, IEEE TSE 8 (1982),
on sums that a statistical database answers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.typing import Floats, Ids

RANK = 1e-10
"""Singular values below this share of the largest count as zero."""

DETERMINED = 1e-8
"""How far below 1 the leverage of a determined unknown may be, in double precision."""


def row_basis(matrix: Floats) -> Floats:
    """An orthonormal basis of the row space: float64 [r, m] of a matrix [q, m], singular values cut off by `RANK`."""
    return _decomposed(matrix)[2]


def leverages(basis: Floats) -> Floats:
    """The squared length of each unit vector's projection onto a space: float64 [m] of an orthonormal basis [r, m]."""
    return np.asarray((basis * basis).sum(axis=0))


def exposed(basis: Floats) -> NDArray[np.bool_]:
    """Bool [m]: the unknowns that a space of answered rows determines."""
    return np.asarray(leverages(basis) > 1 - DETERMINED)


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """How to read the determined unknowns off the right-hand sides.

    Attributes:
        unknowns: int64 [k], ascending, which are determined.
        weights: float64 [k, q]; weights @ b are their values.
    """

    unknowns: Ids
    weights: Floats


def solver(matrix: Floats) -> Solver:
    """The determined unknowns of a matrix [q, m], and the combination of equations that isolates each."""
    left, singular, basis = _decomposed(matrix)
    unknowns = np.flatnonzero(exposed(basis))
    return Solver(unknowns, (basis[:, unknowns] / singular[:, None]).T @ left.T)


def _decomposed(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    if not matrix.size:
        rows, columns = matrix.shape
        return np.empty((rows, 0)), np.empty(0), np.empty((0, columns))
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > RANK * singular[0]).sum())
    return left[:, :rank], singular[:rank], right[:rank]
