"""The words that an audit may use about a figure, and the rule that picks one."""

from __future__ import annotations

from enum import StrEnum

from fgl_secure.statistics.intervals import Interval

MARGIN = 0.05
"""A gain over chance and prior up to here is not called a leak."""

HALF = 0.5
"""From here on an attack has broken what it attacked."""


class Verdict(StrEnum):
    """What a figure says; evidence of absence is only ever *not detected* or *proved*."""

    BROKEN = "broken"
    LEAKS = "leaks"
    NOT_DETECTED = "not detected"
    PROVED = "proved"
    CONTEXT = "context"
    """The size of something, or a property of graph and partition: no evidence of its own."""

    @property
    def is_exposure(self) -> bool:
        """Whether the figure shows that something was learned."""
        return self in (Verdict.BROKEN, Verdict.LEAKS)

    @property
    def is_measured(self) -> bool:
        """Whether the verdict rests on an attack that was run, and so needs its controls."""
        return self not in (Verdict.PROVED, Verdict.CONTEXT)


def judge(value: float, interval: Interval, prior: float, *, exact: bool) -> Verdict:
    """The verdict on one measured figure.

    An exact-recovery rate is *broken* from .5 on, unless guessing without the transcript does as well (the rate is
    within .05 of the prior, or the interval reaches down to it); it *leaks* when the lower end of the interval is more
    than .05 above the prior. An advantage is already a difference to chance; it is *broken* when the lower end is
    above .5 and more than .05 above the prior's advantage, and *leaks* when it is more than .05 above that. Anything
    else is *not detected*.

    Args:
        value: the rate or the advantage.
        interval: its 95 % interval.
        prior: the rate, or the advantage, of the best guess without the transcript.
        exact: True for rates of exact recovery, False for advantages.
    """
    if exact:
        return _judge_rate(value, interval, prior)
    if interval.low - prior <= MARGIN:
        return Verdict.NOT_DETECTED
    return Verdict.BROKEN if interval.low > HALF else Verdict.LEAKS


def _judge_rate(value: float, interval: Interval, prior: float) -> Verdict:
    beats_prior = interval.low > prior and value - prior > MARGIN
    if value >= HALF and beats_prior:
        return Verdict.BROKEN
    return Verdict.LEAKS if interval.low - prior > MARGIN else Verdict.NOT_DETECTED
