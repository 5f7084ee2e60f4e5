"""Which whole numbers have a given sum of reciprocals, and of squared ones: neighbours' degrees from sums over them."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

TOLERANCE = 1e-5
"""Distance of sums that count as equal, in single precision."""
LARGEST = 6
"""Numbers in a sum up to which all combinations are tried, half of them at a time."""
MOST_COMBINATIONS = 200_000
"""Combinations of half the numbers up to which they are tried."""


class DegreeMultisets:
    """All multisets of up to three of some whole numbers, ready for finding the multisets behind a sum.

    Args:
        numbers: int64 [k], ascending; the numbers that may occur.
    """

    def __init__(self, numbers: Ids) -> None:
        self._numbers = numbers
        self._halves: list[tuple[Ids, Floats, Floats]] = [self._sums(np.empty((1, 0), dtype=np.int64))]
        rows = self._halves[0][0]
        for size in range(1, LARGEST // 2 + 1):
            if len(numbers) ** size > MOST_COMBINATIONS * reduce(lambda a, b: a * b, range(1, size + 1)):
                break
            rows = self._longer(rows)
            self._halves.append(self._sums(rows))

    def solve(self, count: int, reciprocals: float, squares: float) -> Ids | None:
        """The one multiset of `count` numbers with these sums; None where there are several, none, or too many to try.

        Args:
            count: how many numbers.
            reciprocals: sum of 1 / number.
            squares: sum of 1 / number^2, or more by a sum over triangles; NaN where it is unknown.

        Returns:
            int64 [count], ascending.
        """
        large = (count + 1) // 2
        if count < 1 or large >= len(self._halves):
            return None
        (some, p1, q1), (rest, p2, q2) = self._halves[count - large], self._halves[large]
        low = np.searchsorted(p2, reciprocals - p1 - TOLERANCE, side="left")
        high = np.searchsorted(p2, reciprocals - p1 + TOLERANCE, side="right")
        first = np.repeat(np.arange(len(some)), high - low)
        second = _ranges(low, high)
        excess = squares - q1[first] - q2[second]
        exact = np.abs(excess) <= TOLERANCE
        for fits in (exact, excess > TOLERANCE) if not np.isnan(squares) else (np.ones(len(first), dtype=np.bool_),):
            found = np.unique(np.sort(np.hstack([some[first[fits]], rest[second[fits]]]), axis=1), axis=0)
            if len(found):
                return np.asarray(self._numbers[found[0]]) if len(found) == 1 else None
        return None

    def _longer(self, rows: Ids) -> Ids:
        """Rows of places, ascending in each, with one more place at the end."""
        last = rows[:, -1] if rows.shape[1] else np.zeros(len(rows), dtype=np.int64)
        again = len(self._numbers) - last
        added = _ranges(last, np.full(len(rows), len(self._numbers)))
        return np.hstack([np.repeat(rows, again, axis=0), added[:, None]])

    def _sums(self, rows: Ids) -> tuple[Ids, Floats, Floats]:
        """Rows of places by ascending sum of reciprocals, with both sums."""
        reciprocal = 1 / self._numbers[rows].astype(np.float64)
        total = reciprocal.sum(axis=1)
        order = np.argsort(total, kind="stable")
        return rows[order], total[order], (reciprocal**2).sum(axis=1)[order]


def _ranges(low: Ids, high: Ids) -> Ids:
    """low[0] .. high[0] - 1, low[1] .. high[1] - 1 and so on, in one array."""
    lengths = high - low
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.arange(int(lengths.sum())) - starts + np.repeat(low, lengths), dtype=np.int64)
