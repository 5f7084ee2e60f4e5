"""How much one message, edge or device can change the sums of one pass, once rows are clipped.

The grouped sums of one pass are one vector: all groups side by side. A message adds its row to one group, so leaving
it out moves that vector by the row's norm, at most the clip C. Messages of one unit go to different groups, where
their changes are orthogonal: k of them move the vector by at most sqrt(k) C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Ids


class Unit(StrEnum):
    """What two neighbouring inputs differ in: all messages of one unit, present or all zero."""

    MESSAGE = "one directed message"
    EDGE = "one undirected edge"
    NODE = "one device"
    CLIENT = "one client's update"


@dataclass(frozen=True, slots=True)
class Relation:
    """The neighbouring relation of a claim: present or all zero.

    Inputs in which a unit's messages are others, and not zero, are two such steps apart: what is said of epsilon here
    holds for them with twice the sensitivity (`Perturbation.replacing_epsilon`), and not as it stands.

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
        unit = str(self.unit) if self.cap is None else f"{self.unit} with at most {self.cap} messages a pass"
        return f"{unit}, present or all zero"

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


def rounding_excess(width: int) -> float:
    """By how much rounding to integers may lengthen a row of `width` coordinates, in grid units: sqrt(d) / 2."""
    return math.sqrt(width) / 2
