"""Masks drawn as they are and given by ideal means: what keys stand in for, for enumeration and simulators.

Votes are not sent; everybody is taken to see what the others were told.
"""

from __future__ import annotations

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.protocols.coded_masks.links import Flags, Ids, Links
from fgl_secure.protocols.coded_masks.roles import Roster
from fgl_secure.protocols.masking.delivery import exchanged
from fgl_secure.protocols.masking.keys import TAG_BYTES
from fgl_secure.runtime import Phase, Step


class IdealLinks(Links):
    """Links that nobody listens to; coins may be those of all tapes at once."""

    _masks: Elements
    _owners: Ids

    def set_up(self) -> Flags:
        """Nothing lasts for the session, and the aggregator sees who is there."""
        c = self.circle
        here, _ = c.up(Phase.KEYS, Step(0), np.arange(len(c.senders)), self._empty(len(c.senders)))
        listed = np.flatnonzero(here)
        heard, _ = c.down(Phase.KEYS, Step(0), listed, self._empty(len(listed)))
        return c.flags(listed[heard])

    def begin(self, step: Step, who: Ids) -> None:
        """Every sender draws its mask."""
        c, p = self.circle, self.code.field.modulus
        self._owners = who
        self._masks = c.channel.draw("masks", c.senders[who], p, (self.code.length,), step)

    def mask(self, step: Step, u: int) -> Elements:  # noqa: ARG002  # drawn for it
        """As it was drawn."""
        return np.asarray(self._masks[..., int(np.searchsorted(self._owners, u)), :])

    def give(self, step: Step, u: int, to: Ids, coded: Elements) -> tuple[bool, Flags, Elements]:
        """Straight to each; the aggregator sees that something passes."""
        c, size = self.circle, coded.shape[-1] * coded.itemsize + TAG_BYTES
        here, _ = c.up(Phase.SECRET_SHARES, step, np.array([u]), self._empty(1), size * len(to))
        if not here[0]:
            return False, np.zeros(len(to), dtype=np.bool_), coded
        heard, _ = c.down(Phase.SECRET_SHARES, step, to, self._empty(len(to)))
        ends = np.full(int(heard.sum()), c.senders[u]), c.senders[to[heard]]
        c.channel.send(Phase.SECRET_SHARES, step, *ends, coded[..., heard, :])
        return True, heard, coded

    def votes(self, step: Step, who: Ids, rosters: Roster) -> tuple[Flags, Ids]:  # noqa: ARG002  # seen, not sent
        """Counts equal rosters."""
        same = (rosters[:, None] == rosters[None]).all(axis=2)
        return np.ones(len(who), dtype=np.bool_), same.sum(axis=1).astype(np.int64)

    def hand_in(self, step: Step, who: Ids, sums: Elements) -> tuple[Flags, Elements]:
        """Straight to the receiver."""
        c = self.circle
        ends = c.senders[who], np.full(len(who), c.receiver)
        return exchanged(c.channel, Phase.UNMASKING, step, *ends, sums, None)

    def _empty(self, rows: int) -> Elements:
        return np.zeros((*self.circle.channel.batch_shape, rows, 0), dtype=np.uint8)
