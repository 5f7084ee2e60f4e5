"""The end of a sum under LightSecAgg: a roster that all agree on, and the sum of its masks, opened in one go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.coded_masks.code import MaskCode
from fgl_secure.protocols.coded_masks.links import Flags, Ids, Links
from fgl_secure.protocols.coded_masks.roles import Roster, check_roster
from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.passing import are_elements
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.runtime import Phase, Step


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """The last two stages of one step.

    Attributes:
        circle: the parties.
        rules: the numbers of the session.
        code: of the masks.
        links: by which senders vote, and reach the receiver.
        step: which sum.
    """

    circle: Circle
    rules: Rules
    code: MaskCode
    links: Links
    step: Step

    def mask(self, survived: Flags, told: Flags, held: Elements) -> Elements:
        """The sum of the masks of those whose vectors are in the sum.

        Args:
            survived: bool [m], who they are.
            told: bool [m, m], whose coded masks each sender holds.
            held: elements [*batch, m, m, width], these, by holder and owner.

        Returns:
            Elements [*batch, d].

        Raises:
            ProtocolError: too few senders agree to the roster or answer, or answers contradict each other.
        """
        who, rosters = self._agreed(survived, told)
        sums = [self.code.added(held[..., v, roster > 0, :]) for v, roster in zip(who.tolist(), rosters, strict=True)]
        here, got = self.links.hand_in(self.step, who, np.stack(sums, axis=-2))
        self._leave_out(who, here, got)
        self.rules.require(int(here.sum()), "hand in their sums of coded masks", self.step)
        return self._recovered(who[here], got[..., here, :])

    def _agreed(self, survived: Flags, told: Flags) -> tuple[Ids, Roster]:
        """Who opens which roster: those whom it suits, and of whom enough others say that they were told the same."""
        c, rules, step = self.circle, self.rules, self.step
        batch, who = c.channel.batch_shape, np.flatnonzero(survived)
        said = np.broadcast_to(survived.astype(np.uint8), (*batch, len(who), rules.senders)).copy()
        heard, got = c.down(Phase.ROSTERS, step, who, said)
        who, rosters = who[heard], got[(0,) * len(batch)][heard]
        willing = np.array([self._accepts(int(u), rosters[i], told[u]) for i, u in enumerate(who)], dtype=np.bool_)
        who, rosters = who[willing], rosters[willing]
        hears, votes = self.links.votes(step, who, rosters)
        rules.require(int(hears.sum()), "vote for the roster", step)
        for u, count in zip(who[hears].tolist(), votes[hears].tolist(), strict=True):
            if count < rules.needed:
                what = f"opens nothing: {count} votes for its roster, {rules.needed} needed"
                c.channel.note_incident(step, int(c.senders[u]), what)
        enough = hears & (votes >= rules.needed)
        rules.require(int(enough.sum()), "agree on one roster", step)
        return who[enough], rosters[enough]

    def _accepts(self, u: int, roster: Roster, told: Flags) -> bool:
        c = self.circle
        try:
            check_roster(roster, u, told, self.rules.threshold, None)
        except ProtocolError as error:
            party = c.channel.parties.party_of(int(c.senders[u]))
            c.channel.note_incident(self.step, c.aggregator, f"{party}: {error}")
            return False
        return True

    def _leave_out(self, who: Ids, here: Flags, sums: Elements) -> None:
        """Takes away, in place, those whose sums are none."""
        c = self.circle
        for at in np.flatnonzero(here).tolist():
            if not are_elements(sums[..., at, :], self.rules.field):
                here[at] = False
                what = "its sum of coded masks holds other values than elements: left out"
                c.channel.note_incident(self.step, int(c.senders[who[at]]), what)

    def _recovered(self, who: Ids, sums: Elements) -> Elements:
        c = self.circle
        coins = None if c.channel.batch_shape else c.channel.coins
        mask, faulty = self.code.recover(np.moveaxis(sums, -2, 0), who.tolist(), coins)
        for u in faulty:
            c.channel.note_incident(self.step, int(c.senders[u]), "its sum of coded masks is wrong: corrected")
        return mask
