"""Proportions and differences of proportions with intervals that hold at 0, at 1 and at small counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt

import scipy  # its parts are loaded when they are first asked for; statistics take most of a second

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of a figure, both ends finite.

    Attributes:
        low: lower end.
        high: upper end, at least `low`.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high)):
            raise InputError(f"interval must have finite ends; found [{self.low}, {self.high}]")
        if self.low > self.high:
            raise InputError(f"interval must have low <= high; found [{self.low}, {self.high}]")

    def contains(self, value: float, tolerance: float = 0.0) -> bool:
        """Whether `value` lies inside, ends included, `tolerance` beyond them allowed."""
        return self.low - tolerance <= value <= self.high + tolerance


@dataclass(frozen=True, slots=True)
class Proportion:
    """A rate in [0, 1], or a difference of two rates in [-1, 1], with its interval.

    Attributes:
        value: the point estimate.
        interval: its confidence interval; always contains `value`.
        n: independent units behind it, an effective number where units depend on each other.
        arms: of a difference of two rates, the independent units of each; None for a rate.
    """

    value: float
    interval: Interval
    n: int
    arms: tuple[int, int] | None = None


def exact_proportion(successes: int, n: int, confidence: float = 0.95) -> Proportion:
    """The Clopper-Pearson interval: covers at least `confidence`, whatever the true rate.

    Args:
        successes: number of successes, 0 <= successes <= n.
        n: number of independent trials; 0 gives value 0 and [0, 1].
        confidence: inside (0, 1).

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    _check_count("successes", successes, "n", n)
    _check_confidence(confidence)
    value = successes / n if n else 0.0
    return Proportion(value, clopper_pearson(successes, n, confidence), int(n))


def clopper_pearson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """The beta quantiles behind `exact_proportion`; both counts may be fractional (effective ones)."""
    tail = (1 - confidence) / 2
    low = float(scipy.stats.beta.ppf(tail, successes, n - successes + 1)) if successes > 0 else 0.0
    high = float(scipy.stats.beta.ppf(1 - tail, successes + 1, n - successes)) if successes < n else 1.0
    return Interval(low, high)


def wilson_interval(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """The Wilson score interval of a rate; [0, 1] for n = 0. Both counts may be fractional (effective ones).

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Wilson, JASA 22 (1927).
    """
    _check_count("successes", successes, "n", n)
    _check_confidence(confidence)
    if n == 0:
        return Interval(0.0, 1.0)
    z = float(scipy.stats.norm.isf((1 - confidence) / 2))
    rate = successes / n
    centre = (successes + z * z / 2) / (n + z * z)
    half = z * sqrt(n * rate * (1 - rate) + z * z / 4) / (n + z * z)
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    high = 1.0 if successes == n else min(centre + half, 1.0)
    return Interval(low, high)


def advantage(tp: int, positives: int, fp: int, negatives: int, confidence: float = 0.95) -> Proportion:
    """The distinguishing advantage TPR - FPR of independent units, with Newcombe's hybrid score interval.

    Args:
        tp: positives that the attack called positive.
        positives: units for which the secret is true; 0 gives the interval no information from that arm.
        fp: negatives that the attack called positive.
        negatives: units for which the secret is false.
        confidence: inside (0, 1).

    Returns:
        The difference in [-1, 1]; `n` is positives + negatives.

    Raises:
        InputError: for counts or a confidence outside their range.

    Source: Newcombe, Statistics in Medicine 17 (1998), method 10.
    """
    _check_count("tp", tp, "positives", positives)
    _check_count("fp", fp, "negatives", negatives)
    tpr = tp / positives if positives else 0.0
    fpr = fp / negatives if negatives else 0.0
    return difference(tpr, positives, fpr, negatives, confidence)


def difference(tpr: float, positives: float, fpr: float, negatives: float, confidence: float = 0.95) -> Proportion:
    """Newcombe's interval of a difference of two rates, from the rates and the independent units behind each.

    Args:
        tpr: in [0, 1].
        positives: independent units behind it, fractional where that number is an effective one.
        fpr: in [0, 1].
        negatives: the same for the other rate.
        confidence: inside (0, 1).
    """
    hit = wilson_interval(tpr * positives, positives, confidence)
    alarm = wilson_interval(fpr * negatives, negatives, confidence)
    value = tpr - fpr
    low = value - sqrt((tpr - hit.low) ** 2 + (alarm.high - fpr) ** 2)
    high = value + sqrt((hit.high - tpr) ** 2 + (fpr - alarm.low) ** 2)
    arms = int(positives), int(negatives)
    return Proportion(value, Interval(max(low, -1.0), min(high, 1.0)), sum(arms), arms)


def smallest_detectable(n: int, alpha: float = 1e-3, power: float = 0.99) -> float:
    """The smallest advantage that a fixed distinguisher detects with `n` units in each of its two arms.

    A one-sided two-sample z-test at level `alpha`. Each arm's rate has variance at most 1 / (4 n), so the difference
    has standard deviation at most 1 / sqrt(2 n), and delta = (z_alpha + z_power) / sqrt(2 n); n = 14.67 / delta^2 for
    the defaults. A result above 1 says that n is too small to detect even a full break at this level.

    Args:
        n: units per arm, at least 1.
        alpha: false-alarm probability, inside (0, 1).
        power: detection probability, inside (0, 1).

    Raises:
        InputError: for a value outside its range.
    """
    if n < 1:
        raise InputError(f"n must be at least 1 unit per arm; found {n}")
    return _quantile_sum(alpha, power) / sqrt(2 * n)


def units_per_arm(delta: float, alpha: float = 1e-3, power: float = 0.99) -> int:
    """The inverse of `smallest_detectable`: units in each arm that detect the advantage `delta`.

    Raises:
        InputError: when delta is outside (0, 1], or alpha or power outside (0, 1).
    """
    if not 0 < delta <= 1:
        raise InputError(f"delta must be inside (0, 1]; found {delta}")
    return ceil(_quantile_sum(alpha, power) ** 2 / (2 * delta * delta))


def _quantile_sum(alpha: float, power: float) -> float:
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be inside (0, 1); found {value}")
    return float(scipy.stats.norm.isf(alpha) + scipy.stats.norm.ppf(power))


def _check_count(name: str, count: float, total_name: str, total: float) -> None:
    if not 0 <= count <= total:
        raise InputError(f"{name} must be between 0 and {total_name} = {total}; found {count}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be inside (0, 1); found {confidence}")
