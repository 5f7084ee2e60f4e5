"""Exact comparison of two distributions of views, by integer counts over all coin tapes.

Equality is a statement about integers and the total variation is a fraction: no tolerance enters anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Integers

_LARGEST_CODE = 2**62


@dataclass(frozen=True, slots=True)
class _Witness:
    """One view that the two inputs show on different shares of their tapes.

    Attributes:
        view: the view's coordinates.
        count_a: tapes of the first input that show it.
        count_b: tapes of the second input that show it.
    """

    view: tuple[int, ...]
    count_a: int
    count_b: int


@dataclass(frozen=True, slots=True)
class ExactComparison:
    """How far apart the views of two inputs are, over all coin tapes.

    Attributes:
        total_variation: exact distance of the two distributions, from 0 (equal) to 1 (never the same view).
        tapes_a: how many equally likely tapes the first input has.
        tapes_b: how many the second has.
        distinct: how many different views occur at all.
        witness: the view whose shares differ most; None where the distributions are equal.
    """

    total_variation: Fraction
    tapes_a: int
    tapes_b: int
    distinct: int
    witness: _Witness | None

    @property
    def equal(self) -> bool:
        """Whether every view has the same share of the tapes under both inputs."""
        return self.witness is None


def compare_exactly(a: Integers, b: Integers) -> ExactComparison:
    """Compares the views of two inputs, each over all of its tapes.

    Args:
        a: int64 [tapes_a, coordinates], one row a tape; all tapes are equally likely.
        b: int64 [tapes_b, coordinates].

    Raises:
        InputError: for matrices without rows or of different width.
    """
    for name, views in (("a", a), ("b", b)):
        if views.ndim != 2 or not len(views) or views.dtype.kind not in "iu":
            raise InputError(
                f"{name} must hold integers [tapes, coordinates] with at least one tape; "
                f"found {views.dtype} {list(views.shape)}"
            )
    if a.shape[1] != b.shape[1]:
        raise InputError(f"a and b must have the same coordinates; found {a.shape[1]} and {b.shape[1]}")
    # int64 [m]: equal for equal rows and only for those, built column by column.
    rows = np.concatenate([a, b])
    codes, size = np.zeros(len(rows), dtype=np.int64), 1
    for column in rows.T:
        values, digit = np.unique(column, return_inverse=True)
        if size * len(values) >= _LARGEST_CODE:
            present, codes = np.unique(codes, return_inverse=True)
            size = len(present)
        codes = codes * len(values) + digit
        size *= len(values)
    _, first, code = np.unique(codes, return_index=True, return_inverse=True)
    count_a = np.bincount(code[: len(a)], minlength=len(first))
    count_b = np.bincount(code[len(a) :], minlength=len(first))
    apart = np.abs(count_a * len(b) - count_b * len(a))  # up to tapes^2 = 2^48 each
    worst = int(apart.argmax())
    witness = None
    if apart[worst]:
        row = a[first[worst]] if first[worst] < len(a) else b[first[worst] - len(a)]
        witness = _Witness(tuple(row.tolist()), int(count_a[worst]), int(count_b[worst]))
    distance = Fraction(int(apart.sum()), 2 * len(a) * len(b))
    return ExactComparison(distance, len(a), len(b), len(first), witness)
