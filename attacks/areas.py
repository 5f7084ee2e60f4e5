"""How much higher positives score than negatives: areas under the curve, with intervals that resample nodes.

Scores of one group are compared with one another and with no other's. Where groups differ in how many positives they
have and in how high they score, pooled scores rank groups, which is nothing that an attack found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.recovery import share_right
from fgl_secure.attacks.truth import StructureTruth
from fgl_secure.statistics.metrics import Interval, Proportion, clopper_pearson
from fgl_secure.typing import Flags, Floats, Ids

DRAWS = 1_000
"""Resamples of a bootstrap."""
CELLS = 4_000_000
"""Weights that are laid out at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """What one observer ranks."""

    nodes: Ids  # int64 [1, m] or [2, m], the node, or the ends of the pair, of each score
    scores: Floats  # float64 [m], higher for what looks more like a positive
    positive: Flags  # bool [m]

    def weigh_comparisons(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weight [r] of the comparisons that positives win, ties as half a win, and of all comparisons.

        Args:
            weights: float64 [n, r], whole numbers, of nodes; a pair counts as often as its ends together (Snijders
                and Borgatti, Connections 22, 1999).
        """
        if not len(self.scores):
            return np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
        order = np.argsort(self.scores, kind="stable")
        starts = np.unique(self.scores[order], return_index=True)[1]
        heavy = weights[self.nodes[0, order]]
        for ends in self.nodes[1:]:
            heavy = heavy * weights[ends[order]]
        up = np.add.reduceat(heavy * self.positive[order, None], starts, axis=0)
        down = np.add.reduceat(heavy, starts, axis=0) - up
        below = np.cumsum(down, axis=0) - down / 2
        return np.asarray((up * below).sum(axis=0)), np.asarray(up.sum(axis=0) * down.sum(axis=0))


def area(positive: Floats, negative: Floats) -> float:
    """The probability that a positive scores higher than a negative, ties counted half; .5 without either."""
    if not len(positive) or not len(negative):
        return 0.5
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    return float(below.mean() / (2 * len(ordered)))


def area_interval(value: float, rankings: Sequence[Ranking], counts: Ids, size: int, units: int) -> Interval:
    """The 95 % interval of a mean area by resampling nodes; draws that leave nothing to compare are left out.

    Args:
        value: the area.
        rankings: compared apart.
        counts: int64 [rankings], what the area of each weighs.
        size: number of nodes.
        units: where all draws agree, the interval is Clopper-Pearson on so many.
    """
    draws = [np.empty(0)]
    for weights in _draw_counts(size, max(len(item.scores) for item in rankings)):
        won, all_of = (
            np.stack(part) for part in zip(*(item.weigh_comparisons(weights) for item in rankings), strict=True)
        )
        masked = np.where(all_of > 0, counts[:, None], 0)
        areas = np.divide(won, all_of, out=np.zeros_like(won), where=all_of > 0)
        nonempty = masked.any(axis=0)
        draws.append((areas * masked).sum(axis=0)[nonempty] / masked.sum(axis=0)[nonempty])
    gains = np.concatenate(draws)
    low, high = np.percentile(gains, (2.5, 97.5)) if len(gains) else (0.0, 1.0)
    if high - low < 1e-12:
        return clopper_pearson(value * units, units)
    return Interval(min(float(low), value), max(float(high), value))


def _draw_counts(size: int, scores: int) -> Iterator[Floats]:
    """How often each node is drawn, float64 [n, r] for some draws at a time."""
    rng, step = np.random.default_rng(0), max(1, CELLS // max(size + scores, 1))
    for start in range(0, DRAWS, step):
        rows = min(step, DRAWS - start)
        cells = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        times = np.bincount(cells.ravel(), minlength=rows * size).reshape(rows, size)
        yield np.ascontiguousarray(times.T, dtype=np.float64)


def rank_advantage(rankings: Sequence[Ranking], nodes: int, seed: int, draws: int = DRAWS) -> Proportion:
    """2 AUC - 1: how much more often a positive scores above another score of the same ranking than below it.

    Args:
        rankings: one for each observer; scores of unlike observers are not compared.
        nodes: number of nodes of the graph, which each draw of the bootstrap resamples with replacement.
        seed: of the resampling.
        draws: number of resamples.

    Returns:
        The figure in [-1, 1] with a percentile interval of 95 %; 0 and [-1, 1] where nothing can be compared.
    """
    n, rng, step = (
        sum(len(ranking.scores) for ranking in rankings),
        np.random.default_rng(seed),
        max(1, 1_000_000 // nodes),
    )
    value = _gini(rankings, np.ones((nodes, 1)))
    if not len(value):
        return Proportion(0.0, Interval(-1.0, 1.0), n)
    sizes = [min(step, draws - start) for start in range(0, draws, step)]
    times = (rng.multinomial(nodes, np.full(nodes, 1 / nodes), size=rows).T.astype(np.float64) for rows in sizes)
    gains, point = np.concatenate([_gini(rankings, weights) for weights in times]), float(value[0])
    low, high = (float(end) for end in np.percentile(gains, (2.5, 97.5)))
    return Proportion(point, Interval(min(low, point), max(high, point)), n)


def _gini(rankings: Iterable[Ranking], weights: Floats) -> Floats:
    """2 AUC - 1 under each column of node weights [n, r] for which there is something to compare."""
    ahead, total = np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
    for ranking in rankings:
        won, compared = ranking.weigh_comparisons(weights)
        ahead, total = ahead + won, total + compared
    return np.asarray(2 * ahead[total > 0] / total[total > 0] - 1)


def mean_area(scores: Floats, positive: Flags, eligible: Flags) -> float:
    """The area of `area_within` alone; .5 where no group has nodes of both kinds."""
    up, down = positive & eligible, ~positive & eligible
    both = np.flatnonzero(up.any(axis=1) & down.any(axis=1))
    if not len(both):
        return 0.5
    item = [area(scores[index, up[index]], scores[index, down[index]]) for index in both]
    return float(np.average(item, weights=up[both].sum(axis=1)))


def share_of_labels(metric: str, guess: Ids, nodes: Ids, truth: StructureTruth) -> tuple[Measurement, ...]:
    """The share of labels that are right, of nodes that have one; no figure where none has.

    The prior is to know the most frequent label of each client: where clients are communities, that is right often.

    Args:
        metric: what the figure is called.
        guess: int64 [k].
        nodes: int64 [k], the node of each, which several observers may speak of.
        truth: with the labels and the clients.
    """
    has = truth.labels[nodes] >= 0
    guess, nodes = guess[has], nodes[has]
    if not len(nodes):
        return ()
    actual, client = truth.labels[nodes], truth.silo_of[nodes]
    counts = np.zeros((int(truth.silo_of.max()) + 1, int(truth.labels.max()) + 1))
    np.add.at(counts, (client, actual), 1)
    prior, random = float(counts.max(axis=1).sum()) / len(nodes), 1 / counts.shape[1]
    return (share_right(metric, guess == actual, nodes, f"{metric} are read.", random=random, prior=prior),)


def ranking_of_nodes(metric: str, scores: Floats, positive: NDArray[np.bool_], nodes: Ids, text: str) -> Measurement:
    """Twice the area under the curve less one, with a bootstrap interval over nodes.

    Args:
        metric: what the figure is called.
        scores: float64 [k], high where the observer believes that a node is of the kind.
        positive: bool [k], whether it is; both kinds must be there.
        nodes: int64 [k], the node of each, which several observers may speak of.
        text: the two kinds in words.
    """
    value = area(scores[positive], scores[~positive])
    units, unit = np.unique(nodes, return_inverse=True)
    fewer = min(len(np.unique(nodes[positive])), len(np.unique(nodes[~positive])))
    interval = area_interval(value, [Ranking(unit[None], scores, positive)], np.ones(1, np.int64), len(units), fewer)
    finding = f"{text} are told apart with an area under the curve of {value:.3f}."
    return Measurement.of_area(metric, value, interval, len(units), finding)
