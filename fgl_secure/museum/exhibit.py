"""What stands in the museum: a protocol as its source describes it, and what that source promises."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.runtime import Guarantee, Party
from fgl_secure.testing.protocol import Inputs, Protocol

Array = NDArray[Any]

Allowed = Callable[[Inputs, tuple[Party, ...]], Hashable]
"""What a coalition may learn of inputs besides its own, in a form that can be compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Hiding:
    """A protocol that promises to show coalitions no more than they may learn.

    Attributes:
        protocol: what runs.
        guarantees: the promises; each names by role how many may pool their views.
        allowed: what a coalition may learn by the promise.
        zero: inputs [rows, ...] of nothing from anybody; from these the examination makes all others.
    """

    protocol: Protocol
    guarantees: tuple[Guarantee, ...]
    allowed: Allowed
    zero: Inputs


@dataclass(frozen=True, slots=True, eq=False)
class Releasing:
    """A mechanism that promises differential privacy of what it releases.

    Attributes:
        release: `release(data, runs, coins)` gives [runs, outputs], the outputs of independent runs on data [rows].
        rows: how many parties bring a number each.
        unit: data are neighbours if one row is 0 in one of them and `unit` in the other.
        epsilon: promised.
        delta: promised.
    """

    release: Callable[[Array, int, Coins], Array]
    rows: int
    unit: float
    epsilon: float
    delta: float

    def neighbours(self, row: int) -> tuple[Array, Array]:
        """Data of zeros, and the same with one row moved: float64 [rows] each."""
        zero = np.zeros(self.rows)
        moved = zero.copy()
        moved[row] = self.unit
        return zero, moved


Subject = Hiding | Releasing


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One line of the catalogue. The examination gets the subject, and nothing else that is written here.

    Attributes:
        name: what it is called.
        sound: whether it is known to keep its promise.
        flaw: what is wrong with it, or what it is.
        source: where that is published.
        scale: what is smaller or simpler here than there.
        subject: makes what is examined.
    """

    name: str
    sound: bool
    flaw: str
    source: str
    scale: str
    subject: Callable[[], Subject]
