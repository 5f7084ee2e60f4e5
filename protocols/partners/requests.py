"""How devices with few partners come by more: their partners pass requests on, and the one who asks learns no name.

A request walks from partner to partner. The first one that may take it and has room does; the answer goes back the way
that the request came, and every device on it keeps where it came from and went: pseudonyms take the same way.
No device takes a request of a neighbour, or of a device that it exchanges rows with already, whose row would be in one
sum twice: devices are known by the names that they told their neighbours, which are random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fgl_secure.protocols.partners.links import Links
from fgl_secure.protocols.topology import REACH
from fgl_secure.typing import Array, Ids

NOBODY = -1
_PENDING, _STANDING = 0, 1


@dataclass(slots=True)
class Way:
    """What a device on the way of a request keeps of it.

    Attributes:
        back: who it came from; NOBODY at the device that asks.
        ahead: who it went to; NOBODY at the device that takes it.
        name: what the other end is called, at the two ends of what stands.
        standing: whether it was answered with yes.
    """

    back: int
    ahead: int
    name: int = NOBODY
    standing: int = _PENDING


@dataclass(frozen=True, slots=True)
class Ask:
    """A request from one device to the next: what the one who asks is called, the way's number, and how far it goes."""

    sender: int
    receiver: int
    name: int
    ticket: int
    left: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer on the way back: the way's number, and what the one who takes the request is called; NOBODY for no."""

    sender: int
    receiver: int
    ticket: int
    name: int


def _by_receiver(each: Ask | Answer) -> tuple[int, int, int]:
    return each.receiver, each.ticket, each.sender


class Requests:
    """Requests of, through and to the devices that a process hosts.

    Args:
        links: of these devices.
        most: D, partners of a device.
        least: how many a device wants at least.

    Attributes:
        ways: what devices keep, by device and number of the way.
    """

    def __init__(self, links: Links, most: int, least: int) -> None:
        self._links, self._most, self._least = links, most, least
        self.ways: dict[tuple[int, int], Way] = {}
        self._ends: dict[tuple[int, int], int] = {}  # the number of the way from a device to the other end's name
        self._asks: list[Ask] = []
        self._answers: list[Answer] = []
        self._partners: dict[int, list[int]] | None = None
        self._neighbours: dict[int, list[int]] = {}
        self._known: set[tuple[int, int]] = set()

    def _prepare(self) -> dict[int, list[int]]:
        """Partners of each device, once they are chosen."""
        if self._partners is None:
            links = self._links
            chosen, all_links = links.taken, np.arange(len(links))
            self._partners, self._neighbours = (_by_owner(links, places) for places in (chosen, all_links))
            self._known = set(zip(links.owners.tolist(), links.names.tolist(), strict=True))
        return self._partners

    def _having(self) -> dict[int, int]:
        """Partners of each device, those that it may still get among them."""
        partners = self._prepare()
        found = {device: len(partners.get(device, ())) for device in self._neighbours}
        for (device, _), way in self.ways.items():
            if NOBODY in (way.back, way.ahead):
                found[device] = found.get(device, 0) + 1
        return found

    @property
    def asking(self) -> Ids:
        """int64, ascending: devices that have fewer partners than they want."""
        return np.array(sorted(d for d, count in self._having().items() if count < self._least), dtype=np.int64)

    def ask(self, devices: Ids, names: Ids, tickets: Ids, coins: Ids) -> list[Ask]:
        """Each of some devices asks one of its partners; one that has none asks a neighbour that has no room for it.

        Args:
            devices: those that ask.
            names: what they are called.
            tickets: numbers of the ways.
            coins: choose the partners.
        """
        partners, out = self._prepare(), []
        for device, name, ticket, coin in zip(
            *(each.tolist() for each in (devices, names, tickets, coins)), strict=True
        ):
            others = partners.get(device) or self._neighbours[device]
            first = others[coin % len(others)]
            self.ways[device, ticket] = Way(NOBODY, first)
            out.append(Ask(device, first, name, ticket, REACH))
        return out

    def take(self, asks: Iterable[Ask] = (), answers: Iterable[Answer] = ()) -> None:
        """Keeps what has arrived until it is dealt with, in an order that doesn't depend on who was heard first."""
        self._asks = sorted([*self._asks, *asks], key=_by_receiver)
        self._answers = sorted([*self._answers, *answers], key=_by_receiver)

    @property
    def waiting(self) -> Ids:
        """int64: devices that have to choose whom they pass a request on to, or may have to."""
        return np.array([ask.receiver for ask in self._asks], dtype=np.int64)

    def deal(self, names: Ids, coins: Ids) -> tuple[list[Ask], list[Answer]]:
        """Deals with what has arrived.

        Args:
            names: what each of `waiting` is called.
            coins: one for each of them.

        Returns:
            Requests that are passed on, and answers.
        """
        asks, answers, self._asks, self._answers = self._asks, self._answers, [], []
        back = [each for answer in answers if (each := self._answered(answer)) is not None]
        on: list[Ask] = []
        having = self._having() if asks else {}
        for ask, name, coin in zip(asks, names.tolist(), coins.tolist(), strict=True):
            caller = ask.receiver, ask.name
            if self._may_take(ask) and caller not in self._ends and having[ask.receiver] < self._most:
                having[ask.receiver] += 1
                self._ends[caller] = ask.ticket
                self.ways[ask.receiver, ask.ticket] = Way(ask.sender, NOBODY, ask.name, _STANDING)
                back.append(Answer(ask.receiver, ask.sender, ask.ticket, name))
            elif (passed := self._passed(ask, coin)) is not None:
                on.append(passed)
            else:
                back.append(Answer(ask.receiver, ask.sender, ask.ticket, NOBODY))
        return on, back

    def _may_take(self, ask: Ask) -> bool:
        """Whether a request is for a device at the second hop or behind, and of none that is a neighbour there."""
        return ask.left < REACH and (ask.receiver, ask.name) not in self._known and not self._is_on(ask)

    def _is_on(self, ask: Ask) -> bool:
        return (ask.receiver, ask.ticket) in self.ways

    def _passed(self, ask: Ask, coin: int) -> Ask | None:
        device = ask.receiver
        others = [each for each in self._prepare().get(device, []) if each != ask.sender]
        if not ask.left or not others or self._is_on(ask):
            return None
        following = others[coin % len(others)]
        self.ways[device, ask.ticket] = Way(ask.sender, following)
        return Ask(device, following, ask.name, ask.ticket, ask.left - 1)

    def _answered(self, answer: Answer) -> Answer | None:
        """What goes on of an answer; None at the device that asked, and where no device waits for it."""
        key = answer.receiver, answer.ticket
        way = self.ways.get(key)
        if way is None or way.ahead != answer.sender or way.standing:
            return None
        if answer.name == NOBODY:
            del self.ways[key]
        else:
            way.standing = _STANDING
            self._settle_twice(key, way, answer.name)
        return None if way.back == NOBODY else Answer(answer.receiver, way.back, answer.ticket, answer.name)

    def _settle_twice(self, key: tuple[int, int], way: Way, name: int) -> None:
        """Of two that have taken each other's requests at one time, both drop the way with the larger number."""
        if way.back != NOBODY:
            return
        (device, ticket), way.name = key, name
        other = self._ends.setdefault((device, name), ticket)
        if other != ticket:
            self._ends[device, name] = min(ticket, other)
            del self.ways[device, max(ticket, other)]

    def give_up(self) -> None:
        """Forget unanswered requests."""
        self.ways = {key: way for key, way in self.ways.items() if way.standing}

    def table(self) -> Ids:
        """int64 [w, 6]: device, number, back, ahead, name and whether it stands, of each way at each device."""
        rows = [[*key, way.back, way.ahead, way.name, way.standing] for key, way in sorted(self.ways.items())]
        return np.array(rows, dtype=np.int64).reshape(-1, 6)

    def state(self) -> dict[str, Array]:
        """All that changes; between two turns nothing waits to be dealt with but what has arrived."""
        asks = [[a.sender, a.receiver, a.name, a.ticket, a.left] for a in self._asks]
        answers = [[a.sender, a.receiver, a.ticket, a.name] for a in self._answers]
        return {
            "ways": self.table(),
            "asks": np.array(asks, dtype=np.int64).reshape(-1, 5),
            "answers": np.array(answers, dtype=np.int64).reshape(-1, 4),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        self.ways = {(row[0], row[1]): Way(*row[2:]) for row in state["ways"].tolist()}
        self._ends = {(device, way.name): ticket for (device, ticket), way in self.ways.items() if way.name != NOBODY}
        self._asks = [Ask(*row) for row in state["asks"].tolist()]
        self._answers = [Answer(*row) for row in state["answers"].tolist()]
        self._partners = None


def _by_owner(links: Links, places: Ids) -> dict[int, list[int]]:
    """The other ends of some links, by owner."""
    found: dict[int, list[int]] = {}
    for owner, other in zip(links.owners[places].tolist(), links.others[places].tolist(), strict=True):
        found.setdefault(owner, []).append(other)
    return found
