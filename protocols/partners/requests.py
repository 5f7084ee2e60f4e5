"""How devices with few partners find more: partners forward requests, and the requester learns no identity.

A request walks from partner to partner. The first one that may accept it and has room does. The answer returns along
the route of the request, and every device on the route stores both next hops: pseudonyms take the same route.
No device accepts a request of a neighbour, or of a device that it exchanges rows with already, whose row would be in
one sum twice: devices are known by random names, which they sent to their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fgl_secure.protocols.partners.links import Links
from fgl_secure.protocols.topology import REACH
from fgl_secure.typing import Array, Ids

NOBODY = -1
_PENDING, _ACCEPTED = 0, 1


@dataclass(slots=True)
class RouteHop:
    """What a device on the route of a request stores of it.

    Attributes:
        previous: the device that sent it; NOBODY at the requester.
        next: the device that it was sent to; NOBODY at the device that accepts it.
        name: of the other end, at the two ends of an accepted route.
        accepted: whether a device accepted it.
    """

    previous: int
    next: int
    name: int = NOBODY
    accepted: int = _PENDING


@dataclass(frozen=True, slots=True)
class PartnerRequest:
    """A request from one device to the next: the requester's name, the route number, and how many hops are left."""

    sender: int
    receiver: int
    name: int
    ticket: int
    hops_left: int


@dataclass(frozen=True, slots=True)
class PartnerAnswer:
    """An answer on the way back: the route number, and the name of the accepting device; NOBODY for none."""

    sender: int
    receiver: int
    ticket: int
    name: int


def _sort_key(message: PartnerRequest | PartnerAnswer) -> tuple[int, int, int]:
    return message.receiver, message.ticket, message.sender


class Requests:
    """Requests of, through and to the devices that a process hosts.

    Args:
        links: of these devices.
        max_partners: D, partners of a device.
        min_partners: fewest partners of a device.

    Attributes:
        routes: by device and route number.
    """

    def __init__(self, links: Links, max_partners: int, min_partners: int) -> None:
        self._links, self._max_partners, self._min_partners = links, max_partners, min_partners
        self.routes: dict[tuple[int, int], RouteHop] = {}
        # By device and name of the other end: the route number.
        self._accepted: dict[tuple[int, int], int] = {}
        self._requests: list[PartnerRequest] = []
        self._answers: list[PartnerAnswer] = []
        self._partners: dict[int, list[int]] | None = None
        self._neighbours: dict[int, list[int]] = {}
        self._neighbour_names: set[tuple[int, int]] = set()

    def _prepare(self) -> dict[int, list[int]]:
        """Partners of each device, once they are chosen."""
        if self._partners is None:
            links = self._links
            chosen, all_links = links.chosen, np.arange(len(links))
            self._partners, self._neighbours = (_group_by_owner(links, places) for places in (chosen, all_links))
            self._neighbour_names = set(zip(links.owners.tolist(), links.names.tolist(), strict=True))
        return self._partners

    def _count_partners(self) -> dict[int, int]:
        """Partners of each device, including those that it may still get."""
        partners = self._prepare()
        counts = {device: len(partners.get(device, ())) for device in self._neighbours}
        for (device, _), route in self.routes.items():
            if NOBODY in (route.previous, route.next):
                counts[device] = counts.get(device, 0) + 1
        return counts

    @property
    def requesters(self) -> Ids:
        """int64, ascending: devices that have fewer partners than they want."""
        counts = self._count_partners()
        return np.array(sorted(d for d, count in counts.items() if count < self._min_partners), dtype=np.int64)

    def make_requests(self, devices: Ids, names: Ids, tickets: Ids, coins: Ids) -> list[PartnerRequest]:
        """Return a request of each device to one of its partners; to a full neighbour if it has none.

        Args:
            devices: int64 [k], the requesters.
            names: their names.
            tickets: route numbers.
            coins: choose the partners.
        """
        partners, out = self._prepare(), []
        for device, name, ticket, coin in zip(
            *(column.tolist() for column in (devices, names, tickets, coins)), strict=True
        ):
            others = partners.get(device) or self._neighbours[device]
            first = others[coin % len(others)]
            self.routes[device, ticket] = RouteHop(NOBODY, first)
            out.append(PartnerRequest(device, first, name, ticket, REACH))
        return out

    def receive(self, requests: Iterable[PartnerRequest] = (), answers: Iterable[PartnerAnswer] = ()) -> None:
        """Store what has arrived, in an order that does not depend on the order of arrival."""
        self._requests = sorted([*self._requests, *requests], key=_sort_key)
        self._answers = sorted([*self._answers, *answers], key=_sort_key)

    @property
    def forwarders(self) -> Ids:
        """int64: devices that may have to choose a partner to forward a request to."""
        return np.array([request.receiver for request in self._requests], dtype=np.int64)

    def process(self, names: Ids, coins: Ids) -> tuple[list[PartnerRequest], list[PartnerAnswer]]:
        """Process what has arrived.

        Args:
            names: of each of `forwarders`.
            coins: one for each of them.

        Returns:
            Requests that are forwarded, and answers.
        """
        waiting, answers, self._requests, self._answers = self._requests, self._answers, [], []
        replies = [forwarded for answer in answers if (forwarded := self._process_answer(answer)) is not None]
        requests: list[PartnerRequest] = []
        partner_counts = self._count_partners() if waiting else {}
        for request, name, coin in zip(waiting, names.tolist(), coins.tolist(), strict=True):
            device, ticket, caller = request.receiver, request.ticket, (request.receiver, request.name)
            has_room = caller not in self._accepted and partner_counts[device] < self._max_partners
            if self._may_accept(request) and has_room:
                partner_counts[device] += 1
                self._accepted[caller] = ticket
                self.routes[device, ticket] = RouteHop(request.sender, NOBODY, request.name, _ACCEPTED)
                replies.append(PartnerAnswer(device, request.sender, ticket, name))
            elif (onward := self._forward(request, coin)) is not None:
                requests.append(onward)
            else:
                replies.append(PartnerAnswer(device, request.sender, ticket, NOBODY))
        return requests, replies

    def _may_accept(self, request: PartnerRequest) -> bool:
        """Whether a request is for a device at the second hop or behind, and of none that is a neighbour there."""
        is_neighbour = (request.receiver, request.name) in self._neighbour_names
        return request.hops_left < REACH and not is_neighbour and not self._is_on_route(request)

    def _is_on_route(self, request: PartnerRequest) -> bool:
        return (request.receiver, request.ticket) in self.routes

    def _forward(self, request: PartnerRequest, coin: int) -> PartnerRequest | None:
        device = request.receiver
        others = [partner for partner in self._prepare().get(device, []) if partner != request.sender]
        if not request.hops_left or not others or self._is_on_route(request):
            return None
        following = others[coin % len(others)]
        self.routes[device, request.ticket] = RouteHop(request.sender, following)
        return PartnerRequest(device, following, request.name, request.ticket, request.hops_left - 1)

    def _process_answer(self, answer: PartnerAnswer) -> PartnerAnswer | None:
        """What goes on of an answer; None at the device that asked, and where no device waits for it."""
        key = answer.receiver, answer.ticket
        route = self.routes.get(key)
        if route is None or route.next != answer.sender or route.accepted:
            return None
        if answer.name == NOBODY:
            del self.routes[key]
        else:
            route.accepted = _ACCEPTED
            self._resolve_duplicate(key, route, answer.name)
        if route.previous == NOBODY:
            return None
        return PartnerAnswer(answer.receiver, route.previous, answer.ticket, answer.name)

    def _resolve_duplicate(self, key: tuple[int, int], route: RouteHop, name: int) -> None:
        """Of two that have taken each other's requests at one time, both drop the way with the larger number."""
        if route.previous != NOBODY:
            return
        (device, ticket), route.name = key, name
        other = self._accepted.setdefault((device, name), ticket)
        if other != ticket:
            self._accepted[device, name] = min(ticket, other)
            del self.routes[device, max(ticket, other)]

    def drop_unanswered(self) -> None:
        """Forget unanswered requests."""
        self.routes = {key: route for key, route in self.routes.items() if route.accepted}

    def route_table(self) -> Ids:
        """int64 [w, 6]: device, number, back, ahead, name and whether it stands, of each way at each device."""
        rows = [[*key, hop.previous, hop.next, hop.name, hop.accepted] for key, hop in sorted(self.routes.items())]
        return np.array(rows, dtype=np.int64).reshape(-1, 6)

    def state(self) -> dict[str, Array]:
        """All that changes; between two turns nothing waits to be dealt with but what has arrived."""
        requests = [[a.sender, a.receiver, a.name, a.ticket, a.hops_left] for a in self._requests]
        answers = [[a.sender, a.receiver, a.ticket, a.name] for a in self._answers]
        return {
            "ways": self.route_table(),
            "asks": np.array(requests, dtype=np.int64).reshape(-1, 5),
            "answers": np.array(answers, dtype=np.int64).reshape(-1, 4),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self.routes = {(row[0], row[1]): RouteHop(*row[2:]) for row in state["ways"].tolist()}
        ends = ((device, hop.name, ticket) for (device, ticket), hop in self.routes.items())
        self._accepted = {(device, name): ticket for device, name, ticket in ends if name != NOBODY}
        self._requests = [PartnerRequest(*row) for row in state["asks"].tolist()]
        self._answers = [PartnerAnswer(*row) for row in state["answers"].tolist()]
        self._partners = None


def _group_by_owner(links: Links, places: Ids) -> dict[int, list[int]]:
    """The other ends of some links, by owner."""
    others_of: dict[int, list[int]] = {}
    for owner, other in zip(links.owners[places].tolist(), links.others[places].tolist(), strict=True):
        others_of.setdefault(owner, []).append(other)
    return others_of
