"""Ceilings on what finished models reveal: the one rule of the command line, of audits and of the pytest plugin.

fgl-secure audit --attack outputs --ceiling membership.auc=0.55
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fgl_secure.errors import InputError, UnknownNameError

MEMBERSHIP_AUC, MEMBERSHIP_TPR, LINKS_AUC = "membership.auc", "membership.tpr", "links.auc"
METRICS: Mapping[str, str] = {
    MEMBERSHIP_AUC: "area under the curve of attacks on training nodes",
    MEMBERSHIP_TPR: "true-positive rate less false-positive rate of these attacks at 1 % false positives",
    LINKS_AUC: "area under the curve of attacks on edges",
}
"""What may have a ceiling."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """One figure that a ceiling may be compared with.

    Attributes:
        metric: one of `METRICS`.
        what: the attack, in words.
        low: lower end of its 95 % interval.
    """

    metric: str
    what: str
    low: float


class HasFigures(Protocol):
    """What ceilings can be put on: reports, and audits of finished models."""

    def bounded(self) -> Iterable[Bounded]:
        """Return the figures."""


def read_ceilings(texts: Iterable[str]) -> dict[str, float]:
    """Read METRIC=VALUE, each metric once; a number alone is for membership.auc.

    Raises:
        UnknownNameError: there is no such metric.
        InputError: the value is not between 0 and 1, or a metric is given twice.

    Examples:
        >>> read_ceilings(["membership.auc=0.55"])
        {'membership.auc': 0.55}
    """
    ceilings: dict[str, float] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        metric = name or MEMBERSHIP_AUC
        if metric not in METRICS:
            raise UnknownNameError("metric of a ceiling", metric, tuple(METRICS))
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            raise InputError(
                f"ceiling must be METRIC=VALUE with a value in 0..1, as membership.auc=0.55; found {text!r}"
            )
        if metric in ceilings:
            raise InputError(f"ceiling must be given once for each metric; found {metric} twice")
        ceilings[metric] = number
    return ceilings


def certainly_above(figures: Iterable[Bounded], metric: str, most: float) -> tuple[str, ...]:
    """Return the attacks whose figure is certainly above: the lower end of its 95 % interval is."""
    return tuple(dict.fromkeys(item.what for item in figures if item.metric == metric and item.low > most))


def exceeded(result: HasFigures, ceilings: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return by metric the attacks that are certainly above its ceiling.

    Args:
        result: a report, or the audit of a finished model.
        ceilings: by metric, as `read_ceilings` gives them.

    Raises:
        InputError: a metric has a ceiling and no figure.
    """
    figures = tuple(result.bounded())
    missing = [metric for metric in ceilings if all(item.metric != metric for item in figures)]
    if missing:
        raise InputError(f"ceiling must be on a metric that was measured, as attacks 'outputs' do; found {missing[0]}")
    return {metric: certainly_above(figures, metric, most) for metric, most in ceilings.items()}


def ceiling_lines(result: HasFigures, ceilings: Mapping[str, float]) -> list[str]:
    """Return a line for each ceiling that is certainly exceeded."""
    return [
        f"above the ceiling of {ceilings[metric]:g} for {metric}: {'; '.join(attacks)}"
        for metric, attacks in exceeded(result, ceilings).items()
        if attacks
    ]
