"""Whole numbers behind shares: rational reconstruction.

Shares of m labelled nodes are multiples of 1 / m. Two fractions with denominators up to M lie at least 1 / M^2 apart,
so shares that are rounded to 2^-33 tell their smallest common denominator as long as that is below 2^16. What they
don't tell is a divisor that all counts have in common.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST = 2**15
"""Labelled nodes of a client, at most, that shares of 32 bits tell apart without doubt."""

MOST_ADDED = 2**12
"""Labelled nodes of a client, at most, that are tried to explain how shares change: their denominator is a square."""

_SLACK = 1e-12
"""Relative error of the arithmetic here."""


def whole_numbers(shares: Floats, rounding: float, most: int = MOST) -> Ids | None:
    """The smallest whole numbers of which some numbers are the shares.

    Args:
        shares: float64 [C], at least 0, with sum 1.
        rounding: what each is off by at most.
        most: the largest sum of these numbers that is tried.

    Returns:
        int64 [C], or None where there are none.
    """
    if not shares.sum() > 0:
        return None
    totals = np.arange(1, most + 1)
    scaled = totals[:, None] * shares
    whole = np.rint(scaled)
    fits = (np.abs(scaled - whole) <= totals[:, None] * (rounding + _SLACK)).all(axis=1)
    fits &= whole.sum(axis=1) == totals
    found = np.flatnonzero(fits)
    return whole[found[0]].astype(np.int64) if len(found) else None


def one_more(before: Ids, after: Ids, most: int = MOST) -> tuple[Ids, int] | None:
    """How many nodes of each class there were before one was added, and of which class that one is.

    Shares tell counts but for a common divisor; that one node was added also tells the divisor.

    Args:
        before: int64 [C], smallest whole numbers behind the shares before; zeros where there were none.
        after: the same afterwards.
        most: the largest sum of counts that is tried.

    Returns:
        Counts int64 [C] before, the smallest that explain both, and the class; None where nothing does.
    """
    most_times = most // int(before.sum()) if before.any() else 1
    for times in range(1, most_times + 1):
        old = times * before
        total = int(old.sum()) + 1
        if total % int(after.sum()):
            continue
        change = after * (total // int(after.sum())) - old
        if (change >= 0).all():  # they add up to one
            return old, int(change.argmax())
    return None


def joined(change: Floats, rounding: float, most: int = MOST_ADDED) -> tuple[Ids, int] | None:
    """The same from how the sum of many clients' shares changes when a node is added at one of them.

    With c_i of m labelled nodes of class i before, and one of class j added, the sums change by -c_i / (m (m + 1)), and
    that of class j by 1 / (m + 1) more. Shares of all others cancel.

    Args:
        change: float64 [C], the sum of shares after less that before.
        rounding: what each entry is off by at most.
        most: the most labelled nodes before that are tried.

    Returns:
        Counts int64 [C] before, the smallest that fit, and the class that was added; None where nothing fits.
    """
    if not (np.abs(change) > rounding).any():
        return None
    kind, m = int(change.argmax()), np.arange(1, most + 1)
    if (np.abs(change - np.eye(len(change))[kind]) <= rounding).all():  # the first labelled node of a client
        return np.zeros(len(change), dtype=np.int64), kind
    scaled = -change * (m * (m + 1))[:, None]
    scaled[:, kind] += m
    counts = np.rint(scaled)
    slack = (m * (m + 1) * (rounding + _SLACK))[:, None]
    fits = (np.abs(scaled - counts) <= slack).all(axis=1) & (counts >= 0).all(axis=1) & (counts.sum(axis=1) == m)
    found = np.flatnonzero(fits & (slack[:, 0] < 1 / 4))
    return (counts[found[0]].astype(np.int64), kind) if len(found) else None


def joined_on_grid(change: Floats, rounding: float, unit: float) -> tuple[Ids, int] | None:
    """The same where clients round their shares to multiples of a unit, by largest remainders.

    Counts are guessed from the change as if it were exact, and kept if rounding their shares again gives that change. A
    guess may miss the true counts, and others may round to the same change.

    Args:
        change: float64 [C], the sum of shares after less that before.
        rounding: what each entry is off by at most, for the numbers that sums work on.
        unit: what shares are multiples of.

    Returns:
        Counts int64 [C] before, the smallest guess that fits, and the class that was added; None where nothing fits.
    """
    if not (np.abs(change) > rounding).any():
        return None
    kind, grid = int(change.argmax()), round(1 / unit)
    if (np.abs(change - np.eye(len(change))[kind]) <= rounding).all():
        return np.zeros(len(change), dtype=np.int64), kind
    for m in range(1, int(np.sqrt(grid)) + 1):
        counts = np.rint(m * (np.eye(len(change))[kind] - (m + 1) * change)).astype(np.int64)
        if (counts < 0).any() or counts.sum() != m:
            continue
        more = counts + np.eye(len(change), dtype=np.int64)[kind]
        if (np.abs(_rounded(more, grid) - _rounded(counts, grid) - change) <= rounding).all():
            return counts, kind
    return None


def _rounded(counts: Ids, grid: int) -> Floats:
    """Shares float64 [C] as clients round them."""
    units, lost = np.divmod(counts * grid, counts.sum())
    units[np.argsort(-lost, kind="stable")[: grid - int(units.sum())]] += 1
    return np.asarray(units / grid)
