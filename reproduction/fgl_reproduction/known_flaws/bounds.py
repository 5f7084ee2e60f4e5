"""Lower bounds on epsilon of any mechanism, from standard statistics of floating-point outputs.

Each output is scored by its value and by the position of its lowest bit (Mironov 2012: textbook noise leaves holes
among the doubles, and their positions depend on the value that the noise is added to). All outputs together are scored
along Fisher's discriminant, which a sample of its own chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fgl_reproduction.known_flaws.case import ReleasingMechanism
from fgl_secure.coins import Coins
from fgl_secure.statistics.lower_bounds import Ranks, classic_bound
from fgl_secure.typing import Array, Floats

RUNS = 2 * 25_000
"""Runs per input; the first half chooses thresholds, and the second half is counted."""

PILOT = 5_000
"""Runs per input that choose the direction and the levels of scores, and nothing else."""

_TAILS = 0.5 ** np.arange(1, 13)
_LEVELS = np.unique(np.concatenate([np.linspace(0.01, 0.99, 99), _TAILS, 1 - _TAILS]))


@dataclass(frozen=True, slots=True)
class Bound:
    """The best lower bound over all statistics.

    Attributes:
        epsilon: the lower bound.
        statistic: the score of outputs that gives it.
    """

    epsilon: float
    statistic: str


def lower_bound(subject: ReleasingMechanism, data: tuple[Array, Array], coins: Coins, false_alarm: float) -> Bound:
    """Return the largest bound over all statistics, each at its share of the level.

    Args:
        subject: the mechanism.
        data: two neighbouring inputs.
        coins: randomness of all runs.
        false_alarm: probability that the bound is wrong.
    """
    pilots = [subject.release(item, PILOT, coins) for item in data]
    runs = [subject.release(item, RUNS, coins) for item in data]
    scores = list(_scores(pilots, runs))
    confidence = 1 - false_alarm / (2 * len(scores))
    best = Bound(0.0, "no statistic")
    for name, (absent, present) in scores:
        for sign in (1, -1):
            bound = classic_bound(sign * present, sign * absent, delta=subject.delta, confidence=confidence)
            best = max(best, Bound(bound.epsilon, name), key=lambda other: other.epsilon)
    return best


def _scores(pilots: list[Array], runs: list[Array]) -> Iterator[tuple[str, tuple[Ranks, Ranks]]]:
    """Yield every statistic: its name, and its levels [runs] on both inputs."""
    for index in range(runs[0].shape[1]):
        columns = [[values[:, index] for values in sample] for sample in (pilots, runs)]
        yield f"the value of output {index}", _rank_scores(*columns)
        bits = [[lowest_bit(values) for values in sample] for sample in columns]
        yield f"the position of the lowest bit of output {index}", _rank_scores(*bits)
    if runs[0].shape[1] > 1:
        direction = _discriminant(*pilots)
        along = [[values @ direction for values in sample] for sample in (pilots, runs)]
        yield "all outputs along Fisher's discriminant", _rank_scores(*along)


def lowest_bit(values: Array) -> Floats:
    """Return the exponent of the lowest set bit of each value as a double, 1024 for zero: shaped like `values`."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(np.abs(fraction), 53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1))
    return np.where(whole == 0, 1024.0, lowest + exponent - 53)


def _rank_scores(pilots: list[Array], runs: list[Array]) -> tuple[Ranks, Ranks]:
    """Return scores as numbers of levels, which the pilot sample chooses: few thresholds suffice and are faster."""
    steps = np.unique(np.quantile(np.concatenate(pilots).astype(np.float64), _LEVELS))
    absent, present = (np.searchsorted(steps, run, side="right").astype(np.int16) for run in runs)
    return absent, present


def _discriminant(absent: Array, present: Array) -> Floats:
    spread = np.cov(np.concatenate([absent - absent.mean(axis=0), present - present.mean(axis=0)]), rowvar=False)
    return np.asarray(np.linalg.pinv(spread) @ (present.mean(axis=0) - absent.mean(axis=0)))
