"""Label shares from what local training does to the bias of the last layer.

The gradient of that bias is the mean of soft-max p less one-hot y over a batch. So T steps of gradient descent at rate
r change it by r T (s - p), where s are the shares of the labels and p the mean predictions along the way, and s is the
change divided by r T, plus p; exactly so where batches are full. See `GradientLabels` for single gradients (iDLG, Zhao
et al. 2020; LLG, Wainakh et al., PoPETs 2022).

Nobody tells the server p. With rows h that enter the last layer its weight changes by about the change of the bias
times the mean of h, row by row, and p is about the soft-max at that mean. Gradients are taken at the T states ahead of
the steps, which lie (T - 1) / (2 T) of the way from what was handed out to what came back, on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import softmax

from fgl_secure.attacks.virtual_node_views import LocalWork, VirtualSlices
from fgl_secure.statistics.metrics import Interval

Floats = NDArray[np.float64]

RIDGE = 1e-3
"""Changes of the bias by about the root of this, for a rate and a number of steps of 1, are too small to divide by."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What local training did to what a server handed out.

    Attributes:
        sent: float64 [P + M width], what the server handed out.
        state: float64 [P + M width], what came back, or its mean over clients.
        steps: how many steps that took.
    """

    sent: Floats
    state: Floats
    steps: int

    def by_step(self, work: LocalWork) -> Floats:
        """The change for a rate and a number of steps of 1."""
        return (self.state - self.sent) / (work.rate * self.steps)

    @property
    def midway(self) -> Floats:
        """The mean of the states at which gradients were taken, if each step was the same."""
        return self.sent + (self.state - self.sent) * (self.steps - 1) / (2 * self.steps)


def label_shares(changes: Sequence[Change], layout: VirtualSlices, work: LocalWork) -> Floats:
    """How often each label occurs behind each of some changes, float64 [m, C] of sum 1; below 0 where p is wrong.

    What enters the last layer is taken to have one mean for all of them.
    """
    moved = np.stack([each.by_step(work) for each in changes])
    entering = mean_entering(moved, layout)
    shares = [
        row[layout.head_bias] + _predictions(each.midway, entering, layout)
        for row, each in zip(moved, changes, strict=True)
    ]
    return np.stack(shares)


def mean_entering(moved: Floats, layout: VirtualSlices) -> Floats:
    """The mean of the rows that enter the last layer, float64 [hidden], by how its weight and its bias moved.

    A weight moves by about the change of the bias times that mean. This is the least-squares solution over all rows of
    float64 [m, P + M width], drawn towards zero where biases hardly moved.
    """
    bias = moved[:, layout.head_bias]
    weight = moved[:, layout.head_weight].reshape(len(moved), layout.classes, layout.hidden)
    return np.asarray(np.einsum("mc,mch->h", bias, weight) / (np.square(bias).sum() + RIDGE))


def nearest_shares(values: Floats) -> Floats:
    """The point of the simplex that is nearest to float64 [C]: all entries lowered alike, and none below zero."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(descending > excess)[-1]
    return np.asarray(np.maximum(values - excess[kept], 0.0))


def distance(first: Floats, second: Floats) -> Floats:
    """The total-variation distance of distributions [..., C]."""
    return np.asarray(np.abs(first - second).sum(axis=-1) / 2)


def mean_interval(gains: Floats) -> Interval:
    """Student's 95 % interval of the mean of gains in [-1, 1], within these bounds; all of them for a single gain."""
    if len(gains) == 1:
        return Interval(-1.0, 1.0)
    half = float(stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
    mean = float(gains.mean())
    return Interval(max(mean - half, -1.0), min(mean + half, 1.0))


def _predictions(state: Floats, entering: Floats, layout: VirtualSlices) -> Floats:
    weight = state[layout.head_weight].reshape(layout.classes, layout.hidden)
    return np.asarray(softmax(weight @ entering + state[layout.head_bias]))
