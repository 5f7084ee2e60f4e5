"""Rounding at random within a norm: right on average, where numbers are smaller than the grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.dp import clip_rows, grid_clip

ATTEMPTS = 64
_FRACTION = 2**32
_MARGIN = 1 - 2.0**-40
"""Shrinks a row a little before it is cut to integers: more than the rounding of a norm, far less than a unit."""


def rounded_norm(clip: float, width: int, fraction_bits: int) -> int:
    """The norm in grid units within which a row of norm `clip` is rounded at random.

    The least of c + sqrt(d) and sqrt(c^2 + d/4 + c + sqrt(d)/2) for c = clip 2^f and d coordinates: rounding keeps the
    first always, and the second with probability 1 - e^(-1/2) at least (Kairouz, Liu and Steinke 2021, Algorithm 1
    with beta = e^(-1/2)).
    """
    c, root = grid_clip(clip, fraction_bits), math.sqrt(width)
    return math.floor(min(c + root, math.sqrt(c * c + width / 4 + c + root / 2)))


def rounded_at_random(
    values: NDArray[np.floating[Any]], clip: float, limit: int, fraction_bits: int, coins: Coins
) -> NDArray[np.int64]:
    """Clips a vector and rounds every number to one of its neighbours on the grid, right on average.

    A vector that rounding lengthens beyond the limit is rounded anew, up to 64 times, and then towards zero; so the
    limit is its sensitivity in grid units, for certain.

    Args:
        values: [d], in their own unit; not infinite nor NaN.
        clip: L2 norm to which the vector is shortened, in the same unit.
        limit: largest L2 norm of the result in grid units, `rounded_norm` or more.
        fraction_bits: bits behind the binary point of the grid.
        coins: of the client.

    Returns:
        int64 [d], of norm up to `limit`.
    """
    within = grid_clip(clip, fraction_bits) * 2.0**-fraction_bits
    scaled = clip_rows(values[None], within).rows[0] * 2.0**fraction_bits
    low = np.floor(scaled)
    threshold, units = (scaled - low) * _FRACTION, low.astype(np.int64)
    for _ in range(ATTEMPTS):
        drawn: NDArray[np.int64] = units + (coins.uniform(_FRACTION, scaled.shape) < threshold)
        if int((drawn**2).sum()) <= limit**2:
            return drawn
    cut: NDArray[np.int64] = np.trunc(scaled * _MARGIN).astype(np.int64)
    return cut
