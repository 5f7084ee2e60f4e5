"""Figures over single nodes: which labels are right, and how well a score tells one kind of node from another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.ranking_area import DRAWS, area
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.intervals import clopper_pearson
from fgl_secure.statistics.metrics import Interval, clustered_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


def share_of_labels(metric: str, guess: Ids, nodes: Ids, truth: Truth) -> Measurement:
    """The share of labels that are right.

    The prior is to know the most frequent label of each client: where clients are communities, that is right often.

    Args:
        metric: what the figure is called.
        guess: int64 [k].
        nodes: int64 [k], the node of each, which several observers may speak of.
        truth: with the labels and the clients.
    """
    actual, client = truth.labels[nodes], truth.silo_of[nodes]
    right = guess == actual
    share = clustered_proportion(right, nodes, seed=0)
    finding = f"{int(right.sum()):,} of {len(right):,} {metric} are read."
    counts = np.zeros((int(truth.silo_of.max()) + 1, int(truth.labels.max()) + 1))
    np.add.at(counts, (client, actual), 1)
    prior, random = float(counts.max(axis=1).sum()) / max(len(nodes), 1), 1 / counts.shape[1]
    return Measurement(metric, share.value, share.interval, share.n, random, prior, 1.0, True, finding)


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
    bounds = Interval(2 * interval.low - 1, 2 * interval.high - 1)
    return Measurement(metric, 2 * value - 1, bounds, len(scores), 0.0, 0.0, 1.0, False, finding)


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
    low, high = np.percentile(drawn, (2.5, 97.5)) if drawn else (0.0, 1.0)
    if high - low < 1e-12:
        fewer = int(min(len(np.unique(nodes[positive])), len(np.unique(nodes[~positive]))))
        return clopper_pearson(value * fewer, fewer)
    return Interval(min(float(low), value), max(float(high), value))
