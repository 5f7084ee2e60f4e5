"""The area under the curve within groups: scores of one group are compared with one another and with no other's.

Where groups differ in how many positives they have and in how high they score, pooled scores rank groups, which is
nothing that an attack found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.ranking_area import DRAWS, area
from fgl_secure.statistics.intervals import clopper_pearson
from fgl_secure.statistics.metrics import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CELLS = 4_000_000
"""Weights of nodes that are laid out at once."""


def area_within(scores: Floats, positive: Bools, asked: Bools) -> tuple[float, Interval] | None:
    """The mean of each group's area, weighted by its positives, with a 95 % interval by resampling nodes.

    A node that several groups ask about counts equally often in all of them. Where all draws agree, the interval is
    Clopper-Pearson on the nodes of the rarer kind.

    Args:
        scores: float64 [groups, n].
        positive: bool [groups, n].
        asked: bool [groups, n], the nodes that count.

    Returns:
        The area and its interval; None where no group has nodes of both kinds.
    """
    up, down = positive & asked, ~positive & asked
    both = np.flatnonzero(up.any(axis=1) & down.any(axis=1))
    if not len(both):
        return None
    value = mean_area(scores, positive, asked)
    drawn = np.concatenate(list(_resampled(scores[both], up[both], down[both], up[both].sum(axis=1))))
    low, high = np.percentile(drawn, (2.5, 97.5)) if len(drawn) else (0.0, 1.0)
    if high - low < 1e-12:
        fewer = int(min(up[both].any(axis=0).sum(), down[both].any(axis=0).sum()))
        return value, clopper_pearson(value * fewer, fewer)
    return value, Interval(min(float(low), value), max(float(high), value))


def mean_area(scores: Floats, positive: Bools, asked: Bools) -> float:
    """The area of `area_within` alone; .5 where no group has nodes of both kinds."""
    up, down = positive & asked, ~positive & asked
    both = np.flatnonzero(up.any(axis=1) & down.any(axis=1))
    if not len(both):
        return 0.5
    each = [area(scores[at, up[at]], scores[at, down[at]]) for at in both]
    return float(np.average(each, weights=up[both].sum(axis=1)))


def _resampled(scores: Floats, up: Bools, down: Bools, counts: NDArray[np.int64]) -> Iterator[Floats]:
    """Areas under resampled nodes; draws that leave no group with both kinds are left out."""
    rng, size = np.random.default_rng(0), scores.shape[1]
    step = max(1, CELLS // size)
    for start in range(0, DRAWS, step):
        drawn = rng.integers(size, size=(min(step, DRAWS - start), size))
        times = np.stack([np.bincount(row, minlength=size) for row in drawn]).astype(np.float64)
        total, weight = np.zeros(len(times)), np.zeros(len(times))
        for row, ups, downs, count in zip(scores, up, down, counts, strict=True):
            found = _area(times[:, ups], times[:, downs], row[ups], row[downs])
            there = ~np.isnan(found)
            total[there] += count * found[there]
            weight[there] += count
        yield total[weight > 0] / weight[weight > 0]


def _area(up: Floats, down: Floats, positive: Floats, negative: Floats) -> Floats:
    """Areas under weights [draws, p] and [draws, q] of the two kinds; NaN where one kind has no weight."""
    order = np.argsort(negative, kind="stable")
    below = np.searchsorted(negative[order], positive, side="left")
    upto = np.searchsorted(negative[order], positive, side="right")
    passed = np.zeros((len(down), len(negative) + 1))
    np.cumsum(down[:, order], axis=1, out=passed[:, 1:])
    both = up.sum(axis=1) * passed[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((up * (passed[:, below] + passed[:, upto])).sum(axis=1) / (2 * both))
