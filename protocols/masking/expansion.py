"""Masks from keys: long key streams added to a vector while they are still in cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.prg import FieldStream

CHUNK = 2**17
"""Elements of a mask that are drawn at a time; both sides of a mask must draw it in pieces of one length."""


def add_masks(total: NDArray[np.int64], keys: Sequence[bytes], signs: Sequence[int], modulus: int) -> None:
    """Adds the masks of some keys to elements, or takes them away.

    Args:
        total: int64 [length], elements; changed in place.
        keys: 32 secret bytes each, used for this one mask.
        signs: 1 or -1 for each key.
        modulus: of the field.
    """
    streams = [FieldStream(key) for key in keys]
    for start in range(0, len(total), CHUNK):
        part = total[start : start + CHUNK]
        for stream, sign in zip(streams, signs, strict=True):
            _add(part, stream.uniform(modulus, len(part)), sign < 0, modulus)


@numba.njit(cache=True, boundscheck=False)  # type: ignore[untyped-decorator]  # numba ships no types
def _add(total: NDArray[np.int64], mask: NDArray[Any], negative: bool, modulus: int) -> None:
    """total[i] += or -= mask[i]; both are elements, so one conditional correction is enough."""
    for i in range(total.size):
        value = total[i] - mask[i] if negative else total[i] - modulus + mask[i]
        total[i] = value + (modulus & (value >> 63))
