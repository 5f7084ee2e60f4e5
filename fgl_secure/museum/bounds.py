"""Lower bounds on epsilon of any mechanism, from the statistics that are standard for numbers in a computer.

Outputs are looked at one by one, by the place of their lowest bit (Mironov 2012: textbook noise leaves holes among the
doubles, and they lie elsewhere for every value that the noise is added to), and all together along the direction that
separates the two inputs best in a sample of its own (Fisher's discriminant).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.museum.exhibit import Array, Releasing
from fgl_secure.statistics.lower_bounds import Ranks, classic_bound

Reals = NDArray[np.float64]

RUNS = 2 * 80_000
"""Of each input; the first half chooses thresholds, and the second is counted."""

PILOT = 10_000
"""Runs of each input that choose the direction and the levels of scores, and nothing else."""

_TAILS = 0.5 ** np.arange(1, 13)
_LEVELS = np.unique(np.concatenate([np.linspace(0.01, 0.99, 99), _TAILS, 1 - _TAILS]))


@dataclass(frozen=True, slots=True)
class Bound:
    """The best lower bound that was found.

    Attributes:
        epsilon: at least that much.
        statistic: by which score of outputs.
    """

    epsilon: float
    statistic: str


def lower_bound(subject: Releasing, data: tuple[Array, Array], coins: Coins, false_alarm: float) -> Bound:
    """The largest bound over all statistics, each at its share of the level.

    Args:
        subject: the mechanism.
        data: two neighbouring inputs.
        coins: of all runs.
        false_alarm: probability that the bound is wrong.
    """
    pilots = [subject.release(each, PILOT, coins) for each in data]
    runs = [subject.release(each, RUNS, coins) for each in data]
    scores = list(_scores(pilots, runs))
    confidence = 1 - false_alarm / (2 * len(scores))
    found = Bound(0.0, "no statistic")
    for name, (absent, present) in scores:
        for sign in (1, -1):
            bound = classic_bound(sign * present, sign * absent, delta=subject.delta, confidence=confidence)
            found = max(found, Bound(bound.epsilon, name), key=lambda each: each.epsilon)
    return found


def _scores(pilots: list[Array], runs: list[Array]) -> Iterator[tuple[str, tuple[Ranks, Ranks]]]:
    """Every statistic: its name, and its levels [runs] of both inputs."""
    for at in range(runs[0].shape[1]):
        yield f"the value of output {at}", _levelled([each[:, at] for each in pilots], [each[:, at] for each in runs])
        bits = [[lowest_bit(each[:, at]) for each in some] for some in (pilots, runs)]
        yield f"the place of the lowest bit of output {at}", _levelled(*bits)
    if runs[0].shape[1] > 1:
        direction = _discriminant(*pilots)
        along = [[each @ direction for each in some] for some in (pilots, runs)]
        yield "all outputs along Fisher's discriminant", _levelled(*along)


def lowest_bit(values: Array) -> Reals:
    """The exponent of the lowest bit that is set in each value as a double, and 1024 where none is: like `values`."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(np.abs(fraction), 53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1))
    return np.where(whole == 0, 1024.0, lowest + exponent - 53)


def _levelled(pilots: list[Array], runs: list[Array]) -> tuple[Ranks, Ranks]:
    """Scores as numbers of levels, which a pilot sample chose: few thresholds are enough, and are tried sooner."""
    steps = np.unique(np.quantile(np.concatenate(pilots).astype(np.float64), _LEVELS))
    absent, present = (np.searchsorted(steps, each, side="right").astype(np.int16) for each in runs)
    return absent, present


def _discriminant(absent: Array, present: Array) -> Reals:
    spread = np.cov(np.concatenate([absent - absent.mean(axis=0), present - present.mean(axis=0)]), rowvar=False)
    return np.asarray(np.linalg.pinv(spread) @ (present.mean(axis=0) - absent.mean(axis=0)))
