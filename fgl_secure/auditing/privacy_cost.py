"""What differential privacy gives and costs, as a run reports it."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.statistics.lower_bounds import EpsilonLowerBound

CANARIES = 1000
"""Runs with and runs without a canary, each, behind a lower bound."""


@dataclass(frozen=True, slots=True)
class MeasuredEpsilon:
    """A claimed epsilon and the evidence that stands beside it.

    Attributes:
        claimed: the accountant's epsilon of a whole budget, at the target's delta.
        accountant: what computed it.
        bound: the largest epsilon that canaries rule out.
    """

    claimed: float
    accountant: str
    bound: EpsilonLowerBound


@dataclass(frozen=True, slots=True)
class PrivacyCost:
    """What differential privacy gives and costs in one run.

    Attributes:
        measured: the claimed epsilon and the lower bound beside it.
        delta: of both.
        relation: what neighbouring inputs differ in, in words.
        releases: sums that the claim speaks of.
        accuracy_without: test accuracy of the same run without noise.
        accuracy_without_features: test accuracy of the same run on features that reveal nothing, as epsilon 0 makes
            them; None if it was not measured.
    """

    measured: MeasuredEpsilon
    delta: float
    relation: str
    releases: int
    accuracy_without: float | None
    accuracy_without_features: float | None = None
