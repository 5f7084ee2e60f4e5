"""Exact comparison of the distributions of views, over every coin tape of a small field.

The one judge of the privacy tests: a scheme passes and its broken twin fails by the same function.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Secret = tuple[int, ...]
View = NDArray[np.signedinteger[Any]]

PRIMES = (5, 7, 11, 13)
GRID = [*((p, 1) for p in PRIMES), (5, 2), (7, 2)]
"""Fields and degrees T that are enumerated; with T = 2 a run on all tapes takes p^2 times as long."""
FEW = [(5, 1), (7, 1), (5, 2)]
"""Those over which the machines of a whole scheme are run with every flaw."""


def counts_of(view: View) -> Counter[tuple[int, ...]]:
    """How many tapes show each view: view [tapes, ...]."""
    rows, counts = np.unique(view.reshape(len(view), -1), axis=0, return_counts=True)
    return Counter(dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True)))


def total_variation(a: View, b: View) -> Fraction:
    """Exact total variation distance between two views, each [tapes, ...] with equally likely tapes."""
    left, right = counts_of(a), counts_of(b)
    apart = (abs(Fraction(left[seen], len(a)) - Fraction(right[seen], len(b))) for seen in left | right)
    return sum(apart, start=Fraction(0)) / 2


def largest_distance(view_of: Callable[[Secret], View], secrets: Iterable[Secret]) -> Fraction:
    """Largest distance of any secret's view from the first secret's; zero means perfect privacy."""
    first, *others = [view_of(secret) for secret in secrets]
    return max(total_variation(first, other) for other in others)


def smallest_distance(view_of: Callable[[Secret], View], secrets: Iterable[Secret]) -> Fraction:
    """Smallest distance of any other secret's view from the first secret's; one means a certain break."""
    first, *others = [view_of(secret) for secret in secrets]
    return min(total_variation(first, other) for other in others)
