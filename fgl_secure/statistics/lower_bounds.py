"""Empirical lower bounds on epsilon: what a mechanism's output gave away, whatever its analysis says.

A bound says epsilon >= x with the stated confidence, and never epsilon <= x. Scores come from two worst-case inputs,
with and without a canary; higher scores speak for the canary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first asked for; statistics take most of a second
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.statistics.metrics import clopper_pearson

Scores = NDArray[np.float64]
Ranks = NDArray[np.int16]
"""Numbers of a few levels of scores; they are sorted in a tenth of the time."""


class _Method(StrEnum):
    """How the bound follows from the scores."""

    CLASSIC = "Jagielski et al. 2020"
    GAUSSIAN = "Nasr et al. 2023, Gaussian"
    ONE_RUN = "Steinke et al. 2023, one run"


@dataclass(frozen=True, slots=True)
class EpsilonLowerBound:
    """A lower bound on epsilon that held for one audit.

    Attributes:
        method: how it follows from the scores.
        epsilon: the bound, 0 where the scores show nothing.
        n: scores of each input that were counted.
        confidence: probability that the bound holds.
        delta: the delta at which it bounds epsilon.
    """

    method: _Method
    epsilon: float
    n: int
    confidence: float
    delta: float


def classic_bound(
    present: Scores | Ranks, absent: Scores | Ranks, *, delta: float, confidence: float = 0.95
) -> EpsilonLowerBound:
    """ln((TPR_low - delta) / FPR_up), or the same of the opposite decision, whichever is more.

    Both rates have Clopper-Pearson intervals at `confidence`, whose used ends fail with half the rest each, so they
    hold jointly. With n right answers of n the bound is at most 3.28 for n = 100 and 5.60 for n = 1000.

    Args:
        present: float64 or int16 [2 n], scores of runs with the canary.
        absent: float64 or int16 [2 n], scores of runs without it. The first half of each chooses the threshold.
        delta: 0 or more, below 1.
        confidence: inside (0, 1).

    Source: Jagielski, Ullman, Oprea 2020.
    """

    def of_rates(tpr_low: Scores, fpr_up: Scores) -> Scores:
        with np.errstate(divide="ignore"):
            decided = np.log(np.maximum(tpr_low - delta, 0) / fpr_up)
            opposite = np.log(np.maximum(1 - fpr_up - delta, 0) / (1 - tpr_low))
        return np.maximum(decided, opposite)

    return _from_rates(_Method.CLASSIC, of_rates, float, _share_from, present, absent, delta, confidence)


def gaussian_bound(present: Scores, absent: Scores, *, delta: float, confidence: float = 0.95) -> EpsilonLowerBound:
    """For mechanisms that are at best mu-Gaussian: mu >= quantile(TPR_low) - quantile(FPR_up), then epsilon at delta.

    Far tighter than the classic bound, and sound only where the trade-off curve of the mechanism is Gaussian. The
    threshold is the best for two normal distributions fitted to the first half: the best of all observed ones follows
    the chances of the tails.

    Args:
        present: float [2 n], scores of runs with the canary.
        absent: float [2 n], scores of runs without it. The first half of each chooses the threshold.
        delta: inside (0, 1).
        confidence: inside (0, 1).

    Source: Nasr et al. 2023, section 4; Dong, Roth, Su 2022, Corollary 1.
    """

    def of_rates(tpr_low: Scores, fpr_up: Scores) -> Scores:
        return np.asarray(scipy.stats.norm.ppf(tpr_low) - scipy.stats.norm.ppf(fpr_up))

    def epsilon(mu: float) -> float:
        return _gaussian_epsilon(mu, delta)

    return _from_rates(_Method.GAUSSIAN, of_rates, epsilon, _fitted_share_from, present, absent, delta, confidence)


def one_run_bound(
    scores: Scores, included: NDArray[np.bool_], *, delta: float, share: float = 0.05, confidence: float = 0.95
) -> EpsilonLowerBound:
    """Return what guesses about the canaries of a single run rule out, whatever the mechanism.

    The largest epsilon at which v right guesses of r have probability below 1 - confidence, where that is at most
    P[X >= v] + 2 m delta max_i P[v > X >= v - i] / i for X ~ Binomial(r, e^epsilon / (1 + e^epsilon)).

    Args:
        scores: float64 [m], of all canaries; higher ones speak for inclusion.
        included: bool [m], whether each was included, by a fair coin of its own.
        delta: 0 or more, below 1.
        share: of canaries that are guessed, chosen in advance: half of these with the highest scores, half with the
            lowest.
        confidence: inside (0, 1).

    Source: Steinke, Nasr and Jagielski 2023, Theorem 5.2.
    """
    _check_levels(delta, confidence)
    if scores.ndim != 1 or scores.shape != included.shape or not np.isfinite(scores).all():
        raise InputError(f"scores must be finite, one for each of {included.shape} canaries; found {scores.shape}")
    half = int(len(scores) * share / 2)
    if half < 1:
        raise InputError(f"share must give at least one guess for either side; found {share} of {len(scores)} canaries")
    order = np.argsort(scores, kind="stable")
    right = int(included[order[-half:]].sum() + (~included[order[:half]]).sum())

    def chance(epsilon: float) -> float:
        law = scipy.stats.binom(2 * half, scipy.special.expit(epsilon))
        i = np.arange(1, right + 1)
        near = (law.cdf(right - 1) - law.cdf(right - i - 1)) / i
        return float(law.sf(right - 1) + 2 * len(scores) * delta * near.max(initial=0.0))

    low, high = 0.0, 64.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < 1 - confidence else (low, middle)
    return EpsilonLowerBound(_Method.ONE_RUN, low if low > 1e-3 else 0.0, len(scores), confidence, delta)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at delta of a mu-Gaussian mechanism; 0 for mu <= 0.

    Raises:
        InputError: when delta is outside (0, 1).
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must be inside (0, 1); found {delta}")

    def excess(epsilon: float) -> float:
        log_first = scipy.stats.norm.logcdf(mu / 2 - epsilon / mu)
        log_second = epsilon + scipy.stats.norm.logcdf(-mu / 2 - epsilon / mu)
        return float(math.exp(log_first) - math.exp(log_second) - delta)

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    top = mu * mu / 2 + mu * (2 + math.sqrt(2 * math.log(1 / delta)))
    return float(scipy.optimize.brentq(excess, 0.0, top, xtol=1e-12))


def _from_rates(
    method: _Method,
    of_rates: Callable[[Scores, Scores], Scores],
    epsilon: Callable[[float], float],
    share_from: Callable[[Any, Scores], Scores],
    present: Scores | Ranks,
    absent: Scores | Ranks,
    delta: float,
    confidence: float,
) -> EpsilonLowerBound:
    """Chooses the threshold on the first half of the scores and counts on the second."""
    _check_levels(delta, confidence)
    if present.ndim != 1 or present.shape != absent.shape or len(present) < 2:
        raise InputError(
            f"present and absent must be vectors of one length, at least 2; found {present.shape} and {absent.shape}"
        )
    if not (np.isfinite(present).all() and np.isfinite(absent).all()):
        raise InputError("scores must be finite; found NaN or infinity")
    half = len(present) // 2
    # Thresholds that fall between different scores, and one below all of them.
    distinct = np.unique(np.concatenate([present[:half], absent[:half]])).astype(np.float64)
    thresholds = np.concatenate([distinct[:1] - 1, (distinct[:-1] + distinct[1:]) / 2])
    expected = [half * share_from(scores[:half], thresholds) for scores in (present, absent)]
    ends = _ends(expected[0], expected[1], half, confidence)
    threshold = thresholds[int(np.argmax(of_rates(*ends)))]
    n = len(present) - half
    hits, alarms = (int((scores[half:] >= threshold).sum()) for scores in (present, absent))
    low, high = clopper_pearson(hits, n, confidence).low, clopper_pearson(alarms, n, confidence).high
    result = float(of_rates(np.array([low]), np.array([high]))[0])
    bound = max(epsilon(result), 0.0)
    return EpsilonLowerBound(method, bound, n, confidence, delta)


def _share_from(scores: Scores | Ranks, thresholds: Scores) -> Scores:
    """The share of scores at or above each threshold."""
    return 1 - np.searchsorted(np.sort(scores), thresholds) / len(scores)


def _fitted_share_from(scores: Scores, thresholds: Scores) -> Scores:
    """The same for the normal distribution that fits the scores."""
    spread = max(float(scores.std()), 1e-12 * float(np.abs(scores).max()), 1e-300)
    return np.asarray(scipy.stats.norm.sf((thresholds - scores.mean()) / spread))


def _ends(hits: Scores, alarms: Scores, n: int, confidence: float) -> tuple[Scores, Scores]:
    """Lower Clopper-Pearson ends of hits out of n, and upper ones of alarms; counts may be fractional."""
    tail, least = (1 - confidence) / 2, 1e-9
    low = scipy.stats.beta.ppf(tail, np.maximum(hits, least), n - hits + 1)
    high = scipy.stats.beta.ppf(1 - tail, alarms + 1, np.maximum(n - alarms, least))
    return np.where(hits > least, low, 0.0), np.where(alarms < n - least, high, 1.0)


def _check_levels(delta: float, confidence: float) -> None:
    if not 0 <= delta < 1:
        raise InputError(f"delta must be inside [0, 1); found {delta}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be inside (0, 1); found {confidence}")
