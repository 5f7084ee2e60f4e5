"""Orders of many random numbers, by counting their digits: a third of the time that comparing them takes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

FEW = 2048
"""Numbers that are compared: of so few all counts of digits are not worth while."""

DIGIT_BITS = 11
DIGITS = 6
_KINDS = 1 << DIGIT_BITS


def order_of(numbers: Ids) -> Ids:
    """The places of numbers int64 [m] in ascending order, int64 [m]; equal ones stay in their order."""
    if len(numbers) <= FEW:
        return np.argsort(numbers, kind="stable")
    found: Ids = _by_digits(np.ascontiguousarray(numbers))
    return found


@numba.njit(cache=True, boundscheck=False)  # type: ignore[untyped-decorator]  # numba ships no types
def _by_digits(numbers: Ids) -> Any:
    """Sorts by the lowest digit first; a digit that all numbers share takes no pass."""
    count = len(numbers)
    keys, moved = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    order, other = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    starts = np.zeros((DIGITS, _KINDS), dtype=np.int64)
    for i in range(count):
        key = np.uint64(numbers[i]) ^ np.uint64(1 << 63)  # negative ones come first
        keys[i], order[i] = key, i
        for digit in range(DIGITS):
            starts[digit, (key >> np.uint64(DIGIT_BITS * digit)) & np.uint64(_KINDS - 1)] += 1
    for digit in range(DIGITS):
        shift, own = np.uint64(DIGIT_BITS * digit), starts[digit]
        if own[(keys[0] >> shift) & np.uint64(_KINDS - 1)] == count:
            continue
        before = 0
        for kind in range(_KINDS):
            before, own[kind] = before + own[kind], before
        for i in range(count):
            kind = (keys[i] >> shift) & np.uint64(_KINDS - 1)
            place = own[kind]
            own[kind] = place + 1
            moved[place], other[place] = keys[i], order[i]
        keys, moved, order, other = moved, keys, other, order
    return order
