"""The area under the curve of scores, and its interval where units share nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgl_secure.statistics.intervals import clopper_pearson
from fgl_secure.statistics.metrics import Interval

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

DRAWS = 1_000
CELLS = 4_000_000
"""Weights of pairs that are laid out at once."""


def area(positive: Floats, negative: Floats) -> float:
    """The probability that a positive scores higher than a negative, ties counted half; .5 without either."""
    if not len(positive) or not len(negative):
        return 0.5
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    return float(below.mean() / (2 * len(ordered)))


def area_of_pairs(positive: Floats, negative: Floats, ends: Ids, others: Ids, size: int) -> Interval:
    """The 95 % interval of an area over pairs of nodes, by node-block bootstrap.

    Each of 1,000 draws resamples the nodes, and a pair counts as often as the product of its ends (Snijders and
    Borgatti 1999). Where that collapses to a point it is Clopper-Pearson on the number of nodes that carry an edge.

    Args:
        positive: float64 [p], scores of edges.
        negative: float64 [q], scores of other pairs.
        ends: int64 [2, p], the edges.
        others: int64 [2, q], the other pairs.
        size: number of nodes.
    """
    value = area(positive, negative)
    if not len(negative):
        return Interval(0.0, 1.0)
    drawn = np.concatenate(list(_resampled(positive, negative, ends, others, size)))
    low, high = np.percentile(drawn[~np.isnan(drawn)], (2.5, 97.5))
    if high - low < 1e-12:
        nodes = len(np.unique(ends))
        return clopper_pearson(value * nodes, nodes)
    return Interval(min(float(low), value), max(float(high), value))


def _resampled(positive: Floats, negative: Floats, ends: Ids, others: Ids, size: int) -> Iterator[Floats]:
    """Areas under resampled nodes; NaN where a draw leaves no edge or no other pair."""
    rng = np.random.default_rng(0)
    order = np.argsort(negative, kind="stable")
    below = np.searchsorted(negative[order], positive, side="left")
    upto = np.searchsorted(negative[order], positive, side="right")
    step = max(1, CELLS // (len(positive) + len(negative) + size))
    for start in range(0, DRAWS, step):
        count = min(step, DRAWS - start)
        times = np.stack([np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(count)])
        weight = (times[:, ends[0]] * times[:, ends[1]]).astype(np.float64)
        passed = np.zeros((count, len(negative) + 1))
        passed[:, 1:] = np.cumsum((times[:, others[0]] * times[:, others[1]])[:, order], axis=1)
        total = weight.sum(axis=1) * passed[:, -1]
        with np.errstate(invalid="ignore", divide="ignore"):
            yield (weight * (passed[:, below] + passed[:, upto])).sum(axis=1) / (2 * total)
