"""Masks from keys: long key streams added to a vector while they are still in cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.prg import BUFFER_BYTES, FieldStream

CHUNK = 2**17
"""Elements to which all masks are added before the next; both sides of a mask must draw it in pieces of one length."""


def add_masks(total: NDArray[np.int64], keys: Sequence[bytes], signs: Sequence[int], modulus: int) -> None:
    """Adds the masks of some keys to elements, or takes them away.

    Args:
        total: int64 [length], elements; changed in place.
        keys: 32 secret bytes each, used for this one mask.
        signs: 1 or -1 for each key.
        modulus: of the field.
    """
    streams, buffer = [FieldStream(key) for key in keys], bytearray(BUFFER_BYTES)
    for start in range(0, len(total), CHUNK):
        part = total[start : start + CHUNK]
        for stream, sign in zip(streams, signs, strict=True):
            stream.add_to(part, modulus, buffer, negative=sign < 0)
