"""The end of a round of pairwise masking: a roster that all agree on, and the secrets opened that it asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.opening import handed_in, open_each
from fgl_secure.protocols.masking.roles import NO_SHARE, Ask, Asked, check_request, shares_for
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.protocols.masking.shares import Sharing
from fgl_secure.protocols.masking.supply import Flags, Ids, MaskSupply
from fgl_secure.runtime import Phase, Step


@dataclass(frozen=True, slots=True, eq=False)
class Unmasking:
    """Rounds 3 and 4 of one step.

    Attributes:
        circle: the parties.
        rules: the numbers of the session.
        sharing: how secrets are shared.
        supply: under whose keys senders vote.
        step: which sum.
    """

    circle: Circle
    rules: Rules
    sharing: Sharing
    supply: MaskSupply
    step: Step

    def secrets(self, asked: Asked, told: Flags, held: Elements) -> Elements:
        """The secrets that the aggregator asks for, opened.

        Args:
            asked: uint8 [m], what it asks about each sender.
            told: bool [m, m], whose shares each sender was told of.
            held: elements [*batch, m, m, 2, w], the shares of each holder, by owner.

        Returns:
            Elements [*batch, m, w], zeros where nothing is asked.

        Raises:
            ProtocolError: too few senders agree to the request or answer it, or shares contradict each other.
        """
        c, rules, step = self.circle, self.rules, self.step
        who = np.flatnonzero(asked == Ask.SELF_MASK)
        requests = np.broadcast_to(asked, (*c.channel.batch_shape, len(who), rules.senders)).copy()
        heard, got = c.down(Phase.ROSTERS, step, who, requests)
        who, got = who[heard], got[(0,) * len(c.channel.batch_shape)][heard]
        willing = np.array([self._accepts(int(u), got[i], told) for i, u in enumerate(who)], dtype=np.bool_)
        who, got = who[willing], got[willing]
        hears, votes = self.supply.votes(step, who, got)
        self.rules.require(int(hears.sum()), "vote for the roster", step)
        for u, count in zip(who[hears].tolist(), votes[hears].tolist(), strict=True):
            if count < rules.needed:
                what = f"refuses shares: {count} votes for its roster, {rules.needed} needed"
                c.channel.note_incident(step, int(c.senders[u]), what)
        who, got = who[votes >= rules.needed], got[votes >= rules.needed]
        self.rules.require(len(who), "agree on one roster", step)
        return self._open(self._hand_in(who, got, held), asked)

    def _hand_in(self, who: Ids, got: Asked, held: Elements) -> Elements:
        """Every sender in the agreement hands in its shares: [*batch, m owners, m holders, w]."""
        c, m, step = self.circle, self.rules.senders, self.step
        near = np.sort(np.concatenate([c.neighbours.table, np.arange(m)[:, None]], axis=1), axis=1)
        batch = c.channel.batch_shape
        given = np.zeros((*batch, len(who), near.shape[1], self.supply.words), dtype=held.dtype)
        for at, v in enumerate(who.tolist()):
            given[..., at, :, :] = shares_for(got[at][near[v]], held[..., v, near[v], :, :])
        here, arrived = c.up(Phase.UNMASKING, step, who, given)
        self.rules.require(int(here.sum()), "hand in their shares", step)
        shares = np.full((*batch, m, m, self.supply.words), NO_SHARE, dtype=held.dtype)
        arrived = np.where((arrived < 0) | (arrived >= self.rules.field.modulus), NO_SHARE, arrived)
        for at in np.flatnonzero(here).tolist():
            shares[..., near[who[at]], who[at], :] = arrived[..., at, :, :]
        return shares

    def _open(self, shares: Elements, asked: Asked) -> Elements:
        """The secrets asked for, [*batch, m, w], from the shares that were handed in."""
        c, needed = self.circle, self.rules.needed
        found = handed_in(shares).sum(axis=1)
        short = np.flatnonzero((asked > Ask.NOTHING) & (found < needed))
        if len(short):
            party = c.channel.parties.party_of(int(c.senders[short[0]]))
            raise ProtocolError(
                f"{needed} shares are needed to unmask {party} in round {self.step.round}; found {int(found[short[0]])}"
            )
        return open_each(self.sharing, shares, asked, None if c.channel.batch_shape else c.channel.coins)

    def _accepts(self, u: int, asked: Asked, told: Flags) -> bool:
        c = self.circle
        try:
            check_request(asked, u, told[u], c.neighbours.adjacent[u], self.rules.threshold, None)
        except ProtocolError as error:
            c.channel.note_incident(
                self.step, c.aggregator, f"{c.channel.parties.party_of(int(c.senders[u]))}: {error}"
            )
            return False
        return True
