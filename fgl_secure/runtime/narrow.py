"""Numbers of parties, rows and messages in as few bytes as their count allows, where many are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.signedinteger[Any]]
"""Integers of the kind that `kind_of` gives: what is kept, and counts places. What is computed with is int64."""


def kind_of(count: int) -> np.dtype[np.signedinteger[Any]]:
    """The narrowest of int32 and int64 that holds the numbers -1 .. count - 1."""
    return np.dtype(np.int32 if count <= 2**31 else np.int64)


def narrow(numbers: NDArray[np.int64], count: int | None = None) -> Numbers:
    """The same numbers as `kind_of` has it; themselves where that is what they are.

    Args:
        numbers: int64 [m].
        count: one more than the largest at most, where none is below -1; found among them unless given.
    """
    most = max(int(numbers.max(initial=0)) + 1, -int(numbers.min(initial=0))) if count is None else count
    return numbers.astype(kind_of(most), copy=False)
