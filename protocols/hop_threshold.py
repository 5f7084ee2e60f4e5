"""The value that the n p largest entries of all clients have in common, found from sums of histograms alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

UNIT_BITS = 36
"""Entries of a power lie in 0..1 and are compared in units of 2^-36."""

DIGIT_BITS = 12
"""Each histogram settles so many bits of the threshold."""

DIGITS = UNIT_BITS // DIGIT_BITS
BINS = 2**DIGIT_BITS

MOST_ENTRIES = 2**31
"""Entries that a client may have in one bin."""

Ids = NDArray[np.int64]


def in_units(values: NDArray[np.float64]) -> Ids:
    """Entries of a power in units of 2^-36, below 2^36."""
    units: Ids = np.minimum(np.rint(values * 2.0**UNIT_BITS).astype(np.int64), 2**UNIT_BITS - 1)
    return units


@dataclass(frozen=True, slots=True)
class Search:
    """What is known of the threshold.

    Attributes:
        digit: how many digits are settled.
        prefix: those digits.
        above: entries of all clients that are certainly kept.
        least: the least value that is kept, in units; None until it is known.
    """

    digit: int = 0
    prefix: int = 0
    above: int = 0
    least: int | None = None

    def histogram(self, units: Ids) -> Ids:
        """A client's part: how many of its entries fall into each bin of the next digit, int64 [BINS]."""
        bins = units >> (UNIT_BITS - DIGIT_BITS * (self.digit + 1))
        inside = bins >> DIGIT_BITS == self.prefix
        return np.bincount((bins - (self.prefix << DIGIT_BITS))[inside], minlength=BINS).astype(np.int64)

    def after(self, total: Ids, count: int) -> Search:
        """The part of whoever gets the sum of all histograms: one digit further.

        Args:
            total: int64 [BINS].
            count: most entries that are kept.
        """
        from_here = self.above + np.cumsum(total[::-1])[::-1]  # entries at or above each bin
        fitting = from_here <= count
        if fitting[0]:
            return replace(self, least=self.prefix << (UNIT_BITS - DIGIT_BITS * self.digit))
        first = int(np.argmax(fitting)) if fitting.any() else len(total)
        # The bin below `first` holds more than there is room for: the threshold lies in it, or at its end.
        above = int(from_here[first]) if fitting.any() else self.above
        prefix, digit = (self.prefix << DIGIT_BITS) + first - 1, self.digit + 1
        return Search(digit, prefix, above, prefix + 1 if digit == DIGITS else None)
