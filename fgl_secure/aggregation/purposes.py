"""What the sums of a round are for, in which order they come, and what they find for each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Purpose(IntEnum):
    """What a sum of a round is for."""

    RANGES = 0
    """How large the numbers are."""
    MARKS = 1
    """How many clients contribute to each entry."""
    VALUES = 2
    """The mean."""
    WATCHED = 3
    """The mean, unless numbers have outgrown the ranges that were found: whose have vetoes it, see `Scheme.vetoes`."""

    @property
    def is_mean(self) -> bool:
        """Whether the mean is decoded from it."""
        return self in (Purpose.VALUES, Purpose.WATCHED)

    def may_follow(self, before: Purpose) -> bool:
        """Whether a sum for this comes, in one round, after one for `before`: after a mean only where it was vetoed."""
        return self is Purpose.RANGES if before is Purpose.WATCHED else before < self < Purpose.WATCHED


@dataclass(frozen=True, slots=True)
class Found:
    """What the sums of a round have found for those that come after them.

    Attributes:
        bounds: largest magnitude of a float, by name; None where the rules give them, or they are to be found.
        opened: which entries are opened, a bit for each; None where all are, or where that is to be found.
    """

    bounds: Mapping[str, float] | None = None
    opened: bytes | None = None
