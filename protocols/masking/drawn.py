"""Masks drawn as they are, with ideal agreement and sealing: what keys stand in for, for enumeration and simulators.

A secret is the mask itself: the sender's self mask, or the masks that it shares with its neighbours one after another.
Votes are not sent; everybody is taken to see what the others were asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.protocols.masking.delivery import exchanged
from fgl_secure.protocols.masking.keys import TAG_BYTES
from fgl_secure.protocols.masking.roles import NO_SHARE, Ask, Asked, mask_sign
from fgl_secure.protocols.masking.supply import KEY, SELF, Flags, Ids, MaskSupply
from fgl_secure.runtime import Phase, Step


class DrawnMasks(MaskSupply):
    """Masks of senders that agree on them without keys; coins may be those of all tapes at once."""

    _self: Elements
    _pairs: Elements
    _shared: Elements

    @property
    def words(self) -> int:
        """One mask for every neighbour."""
        return self.circle.neighbours.degree * self.length

    def set_up(self) -> Flags:
        """Nothing lasts for the session."""
        return np.ones(len(self.circle.senders), dtype=np.bool_)

    def begin(self, step: Step, alive: Flags) -> tuple[Flags, Flags]:
        """Every pair of neighbours, and every sender with the receiver, gets a mask."""
        c, who = self.circle, np.flatnonzero(alive)
        here, _ = c.up(Phase.KEYS, step, who, self._empty(len(who)))
        listed, there = c.flags(who[here]), who[here]
        heard, _ = c.down(Phase.KEYS, step, there, self._empty(len(there)))
        self._draw_pairs(step, listed)
        if c.split:
            to = np.full(len(there), c.receiver)
            shared = self._draw("receiver masks", there, self.length, step)
            self._shared = self._dense(there, shared)
            exchanged(c.channel, Phase.KEYS, step, c.senders[there], to, shared, None)
        return listed, c.neighbours.adjacent & listed & c.flags(there[heard])[:, None]

    def secrets(self, step: Step, who: Ids) -> Elements:
        """A fresh self mask, padded, and the masks shared with all neighbours."""
        c, batch, k = self.circle, self.circle.channel.batch_shape, self.circle.neighbours.degree
        drawn = self._draw("self masks", who, self.length, step)
        self._self = self._dense(who, drawn)
        out = np.zeros((*batch, len(who), 2, self.words), dtype=self.field.dtype)
        out[..., SELF, : self.length] = drawn
        pairs = self._pairs[..., who[:, None], c.neighbours.table[who], :]
        out[..., KEY, :] = pairs.reshape(*batch, len(who), k * self.length)
        return out

    def hand_over(self, step: Step, who: Ids, shares: Elements) -> tuple[Flags, Flags, Elements]:
        """Straight to each neighbour; the aggregator sees that something passes."""
        c, m = self.circle, len(self.circle.senders)
        size = (shares.shape[-1] * 2 * shares.itemsize + TAG_BYTES) * c.neighbours.degree
        here, _ = c.up(Phase.SECRET_SHARES, step, who, self._empty(len(who)), size)
        shared, to = c.flags(who[here]), who[here]
        heard, _ = c.down(Phase.SECRET_SHARES, step, to, self._empty(len(to)))
        told = (c.neighbours.adjacent | np.eye(m, dtype=np.bool_)) & shared & c.flags(to[heard])[:, None]
        held = np.full((*shares.shape[:-4], m, m, *shares.shape[-2:]), NO_SHARE, dtype=self.field.dtype)
        holder, owner = np.nonzero(told)
        given = shares[..., np.searchsorted(who, owner), holder, :, :]
        held[..., holder, owner, :, :] = given
        apart = holder != owner
        ends = c.senders[owner[apart]], c.senders[holder[apart]]
        c.channel.send(Phase.SECRET_SHARES, step, *ends, given[..., apart, :, :])
        return shared, told, held

    def masked(self, u: int, row: NDArray[np.int64], others: Ids, step: Step) -> Elements:  # noqa: ARG002  # drawn for it
        """Under the masks of the step."""
        total = self.field.add(row, self._self[..., u, :])
        for v in others.tolist():
            total = self._added(total, self._pairs[..., u, v, :], mask_sign(u, v))
        return self.field.add(total, self._shared[..., u, :]) if self.circle.split else total

    def votes(self, step: Step, who: Ids, asked: Asked) -> tuple[Flags, Ids]:  # noqa: ARG002  # seen, not sent
        """Counts equal requests among neighbours."""
        same = (asked[:, None] == asked[None]).all(axis=2)
        near = self.circle.neighbours.adjacent[who[:, None], who] | np.eye(len(who), dtype=np.bool_)
        return np.ones(len(who), dtype=np.bool_), (same & near).sum(axis=1).astype(np.int64)

    def unmask(self, total: Elements, secrets: Elements, asked: Asked, step: Step) -> None:  # noqa: ARG002  # as opened
        """Takes away the opened masks themselves."""
        for u in np.flatnonzero(asked == Ask.SELF_MASK).tolist():
            total[...] = self._added(total, secrets[..., u, : self.length], -1)
        for u in np.flatnonzero(asked == Ask.MASK_KEY).tolist():
            for j, v in enumerate(self.circle.neighbours.table[u].tolist()):
                if asked[v] == Ask.SELF_MASK:
                    mask = secrets[..., u, j * self.length : (j + 1) * self.length]
                    total[...] = self._added(total, mask, -mask_sign(v, u))

    def release(self, total: Elements, roster: Ids, step: Step) -> None:  # noqa: ARG002  # drawn for it
        """Takes away what each of the roster shares with the receiver."""
        for u in roster.tolist():
            total[...] = self._added(total, self._shared[..., u, :], -1)

    def _draw_pairs(self, step: Step, listed: Flags) -> None:
        c, m = self.circle, len(listed)
        low, high = np.nonzero(np.triu(c.neighbours.adjacent & listed & listed[:, None]))
        drawn = self._draw("pair masks", low, self.length, step)
        c.channel.send(Phase.KEYS, step, c.senders[low], c.senders[high], drawn)
        self._pairs = np.zeros((*c.channel.batch_shape, m, m, self.length), dtype=self.field.dtype)
        self._pairs[..., low, high, :] = self._pairs[..., high, low, :] = drawn

    def _draw(self, name: str, who: Ids, width: int, step: Step) -> Elements:
        owners, p = self.circle.senders[who], self.field.modulus
        return self.circle.channel.draw(name, owners, p, (width,), step).astype(self.field.dtype)

    def _dense(self, who: Ids, values: Elements) -> Elements:
        out = np.zeros((*values.shape[:-2], len(self.circle.senders), values.shape[-1]), dtype=values.dtype)
        out[..., who, :] = values
        return out

    def _added(self, total: Elements, mask: Elements, sign: int) -> Elements:
        return self.field.add(total, mask) if sign > 0 else self.field.subtract(total, mask)

    def _empty(self, rows: int) -> Elements:
        return np.zeros((*self.circle.channel.batch_shape, rows, 0), dtype=np.uint8)
