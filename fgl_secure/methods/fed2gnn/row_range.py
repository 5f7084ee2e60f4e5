"""What everybody knows of the size of rows, so that they fit a scheme's numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowRange:
    """How large rows may get, which everybody knows: hop k is sent in units of first * growth^(k-1).

    Sums grow with every hop as numbers of neighbours do, and a scheme's bound does not. What clips rows or adds noise
    does so in the units that are sent.

    Attributes:
        first: largest magnitude of a coordinate in the first hop, positive.
        growth: by how much it may grow a hop, at least 1.
    """

    first: float
    growth: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.first) and self.first > 0):
            raise InputError(f"first must be a positive number; found {self.first}")
        if not (np.isfinite(self.growth) and self.growth >= 1):
            raise InputError(f"growth must be a number of at least 1; found {self.growth}")

    def of(self, hop: int) -> float:
        """The largest magnitude in a hop, counted from 1."""
        return self.first * self.growth ** (hop - 1)

    def check(self, rows: Reals, hop: int) -> None:
        """Raises unless rows are in range; nothing is clipped."""
        found = float(np.abs(rows).max(initial=0.0))
        if found > self.of(hop):
            raise InputError(
                f"rows of hop {hop} must be of magnitude up to first * growth^{hop - 1} = {self.of(hop):g}; found "
                f"{found:.3g}"
            )
