"""What one relay of coded products holds of devices' shares, and where it is in a step."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.protocols.coded_products.code import Held, Residues
from fgl_secure.runtime import Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class At(IntEnum):
    """Where a relay is in a step."""

    GATHERING = 0
    COMPARING = 1
    ANSWERED = 2


class Shares:
    """What one relay holds of devices: rows of shares by their places in the topology.

    Args:
        rows: int64 [k], ascending.
        values: by field, elements [*tapes, k, d].
    """

    __slots__ = ("rows", "values")

    def __init__(self, rows: Ids, values: Residues) -> None:
        self.rows, self.values = rows, values

    def of(self, rows: Ids) -> tuple[Held, ...]:
        """By field, and which rows of it are those of some devices, which are all here."""
        places = np.searchsorted(self.rows, rows)
        return tuple((value, places) for value in self.values)


class Lasting:
    """What one relay holds of what is shared once. It is put in its place as it arrives: it may fill half the memory.

    Attributes:
        step: in which it is shared.
        there: bool [n], of which devices it is here.
        values: by field, elements [*tapes, n, static]; none where they are expanded whenever they are multiplied.
        whole: whether relays compare what they hold of it, and no more is taken.
    """

    __slots__ = ("step", "there", "values", "whole")

    def __init__(self, step: Step, there: Flags, values: Residues, *, whole: bool = False) -> None:
        self.step, self.there, self.values, self.whole = step, there, values, whole

    def put(self, rows: Ids, values: Sequence[Elements]) -> None:
        """Takes shares [*tapes, k, d >= static] of devices, each named once; what is here already stays as it is."""
        new = np.flatnonzero(~self.there[rows])
        for own, each in zip(self.values, values, strict=True):
            own[..., rows[new], :] = each[..., new, : own.shape[-1]]
        self.there[rows] = True


class Standing:
    """What one relay knows.

    Attributes:
        party: identifier.
        place: among all relays, from 0.
        at: where it is in the step at hand.
        arrived: what arrived in the step, batch by batch: senders, int64 [k], and by field their fresh shares
            [*tapes, k, fresh], or nothing where the relay expands them.
        once: what is shared once; None before any of it arrives.
        fresh: what is shared in this step.
        heard: by relay, which devices it holds the shares of: bool [n].
    """

    def __init__(self, party: int, place: int) -> None:
        self.party, self.place = party, place
        self.once: Lasting | None = None
        self.clear()

    def forget(self) -> None:
        """Forgets the shares of the step, of which nothing is told twice."""
        self.fresh = Shares(np.empty(0, dtype=np.int64), ())
        self.arrived: list[tuple[Ids, Residues]] = []
        self.heard: dict[int, Flags] = {}

    def clear(self) -> None:
        """Forgets the step."""
        self.at = At.GATHERING
        self.forget()
        if self.once is not None and not self.once.whole:
            self.once = None
