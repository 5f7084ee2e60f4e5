"""The words that an audit may use about a figure, and the rule that picks one."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import sqrt

import scipy  # its statistics are loaded when they are first asked for

from fgl_secure.statistics.metrics import Interval, clopper_pearson, difference

MARGIN = 0.05
"""A gain over chance and prior up to here is not called a leak."""

_HALF = 0.5
"""With an excess over the prior of this much an attack has broken what it attacked."""


class Verdict(StrEnum):
    """What a figure shows. An audit proves nothing: the absence of a leak is only ever *not detected*."""

    BROKEN = "broken"
    LEAKS = "leaks"
    NOT_DETECTED = "not detected"
    CONTEXT = "context"
    """The size of something, a property of graph and partition, or the precision of claims: no evidence of its own."""

    @property
    def is_exposure(self) -> bool:
        """Whether the figure shows that something was learned."""
        return self in (Verdict.BROKEN, Verdict.LEAKS)

    @property
    def is_measured(self) -> bool:
        """Whether the verdict rests on an attack that was run, and so needs its controls."""
        return self is not Verdict.CONTEXT


def judge(value: float, interval: Interval, prior: float, *, exact: bool) -> Verdict:
    """The verdict on one measured figure.

    The excess over the prior decides, not the value. A figure *leaks* if the lower end of its interval exceeds the
    prior by more than 0.05. An exact-recovery rate of at least 0.5 also *leaks* if it exceeds the prior by more than
    0.05 and its whole interval lies above the prior. A rate that leaks is *broken* if it exceeds the prior by at least
    0.5; an advantage, a difference to chance already, if its lower end exceeds the prior (at least 0) by more than 0.5.
    Anything else is *not detected*.

    Args:
        value: the rate or the advantage.
        interval: its 95 % interval.
        prior: the rate, or the advantage, of the best guess without the transcript.
        exact: True for rates of exact recovery, False for advantages.
    """
    surely, half = interval.low - prior, _HALF + max(prior, 0.0)
    # Half of a few secrets, recovered exactly, is a leak although the interval of few units is wide.
    high = exact and value >= _HALF and surely > 0 and value - prior > MARGIN
    if not (high or surely > MARGIN):
        return Verdict.NOT_DETECTED
    return Verdict.BROKEN if (value >= half if exact else interval.low > half) else Verdict.LEAKS


_POWER = 0.99
"""How often a leak of the smallest detectable size is called one."""

UNDETECTABLE = 2.0
"""Stands for the smallest detectable figure where even a full break could be missed."""


def detectable_rate(n: int, prior: float) -> float:
    """The smallest true rate that `judge` calls a leak 99 times in 100.

    Args:
        n: independent units.
        prior: as for `judge`.

    Returns:
        A rate in [0, 1], or `UNDETECTABLE`.
    """
    least = _least(n, lambda k: judge(k / n, clopper_pearson(k, n), prior, exact=True).is_exposure) if n else None
    if least is None:
        return UNDETECTABLE
    return float(scipy.stats.beta.ppf(_POWER, least, n - least + 1)) if least else 0.0


def detectable_difference(arms: tuple[int, int], alarms: float, prior: float) -> float:
    """The smallest true advantage that `judge` calls a leak 99 times in 100.

    Both rates are taken where they lie when the difference is at the lowest of 100 equally likely values.

    Args:
        arms: independent units with the answer yes, and with the answer no.
        alarms: how often the attack says yes where the answer is no.
        prior: as for `judge`.

    Returns:
        An advantage in [0, 1 - alarms], or `UNDETECTABLE`.
    """

    def is_detected(gain: float) -> bool:
        tpr = min(alarms + gain, 1.0)
        spreads = [rate * (1 - rate) / n for rate, n in zip((tpr, alarms), arms, strict=True)]
        z = float(scipy.stats.norm.isf(1 - _POWER)) / max(sqrt(sum(spreads)), 1e-12)
        low, high = (float(scipy.stats.norm.sf(z * sqrt(spread))) for spread in spreads)
        hits, false_alarms = scipy.stats.binom.ppf(low, arms[0], tpr), scipy.stats.binom.isf(high, arms[1], alarms)
        result = difference(float(hits) / arms[0], arms[0], float(false_alarms) / arms[1], arms[1])
        return judge(result.value, result.interval, prior, exact=False).is_exposure

    if min(arms) < 1:
        return UNDETECTABLE
    most = 1.0 - alarms
    least = _least(_STEPS, lambda step: is_detected(most * step / _STEPS))
    return UNDETECTABLE if least is None else most * least / _STEPS


def detectable_shift(value: float, interval: Interval, prior: float) -> float:
    """The same for a figure of which only the interval is known, at an interval of that width.

    Args:
        value: the figure.
        interval: its 95 % interval.
        prior: as for `judge`.
    """
    deviation = (interval.high - interval.low) / (2 * float(scipy.stats.norm.isf(0.025)))
    least = max(prior, 0.0) + MARGIN + (value - interval.low) + float(scipy.stats.norm.ppf(_POWER)) * deviation
    return least if least <= 1 else UNDETECTABLE


_STEPS = 4096


def _least(most: int, holds: Callable[[int], bool]) -> int | None:
    """The least whole number up to `most` from which on something holds; None where it holds for none."""
    if not holds(most):
        return None
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
