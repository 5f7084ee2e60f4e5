"""Areas under the curve, over pairs and within groups, and figures over single nodes, with their intervals.

The area under the curve within groups: scores of one group are compared with one another and with no other's.

Where groups differ in how many positives they have and in how high they score, pooled scores rank groups, which is
nothing that an attack found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.statistics.intervals import clopper_pearson
from fgl_secure.statistics.metrics import Interval
from fgl_secure.typing import Flags, Floats, Ids

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
    return _bounds(value, drawn[~np.isnan(drawn)], len(np.unique(ends)))


def _bounds(value: float, drawn: Floats, units: int) -> Interval:
    """The middle 95 % of some draws with the value among them; Clopper-Pearson on the units where all agree."""
    low, high = np.percentile(drawn, (2.5, 97.5)) if len(drawn) else (0.0, 1.0)
    if high - low < 1e-12:
        return clopper_pearson(value * units, units)
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


def area_within(scores: Floats, positive: Flags, asked: Flags) -> tuple[float, Interval] | None:
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
    drawn = np.concatenate(list(_resampled_within(scores[both], up[both], down[both], up[both].sum(axis=1))))
    return value, _bounds(value, drawn, int(min(up[both].any(axis=0).sum(), down[both].any(axis=0).sum())))


def mean_area(scores: Floats, positive: Flags, asked: Flags) -> float:
    """The area of `area_within` alone; .5 where no group has nodes of both kinds."""
    up, down = positive & asked, ~positive & asked
    both = np.flatnonzero(up.any(axis=1) & down.any(axis=1))
    if not len(both):
        return 0.5
    each = [area(scores[at, up[at]], scores[at, down[at]]) for at in both]
    return float(np.average(each, weights=up[both].sum(axis=1)))


def _resampled_within(scores: Floats, up: Flags, down: Flags, counts: NDArray[np.int64]) -> Iterator[Floats]:
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


def share_of_labels(metric: str, guess: Ids, nodes: Ids, truth: StructureTruth) -> Measurement:
    """The share of labels that are right.

    The prior is to know the most frequent label of each client: where clients are communities, that is right often.

    Args:
        metric: what the figure is called.
        guess: int64 [k].
        nodes: int64 [k], the node of each, which several observers may speak of.
        truth: with the labels and the clients.
    """
    actual, client = truth.labels[nodes], truth.silo_of[nodes]
    counts = np.zeros((int(truth.silo_of.max()) + 1, int(truth.labels.max()) + 1))
    np.add.at(counts, (client, actual), 1)
    prior, random = float(counts.max(axis=1).sum()) / max(len(nodes), 1), 1 / counts.shape[1]
    return share_right(metric, guess == actual, nodes, f"{metric} are read.", random=random, prior=prior)


def ranking_of_nodes(metric: str, scores: Floats, positive: NDArray[np.bool_], nodes: Ids, what: str) -> Measurement:
    """Twice the area under the curve less one, with a bootstrap interval over nodes.

    Args:
        metric: what the figure is called.
        scores: float64 [k], high where the observer believes that a node is of the kind.
        positive: bool [k], whether it is; both kinds must be there.
        nodes: int64 [k], the node of each, which several observers may speak of.
        what: the two kinds in words.
    """
    value = area(scores[positive], scores[~positive])
    interval = _interval(value, scores, positive, nodes)
    finding = f"{what} are told apart with an area under the curve of {value:.3f}."
    return Measurement.of_area(metric, value, interval, len(np.unique(nodes)), finding)


def _interval(value: float, scores: Floats, positive: NDArray[np.bool_], nodes: Ids) -> Interval:
    rng = np.random.default_rng(0)
    units, unit = np.unique(nodes, return_inverse=True)
    order = np.argsort(scores, kind="stable")
    _, group = np.unique(scores[order], return_inverse=True)
    drawn = []
    for _ in range(DRAWS):
        weight = np.bincount(rng.integers(len(units), size=len(units)), minlength=len(units))[unit][order]
        up, down = (np.bincount(group, weights=weight * which[order]) for which in (positive, ~positive))
        if up.sum() > 0 and down.sum() > 0:
            drawn.append(float((up * (np.cumsum(down) - down / 2)).sum() / (up.sum() * down.sum())))
    fewer = min(len(np.unique(nodes[positive])), len(np.unique(nodes[~positive])))
    return _bounds(value, np.array(drawn), fewer)
