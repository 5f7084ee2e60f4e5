"""A case: a protocol as its source describes it, with the guarantees that the source states."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.runtime import Guarantee, Party
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.typing import Array

Allowed = Callable[[Inputs, tuple[Party, ...]], Hashable]
"""The declared leakage: what a coalition may learn of inputs besides its own, in a form that can be compared."""


@dataclass(frozen=True, slots=True, eq=False)
class HidingProtocol:
    """A protocol that guarantees to reveal no more than the declared leakage.

    Attributes:
        protocol: the program that runs.
        guarantees: the guarantees; each names by role how many parties may pool their views.
        allowed: the declared leakage.
        zero: inputs [rows, ...] of zeros, from which the examination makes all others.
    """

    protocol: Protocol
    guarantees: tuple[Guarantee, ...]
    allowed: Allowed
    zero: Inputs


@dataclass(frozen=True, slots=True, eq=False)
class ReleasingMechanism:
    """A mechanism that guarantees differential privacy of its outputs.

    Attributes:
        release: `release(data, runs, coins)` returns [runs, outputs], the outputs of independent runs on data [rows].
        rows: number of parties, each with one number.
        unit: data are neighbours if one row is 0 in one of them and `unit` in the other.
        epsilon: as guaranteed.
        delta: as guaranteed.
    """

    release: Callable[[Array, int, Coins], Array]
    rows: int
    unit: float
    epsilon: float
    delta: float

    def neighbours(self, row: int) -> tuple[Array, Array]:
        """Return data of zeros, and the same data with one row at `unit`: float64 [rows] each."""
        zero = np.zeros(self.rows)
        moved = zero.copy()
        moved[row] = self.unit
        return zero, moved


Subject = HidingProtocol | ReleasingMechanism


@dataclass(frozen=True, slots=True)
class FlawCase:
    """One entry of the catalogue. The examination gets the subject, and no other field.

    Attributes:
        name: of the case.
        sound: whether it is known to keep its guarantee.
        flaw: the published flaw, or of a sound protocol its construction.
        source: the publication.
        scale: what is smaller or simpler here than in the source.
        subject: makes the protocol or mechanism that is examined.
    """

    name: str
    sound: bool
    flaw: str
    source: str
    scale: str
    subject: Callable[[], Subject]
