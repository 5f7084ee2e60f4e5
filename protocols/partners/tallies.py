"""What partners report to each other once they are chosen: whether their sums have enough contributors.

A row goes into a sum only if the sum is over `least` rows, and comes back only if the sum of what comes back is. The
sender learns this from the receiver, along a route if the two are not neighbours: one bit for either pass. A partner
that reports nothing does not count, so that a request that only one end believes accepted counts at neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.partners.links import Links
from fgl_secure.protocols.partners.requests import NOBODY, Requests
from fgl_secure.protocols.topology import Contributors, Partnering, is_computed
from fgl_secure.typing import Array, Flags, Ids

NOT_REPORTED = -1
PASSES = 2
"""Forward, and back."""


class Tallies:
    """The partners of the devices that a process hosts, and their reports.

    Args:
        links: of these devices; wishes are over.
        requests: of these devices; unanswered ones are given up.
        rules: the same for all devices.
        silo_of: returns the silos of devices, int64 [k]; called for neighbours and hosted devices only.

    Attributes:
        owners: int64 [p], a device for each of its partners, ascending.
        others: int64 [p], the partner where it is a neighbour, NOBODY where it is behind others.
        tickets: int64 [p], the route number; NOBODY for a neighbour.
        next_hops: int64 [p], the next device on the route; the partner itself if it is a neighbour.
        foreign: bool [p], partners of other silos, where rules count these alone; None elsewhere. One behind others is
            foreign unless it is hosted and of the same silo.
        reports: int8 [p, PASSES], whether the partner's sum is over enough; NOT_REPORTED before its report.
    """

    def __init__(self, links: Links, requests: Requests, rules: Partnering, silo_of: Callable[[Ids], Ids]) -> None:
        direct = np.stack([links.owners, links.others, np.full(len(links), NOBODY), links.others])[:, links.chosen]
        ends = [
            (device, NOBODY, ticket, max(route.previous, route.next))
            for (device, ticket), route in requests.routes.items()
            if NOBODY in (route.previous, route.next)
        ]
        partners = np.concatenate([direct, np.array(ends, dtype=np.int64).reshape(-1, 4).T], axis=1)
        self.owners, self.others, self.tickets, self.next_hops = partners[:, np.lexsort(partners[2::-1])]
        self.reports = np.full((len(self.owners), PASSES), NOT_REPORTED, dtype=np.int8)
        self._requests, self._min_partners = requests, rules.least
        self.foreign = self._find_foreign(silo_of) if rules.contributors is Contributors.FOREIGN else None
        self._row_of = {
            (owner, ticket if other == NOBODY else other, other == NOBODY): place
            for place, (owner, other, ticket) in enumerate(
                zip(self.owners.tolist(), self.others.tolist(), self.tickets.tolist(), strict=True)
            )
        }
        self.to_forward: Ids = np.empty((0, 4), dtype=np.int64)

    def _find_foreign(self, silo_of: Callable[[Ids], Ids]) -> Flags:
        """Return which partners are foreign: both ends of a route have its number, so a host of both recognises it."""
        others, distant = self.others.copy(), np.flatnonzero(self.others == NOBODY)
        by_ticket = distant[np.argsort(self.tickets[distant], kind="stable")]
        first = np.flatnonzero(np.diff(self.tickets[by_ticket]) == 0)
        for one, other in ((first, first + 1), (first + 1, first)):
            others[by_ticket[one]] = self.owners[by_ticket[other]]
        is_known = others != NOBODY
        foreign: Flags = ~is_known
        foreign[is_known] = silo_of(others[is_known]) != silo_of(self.owners[is_known])
        return foreign

    @property
    def has_reported(self) -> Flags:
        """Bool [p]: which partners have reported."""
        reported: Flags = self.reports[:, 0] != NOT_REPORTED
        return reported

    def check_own_sums(self, pass_index: int) -> Flags:
        """Return, bool [p], whether the own sum of a pass is over enough, and the row of each partner goes into it.

        Args:
            pass_index: 0 for forward, where all partners count; 1 for backward, where those with sums over enough do.
        """
        counted = self.reports[:, 0] == 1 if pass_index else None
        return is_computed(np.unique(self.owners, return_inverse=True)[1], self._min_partners, self.foreign, counted)

    def receive_reports(self, owners: Ids, others: Ids, sums_ok: Array, pass_index: int) -> None:
        """Store reports of neighbours.

        Raises:
            MalformedMessageError: one is no partner.
        """
        pairs = zip(owners.tolist(), others.tolist(), strict=True)
        places = [self._row_of.get((owner, other, False), NOBODY) for owner, other in pairs]
        if NOBODY in places:
            raise MalformedMessageError(
                "devices must report to partners whether sums are over enough; at least one reported to another device"
            )
        self.reports[places, pass_index] = sums_ok

    def receive_forwarded(self, rows: Iterable[tuple[int, int, int, int]], pass_index: int) -> None:
        """Store reports that came along routes, and those to forward; reports along unknown routes are dropped.

        Args:
            rows: sender, receiver, route number and report, of each.
            pass_index: 0 for forward, 1 for back.
        """
        forwarded = []
        for sender, receiver, ticket, sum_ok in rows:
            route = self._requests.routes.get((receiver, ticket))
            if route is None or sender not in (route.previous, route.next):
                continue
            following = route.next if sender == route.previous else route.previous
            if following == NOBODY:
                self.reports[self._row_of[receiver, ticket, True], pass_index] = sum_ok
            else:
                forwarded.append([receiver, following, ticket, sum_ok])
        self.to_forward = np.concatenate([self.to_forward, np.array(forwarded, dtype=np.int64).reshape(-1, 4)])

    def pop_forwarded(self) -> Ids:
        """Return the reports to forward now: int64 [4, m], senders, receivers, route numbers and reports."""
        rows, self.to_forward = self.to_forward.T, self.to_forward[:0]
        return rows

    def state(self) -> dict[str, Array]:
        """All that changes."""
        return {"heard": self.reports, "passing": self.to_forward}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self.reports, self.to_forward = state["heard"].copy(), state["passing"].copy()
