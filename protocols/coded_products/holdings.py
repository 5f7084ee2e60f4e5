"""What one relay of coded products holds of devices' shares, and where it is in a step."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from fgl_secure.algebra.residues import Remainders, Residues
from fgl_secure.runtime import Step
from fgl_secure.typing import Flags, Ids


class At(IntEnum):
    """Where a relay is in a step."""

    GATHERING = 0
    COMPARING = 1
    ANSWERED = 2


class Placed:
    """Shares that one relay holds, by device, in their place as soon as they arrive: they may fill half the memory.

    Attributes:
        step: in which they are shared.
        there: bool [n], of which devices they are here.
        values: by field, remainders [*tapes, n, d]; none where they are expanded whenever they are multiplied.
        at: int64 [n], where in the values each device's are; None where they are in the order of devices.
        whole: whether relays compare what they hold of them, and no more is taken.
    """

    __slots__ = ("at", "step", "there", "values", "whole")

    def __init__(
        self, step: Step, there: Flags, values: Residues, at: Ids | None = None, *, whole: bool = False
    ) -> None:
        self.step, self.there, self.values, self.at, self.whole = step, there, values, at, whole

    def places(self, rows: Ids) -> Ids:
        """Where the shares of some devices are in the values."""
        return rows if self.at is None else self.at[rows]

    def of(self, rows: Ids) -> Residues:
        """The shares of k >= 1 devices, remainders [*tapes, k, d] by field; not copied where they follow each other."""
        places = self.places(rows)
        if (places[1:] - places[:-1] == 1).all():
            return tuple(value[..., places[0] : places[0] + len(places), :] for value in self.values)
        return tuple(np.take(value, places, axis=-2) for value in self.values)

    def put(self, rows: Ids, values: Sequence[Remainders]) -> None:
        """Takes shares [*tapes, k, d] of devices, each named once; what is here already stays as it is."""
        new = np.flatnonzero(~self.there[rows])
        if not len(new):  # what is whole may be the senders' own arrays
            return
        for own, each in zip(self.values, values, strict=True):
            own[..., self.places(rows[new]), :] = each if len(new) == len(rows) else each[..., new, :]
        self.there[rows] = True


class Standing:
    """What one relay knows.

    Attributes:
        party: identifier.
        place: among all relays, from 0.
        at: where it is in the step at hand.
        once: what is shared once; None before any of it arrives.
        fresh: what is shared in this step, likewise.
        heard: by relay, which devices it holds the shares of: bool [n].
    """

    def __init__(self, party: int, place: int) -> None:
        self.party, self.place = party, place
        self.once: Placed | None = None
        self.clear()

    def forget(self) -> None:
        """Forgets the shares of the step, of which nothing is told twice."""
        self.fresh: Placed | None = None
        self.heard: dict[int, Flags] = {}

    def clear(self) -> None:
        """Forgets the step."""
        self.at = At.GATHERING
        self.forget()
        if self.once is not None and not self.once.whole:
            self.once = None
