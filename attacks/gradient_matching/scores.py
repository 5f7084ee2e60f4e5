"""How near reconstructed rows are to the true ones, after their order is undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

HALF_STEP = 1 / 32
"""A row counts as recovered if no entry is off by as much: half a step of 16 levels of grey, and well below one half
where features are zeros and ones."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """How near rows are to those that they are matched with.

    Attributes:
        rmse: root of the mean squared error over rows and entries.
        cosine: mean cosine of rows, 0 for rows of zeros.
        exact: share of rows without an entry that is off by 1/32 or more.
        rows: how many there are.
    """

    rmse: float
    cosine: float
    exact: float
    rows: int


def matched(found: NDArray[Any], true: NDArray[Any], batch: int) -> Ids:
    """Which found row stands for each true one: int64 [m], the assignment of least squared distance.

    The order of nodes changes no gradient, so a reconstruction can't know it. Rows of the batch, the first b, are
    matched among themselves, and so are the others.

    Args:
        found: [m, d].
        true: [m, d].
        batch: b.
    """
    order = np.empty(len(true), dtype=np.int64)
    for part in (np.arange(batch), np.arange(batch, len(true))):
        rows, columns = linear_sum_assignment(cdist(true[part], found[part], "sqeuclidean"))
        order[part[rows]] = part[columns]
    return order


def row_scores(found: NDArray[Any], true: NDArray[Any]) -> RowScores:
    """Compares rows [m, d] that are in the same order."""
    error = np.asarray(found, dtype=np.float64) - true
    return RowScores(
        float(np.sqrt((error**2).mean())), float(cosines(found, true).mean()), float(recovered(found, true).mean()),
        len(true),
    )  # fmt: skip


def recovered(found: NDArray[Any], true: NDArray[Any]) -> NDArray[np.bool_]:
    """Bool [m], which rows [m, d] are right in every entry up to half a step."""
    return np.asarray(np.abs(np.asarray(found, dtype=np.float64) - true).max(axis=1) < HALF_STEP)


def cosines(found: NDArray[Any], true: NDArray[Any]) -> Floats:
    """float64 [m], cosines of rows [m, d]; 0 where one is all zeros."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(true, axis=1)
    products = (np.asarray(found, dtype=np.float64) * true).sum(axis=1)
    quotient: Floats = np.divide(products, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return quotient


def class_means(public: NDArray[Any], labels: Ids, wanted: Ids) -> Floats:
    """The prior: the mean public row of the class of each wanted label, float64 [k, d].

    Args:
        public: [n, d], rows of nodes that somebody else published.
        labels: int64 [n].
        wanted: int64 [k]; a class without public rows has the mean of all.
    """
    everyone = public.mean(axis=0, dtype=np.float64)
    means = [public[labels == each].mean(axis=0, dtype=np.float64) if (labels == each).any() else everyone
             for each in wanted]  # fmt: skip
    return np.stack(means)
