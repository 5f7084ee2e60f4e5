"""Rows clipped to a norm and put on a grid of integers: the nearest within the norm, or at random, right on average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.checks import check_finite
from fgl_secure.algebra.quantization import round_fixed_point
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError

LARGEST_GRID_CLIP = 2**30
"""Largest clip in grid units: squares of integers and their sums then stay below 2^63."""
ATTEMPTS = 64
_FRACTION = 2**32
_MARGIN = 1 - 2.0**-40
"""Shrinks a row a little before it is cut to integers: far more than the rounding of a norm, far less than a unit."""


@dataclass(frozen=True, slots=True, eq=False)
class ClippedRows:
    """Rows within a norm.

    Attributes:
        rows: [n, d], float64 values or int64 grid units.
        count: how many rows had to be shortened.
    """

    rows: NDArray[Any]
    count: int


def clip_rows(values: NDArray[np.floating[Any]], clip: float) -> ClippedRows:
    """Shortens rows [n, d] beyond the L2 norm `clip` to that norm; the others stay as they are.

    Raises:
        InputError: a value is NaN or infinite, or `clip` is not a positive number.
    """
    if not (math.isfinite(clip) and clip > 0):
        raise InputError(f"clip must be a positive number; found {clip}")
    rows = np.array(values, dtype=np.float64)
    check_finite(rows, "values")
    peaks = np.abs(rows).max(axis=1, initial=0.0)
    scaled = rows / np.where(peaks > 0, peaks, 1.0)[:, None]  # the squares of what is left cannot overflow
    lengths = np.sqrt((scaled**2).sum(axis=1))
    beyond = peaks > clip / np.maximum(lengths, 1.0)
    rows[beyond] = scaled[beyond] * (clip / lengths[beyond])[:, None]
    return ClippedRows(rows, int(beyond.sum()))


def grid_clip(clip: float, fraction_bits: int) -> int:
    """The clip in units of 2^-fraction_bits, rounded down: the L2 sensitivity of one integer message.

    Raises:
        InputError: it is below 1 or beyond 2^30.
    """
    scaled = clip * 2.0**fraction_bits
    if not 1 <= scaled < LARGEST_GRID_CLIP + 1:
        raise InputError(f"clip * 2^fraction_bits must lie in 1..2^30; found {clip:g} * 2^{fraction_bits} = {scaled:g}")
    return math.floor(scaled)


def grid_rows(values: NDArray[np.floating[Any]], clip: float, fraction_bits: int) -> ClippedRows:
    """Clips rows, rounds them to integers, and clips again what rounding lengthened.

    Rounding alone may lengthen a row of d coordinates by sqrt(d) / 2 units (`rounding_excess`). Here a row that ends
    up beyond the clip is rounded towards zero instead, so the sensitivity is the clip exactly, for integers.

    Args:
        values: [n, d], in the values' own unit.
        clip: C, in the same unit.
        fraction_bits: bits behind the binary point of the grid.

    Returns:
        int64 [n, d] with L2 norms of at most `grid_clip(clip, fraction_bits)`, and how many rows were shortened.
    """
    limit = grid_clip(clip, fraction_bits)
    clipped = clip_rows(values, limit * 2.0**-fraction_bits)
    scaled = clipped.rows * 2.0**fraction_bits
    rows = round_fixed_point(clipped.rows, fraction_bits)
    beyond = (rows**2).sum(axis=1) > limit**2
    rows[beyond] = np.trunc(scaled[beyond] * _MARGIN).astype(np.int64)
    assert ((rows**2).sum(axis=1) <= limit**2).all()
    return ClippedRows(rows, clipped.count)


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
