"""How much room each silo asks for in the sums of one hop, as one silo keeps it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.linear_sketch import LinearSketch
from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.sketched_terms import TermRange, after_sum, room_for
from fgl_secure.runtime import Phase, Step
from fgl_secure.runtime.packing import Array, Arrays
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import Inbox, Outbox, fitting, only
from fgl_secure.training.silo import Facts

NOTHING_WANTED = -1
DENSE = 0
"""Told instead of a third of a table: no sum is wanted any more, or a dense vector."""


class Rooms:
    """What a silo asks for, and what it was told by the others.

    Args:
        facts: what everybody knows.
        silo: its number.
        scheme: what the scheme is called.
        limit: the largest magnitude of a sum.
        coins: for seeds of tables.
    """

    def __init__(self, facts: Facts, silo: int, scheme: str, limit: int, coins: Coins) -> None:
        self._facts, self._silo, self._scheme, self._coins = facts, silo, scheme, coins
        self._range = TermRange(limit, facts.silos - 1, facts.largest_degree + 1)
        self._entries: tuple[int, int] | None = None
        self._room = 0
        self._asked: NDArray[np.int64] = np.full((facts.silos, 2), NOTHING_WANTED, dtype=np.int64)

    @property
    def wanted(self) -> bool:
        """Whether the silo still wants a sum in this hop."""
        return self._room > 0

    def shape(self, receiver: int) -> tuple[int, int]:
        """Rows and columns of a silo's sum."""
        return (self._facts.sizes[receiver], self._facts.nodes)

    def bits(self, receiver: int) -> int:
        """Bits behind the binary point of its entries."""
        return self._range.bits(self.shape(receiver), None, self._scheme)

    def plan(self, receiver: int) -> LinearSketch | None:
        """The table that a silo asked for; None for a dense vector."""
        third, seed = self._asked[receiver].tolist()
        split = self._range.splits(self.shape(receiver), None)
        return None if third == DENSE else LinearSketch(self.shape(receiver), third, seed, split)

    def begin(self) -> None:
        """A hop begins."""
        self._room = room_for(self._entries, self._facts.sizes[self._silo], None)

    def double(self) -> None:
        """The table had too many entries."""
        self._room *= 2

    def satisfied(self, entries: int) -> None:
        """The sum was read, and had so many entries."""
        self._entries, self._room = after_sum(self._entries, entries), 0

    def ask(self, step: Step) -> Outbox:
        """Tells all other silos for how much room this one asks, or that it wants nothing."""
        asked = (NOTHING_WANTED, 0)
        if self.wanted:
            shape, split = self.shape(self._silo), self._range.splits(self.shape(self._silo), None)
            seed = int(self._coins.uniform(2**62, ()))
            plan = LinearSketch.for_entries(shape, self._room, seed=seed, split=split)
            asked = (DENSE if plan.length >= shape[0] * shape[1] else plan.third, seed)
        self._asked[self._silo] = asked
        parcel = Parcel(Phase.CAPACITIES, step, (np.array(asked, dtype=np.int64),))
        return {silo: [parcel] for silo in range(self._facts.silos) if silo != self._silo}

    def hear(self, inbox: Inbox) -> list[int]:
        """Takes what the others ask for; the silos that want a sum, ascending.

        Raises:
            ProtocolError: a silo says nothing, or what makes no sense.
        """
        for silo in range(self._facts.silos):
            if silo != self._silo:
                (asked,) = fitting(only(inbox, silo, Phase.CAPACITIES), ("<i8", (2,)))
                most = self.shape(silo)[0] * self.shape(silo)[1]
                if not NOTHING_WANTED <= int(asked[0]) <= most or int(asked[1]) < 0:
                    raise ProtocolError(f"silo {silo} must ask for room up to that of a dense matrix; it does not")
                self._asked[silo] = asked
        return np.flatnonzero(self._asked[:, 0] != NOTHING_WANTED).tolist()

    def state(self) -> dict[str, Array]:
        """What was asked and seen."""
        entries = [] if self._entries is None else list(self._entries)
        return {
            "entries": np.array(entries, dtype=np.int64),
            "room": np.asarray(self._room, dtype=np.int64),
            "asked": self._asked.copy(),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        entries = state["entries"].tolist()
        self._entries = (entries[0], entries[1]) if entries else None
        self._room, self._asked = int(state["room"]), state["asked"].copy()
