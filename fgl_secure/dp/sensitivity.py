"""How much one message, edge or device can change the sums of one pass, and the clipping that keeps it so.

The grouped sums of one pass are one vector: all groups side by side. A message adds its row to one group, so leaving
it out moves that vector by the row's norm, at most the clip C. Messages of one unit go to different groups, where
their changes are orthogonal: k of them move the vector by at most sqrt(k) C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Ids = NDArray[np.int64]
LARGEST_GRID_CLIP = 2**30
"""Largest clip in grid units: squares of integers and their sums then stay below 2^63."""
_MARGIN = 1 - 2.0**-40
"""Shrinks a row a little before it is cut to integers: far more than the rounding of a norm, far less than a unit."""


class Unit(StrEnum):
    """What two neighbouring inputs differ in: all messages of one unit, present or all zero."""

    MESSAGE = "one directed message"
    EDGE = "one undirected edge"
    NODE = "one device"
    CLIENT = "one client's update"


@dataclass(frozen=True, slots=True)
class Relation:
    """The neighbouring relation of a claim.

    Attributes:
        unit: what one of the two inputs lacks.
        cap: B, most messages that one device sends in one pass; given for NODE only.
    """

    unit: Unit
    cap: int | None = None

    def __post_init__(self) -> None:
        if (self.unit is Unit.NODE) != (self.cap is not None):
            raise InputError(f"cap must be given for units of {Unit.NODE} and for no other; found {self.cap}")
        if self.cap is not None and self.cap < 1:
            raise InputError(f"cap must be at least 1 message; found {self.cap}")

    def __str__(self) -> str:
        return str(self.unit) if self.cap is None else f"{self.unit} with at most {self.cap} messages a pass"

    @property
    def messages(self) -> int:
        """Most messages of one unit in one pass: 1, the 2 ways of an edge, or the cap."""
        return {Unit.MESSAGE: 1, Unit.EDGE: 2, Unit.NODE: self.cap or 0, Unit.CLIENT: 1}[self.unit]

    def l2_sensitivity(self, clip: float) -> float:
        """Largest change of one pass's sums in L2 norm, in the unit of `clip`.

        C for a message or an update; sqrt(2) C for an edge, whose two messages reach two groups; sqrt(B) C for a device
        with at most B messages to B groups. What the change makes of later rows is covered by adaptive
        composition, as long as a device's rows depend on its own data and on noisy sums only.
        """
        return math.sqrt(self.messages) * clip

    def l1_sensitivity(self, l2: float, width: int) -> float:
        """Largest change in L1 norm when rows are integers [width]: min(sqrt(k d) l2, l2^2).

        Cauchy and Schwarz give the first; an integer is at most its own square, which gives the second.
        """
        return min(math.sqrt(self.messages * width) * l2, l2 * l2)

    def check(self, senders: Ids, targets: Ids) -> None:
        """Raises unless no unit has more messages in this pass than the sensitivity counts; drops nothing.

        Args:
            senders: int64 [m], the party that sends each message.
            targets: int64 [m], the group of each message.

        Raises:
            InputError: a sender has two messages to one group, or more messages than the cap.
        """
        if self.unit is Unit.MESSAGE or not len(senders):
            return
        pairs = np.stack([senders, targets])
        if np.unique(pairs, axis=1).shape[1] != len(senders):
            raise InputError(f"messages must be at most one from a sender to a group for units of {self.unit}")
        if self.cap is not None:
            _check_cap(senders, self.cap)


def _check_cap(senders: Ids, cap: int) -> None:
    counts = np.bincount(senders)
    if int(counts.max()) > cap:
        raise InputError(
            f"messages of one device in one pass must not exceed the cap {cap}, for which the noise is made; found "
            f"{int((counts > cap).sum())} devices beyond it, up to {int(counts.max())} messages"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Clipped:
    """Rows within a norm.

    Attributes:
        rows: [n, d], float64 values or int64 grid units.
        count: how many rows had to be shortened.
    """

    rows: NDArray[Any]
    count: int


def clip_rows(values: NDArray[np.floating[Any]], clip: float) -> Clipped:
    """Shortens rows [n, d] beyond the L2 norm `clip` to that norm; the others stay as they are.

    Raises:
        InputError: a value is NaN or infinite, or `clip` is not a positive number.
    """
    if not (math.isfinite(clip) and clip > 0):
        raise InputError(f"clip must be a positive number; found {clip}")
    rows = np.array(values, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InputError("values must be finite; found NaN or infinity")
    peaks = np.abs(rows).max(axis=1, initial=0.0)
    scaled = rows / np.where(peaks > 0, peaks, 1.0)[:, None]  # the squares of what is left cannot overflow
    lengths = np.sqrt((scaled**2).sum(axis=1))
    beyond = peaks > clip / np.maximum(lengths, 1.0)
    rows[beyond] = scaled[beyond] * (clip / lengths[beyond])[:, None]
    return Clipped(rows, int(beyond.sum()))


def grid_clip(clip: float, fraction_bits: int) -> int:
    """The clip in units of 2^-fraction_bits, rounded down: the L2 sensitivity of one integer message.

    Raises:
        InputError: it is below 1 or beyond 2^30.
    """
    scaled = clip * 2.0**fraction_bits
    if not 1 <= scaled < LARGEST_GRID_CLIP + 1:
        raise InputError(f"clip * 2^fraction_bits must lie in 1..2^30; found {clip:g} * 2^{fraction_bits} = {scaled:g}")
    return math.floor(scaled)


def grid_rows(values: NDArray[np.floating[Any]], clip: float, fraction_bits: int) -> Clipped:
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
    rows = np.rint(scaled).astype(np.int64)
    beyond = (rows**2).sum(axis=1) > limit**2
    rows[beyond] = np.trunc(scaled[beyond] * _MARGIN).astype(np.int64)
    assert ((rows**2).sum(axis=1) <= limit**2).all()
    return Clipped(rows, clipped.count)


def rounding_excess(width: int) -> float:
    """By how much rounding to integers may lengthen a row of `width` coordinates, in grid units: sqrt(d) / 2."""
    return math.sqrt(width) / 2
