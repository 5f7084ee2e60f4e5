"""What partners tell each other once they are chosen: whether their sums are over enough.

A row goes into a sum only where the sum is over `least` rows, and comes back only where the sum of what comes back is.
Whoever sends learns this from the one it sends to, via others where the two don't know each other: one bit each
for either pass. A partner that says nothing is none, so that a request that one end alone thinks answered counts at
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.partners.links import Links
from fgl_secure.protocols.partners.requests import NOBODY, Requests
from fgl_secure.protocols.topology import Contributors, Partnering, is_computed
from fgl_secure.typing import Array, Flags, Ids

UNHEARD = -1
PASSES = 2
"""Forward, and back."""


class Tallies:
    """The partners of the devices that a process hosts, and what they have said.

    Args:
        links: of these devices; wishes are over.
        requests: of these devices; unanswered ones are given up.
        rules: the same for all devices.
        silo_of: who administers devices, int64 [k]; asked for neighbours and hosted devices alone.

    Attributes:
        owners: int64 [p], a device for each of its partners, ascending.
        others: int64 [p], the partner where it is a neighbour, NOBODY where it is behind others.
        tickets: int64 [p], the number of the way to it; NOBODY for a neighbour.
        following: int64 [p], who is next on the way to it: the partner itself where it is a neighbour.
        foreign: bool [p], partners of other silos, where rules count these alone; None elsewhere. One behind others is
            foreign unless it is hosted and of the same silo.
        heard: int8 [p, PASSES], whether the partner's sum is over enough, UNHEARD before it said.
    """

    def __init__(self, links: Links, requests: Requests, rules: Partnering, silo_of: Callable[[Ids], Ids]) -> None:
        near = np.stack([links.owners, links.others, np.full(len(links), NOBODY), links.others])[:, links.taken]
        ends = [
            (device, NOBODY, ticket, max(way.back, way.ahead))
            for (device, ticket), way in requests.ways.items()
            if NOBODY in (way.back, way.ahead)
        ]
        partners = np.concatenate([near, np.array(ends, dtype=np.int64).reshape(-1, 4).T], axis=1)
        self.owners, self.others, self.tickets, self.following = partners[:, np.lexsort(partners[2::-1])]
        self.heard = np.full((len(self.owners), PASSES), UNHEARD, dtype=np.int8)
        self._requests, self._least = requests, rules.least
        self.foreign = self._told_apart(silo_of) if rules.contributors is Contributors.FOREIGN else None
        self._places = {
            (owner, ticket if other == NOBODY else other, other == NOBODY): place
            for place, (owner, other, ticket) in enumerate(
                zip(self.owners.tolist(), self.others.tolist(), self.tickets.tolist(), strict=True)
            )
        }
        self.passing: Ids = np.empty((0, 4), dtype=np.int64)

    def _told_apart(self, silo_of: Callable[[Ids], Ids]) -> Flags:
        """Return which partners are foreign: both ends of a way have its number, so a host of both recognises it."""
        others, far = self.others.copy(), np.flatnonzero(self.others == NOBODY)
        by_ticket = far[np.argsort(self.tickets[far], kind="stable")]
        first = np.flatnonzero(np.diff(self.tickets[by_ticket]) == 0)
        for here, there in ((first, first + 1), (first + 1, first)):
            others[by_ticket[here]] = self.owners[by_ticket[there]]
        known = others != NOBODY
        foreign: Flags = ~known
        foreign[known] = silo_of(others[known]) != silo_of(self.owners[known])
        return foreign

    @property
    def kept(self) -> Flags:
        """Bool [p]: which partners have said something."""
        kept: Flags = self.heard[:, 0] != UNHEARD
        return kept

    def enough(self, passed: int) -> Flags:
        """Bool [p]: whether the own sum of a pass is over enough, and the row of each partner goes into it.

        Args:
            passed: 0 for forward, where all partners count; 1 for back, where those do whose own sums are over enough.
        """
        counted = self.heard[:, 0] == 1 if passed else None
        return is_computed(np.unique(self.owners, return_inverse=True)[1], self._least, self.foreign, counted)

    def hear(self, owners: Ids, others: Ids, said: Array, passed: int) -> None:
        """Takes what neighbours say.

        Raises:
            MalformedMessageError: one is no partner.
        """
        pairs = zip(owners.tolist(), others.tolist(), strict=True)
        places = [self._places.get((owner, other, False), NOBODY) for owner, other in pairs]
        if NOBODY in places:
            raise MalformedMessageError(
                "devices must tell partners whether sums are over enough; at least one told another"
            )
        self.heard[places, passed] = said

    def hear_of(self, rows: Iterable[tuple[int, int, int, int]], passed: int) -> None:
        """Takes what comes on ways, and keeps what is to be forwarded; what comes on no way that stands goes nowhere.

        Args:
            rows: sender, receiver, number of the way and what is said, of each.
            passed: 0 for forward, 1 for back.
        """
        on = []
        for sender, receiver, ticket, said in rows:
            way = self._requests.ways.get((receiver, ticket))
            if way is None or sender not in (way.back, way.ahead):
                continue
            following = way.ahead if sender == way.back else way.back
            if following == NOBODY:
                self.heard[self._places[receiver, ticket, True], passed] = said
            else:
                on.append([receiver, following, ticket, said])
        self.passing = np.concatenate([self.passing, np.array(on, dtype=np.int64).reshape(-1, 4)])

    def passed_on(self) -> Ids:
        """int64 [4, m]: senders, receivers, numbers of ways and what is said, of what is forwarded now."""
        rows, self.passing = self.passing.T, self.passing[:0]
        return rows

    def state(self) -> dict[str, Array]:
        """All that changes."""
        return {"heard": self.heard, "passing": self.passing}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self.heard, self.passing = state["heard"].copy(), state["passing"].copy()
