"""Devices that agree on partners: numbers first, then rounds of wishes, then requests of those that have few.

In the end partners tell each other whether their sums are over enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.partners.links import FULL, Links
from fgl_secure.protocols.partners.requests import NOBODY, Answer, Ask, Requests
from fgl_secure.protocols.partners.tallies import PASSES, Tallies
from fgl_secure.protocols.topology import REACH, ROUNDS, Grouping, Partnering, check_mutual
from fgl_secure.runtime import Draws, Messages, Phase
from fgl_secure.runtime.machine import SETUP, Machine
from fgl_secure.typing import Array, Ids

NUMBER, NAME, WISH = "number", "name", "wish"
TICKET, LEFT, FOUND, ENOUGH = "ticket", "left", "found", "enough"
_COINS = 2**63
_NOBODY: Ids = np.empty(0, dtype=np.int64)
_A_TRY = 2 * (REACH + 1)
"""Turns until a request has been answered: there, and back."""


class PartnerDevices(Machine):
    """The devices that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        grouping: whose rows go to whom; of each message the other way round is there as well.
        rules: the same for all devices.
        draws: coins of the devices.

    Attributes:
        rules: as given.
        links: to neighbours.
        requests: for more partners.

    Raises:
        InputError: rows travel one way alone between two devices, or all tapes run at once: who says what depends on
            what was drawn.
    """

    def __init__(self, parties: Ids, grouping: Grouping, rules: Partnering, draws: Draws) -> None:
        super().__init__(parties)
        if draws.batch_shape:
            raise InputError(f"partners must be agreed on in a run of its own; found {draws.batch_shape} tapes")
        owners, others = grouping.group_owner[grouping.target], grouping.row_owner[grouping.source]
        here = np.isin(owners, parties) & (owners != others)
        check_mutual(owners, others)
        self.rules, self._draws = rules, draws
        self._administered = grouping.row_owner, grouping.row_custodian
        self.links = Links(owners[here], others[here])
        self.requests = Requests(self.links, rules.most, rules.least)
        self._names: Ids = np.zeros(len(parties), dtype=np.int64)
        self._tallies: Tallies | None = None
        self._turn = 0

    def silo_of(self, devices: Ids) -> Ids:
        """Return who administers devices that are hosted, or neighbours of hosted ones: int64 [k]."""
        owners, custodians = self._administered
        order = np.argsort(owners)
        return custodians[order[np.searchsorted(owners[order], devices)]]

    @property
    def _asked(self) -> int:
        """The turn in which requests are over."""
        return 1 + ROUNDS + self.rules.tries * _A_TRY

    @property
    def _last(self) -> int:
        return self._asked + PASSES * (self.rules.reach + 1)

    @property
    def tallies(self) -> Tallies:
        """Partners, once they are chosen.

        Raises:
            StaleMessageError: they are not.
        """
        if self._turn <= self._asked:
            raise StaleMessageError("partners must have been chosen before they count; they are not")
        if self._tallies is None:
            self._tallies = Tallies(self.links, self.requests, self.rules, self.silo_of)
        return self._tallies

    def step(self) -> Iterable[Messages]:
        """Numbers, wishes, requests, and whether sums are over enough."""
        turn, self._turn = self._turn, min(self._turn + 1, self._last + 1)
        if turn == 0:
            return self._introduced()
        if turn <= ROUNDS:
            if turn > 1:
                self.links.settle(last=False)
            return self._wished()
        if turn == ROUNDS + 1:
            self.links.settle(last=True)
        if turn < self._asked:
            return self._requested(new=(turn - ROUNDS - 1) % _A_TRY == 0)
        if turn == self._asked:
            self.requests.deal(_NOBODY, _NOBODY)  # answers of the last request
            self.requests.give_up()
        return self._told(*divmod(turn - self._asked, self.rules.reach + 1)) if turn < self._last else ()

    def _told(self, passed: int, hop: int) -> Iterable[Messages]:
        """Whether sums of a pass are over enough, to all partners; then what others said is forwarded."""
        tallies = self.tallies
        senders, receivers, tickets, said = tallies.passed_on()
        if hop == 0:
            near, enough = tallies.tickets == NOBODY, tallies.enough(passed).astype(np.int64)
            ends = tallies.owners[near], tallies.following[near]
            yield from self._say(Phase.PARTNERS, *ends, {ENOUGH: enough[near].astype(np.uint8)})
            own = tallies.owners, tallies.following, tallies.tickets, enough
            senders, receivers, tickets, said = (each[~near] for each in own)
        fields = {TICKET: tickets, ENOUGH: said.astype(np.uint8)}
        yield from self._say(Phase.REQUESTS, senders, receivers, fields)

    def on_idle(self) -> bool:
        """All devices go through all turns, so that no device sees when others are done."""
        return self._turn <= self._last

    def _introduced(self) -> Iterable[Messages]:
        links = self.links
        links.own = self._draws.draw("link numbers", links.owners, _COINS, (), SETUP)
        self._names = self._draws.draw("names", self.parties, _COINS, (), SETUP)
        names = self.called(links.owners)
        return self._say(Phase.PARTNERS, links.owners, links.others, {NUMBER: links.own, NAME: names})

    def called(self, devices: Ids) -> Ids:
        """What hosted devices call themselves: int64 [k]."""
        return self._names[np.searchsorted(self.parties, devices)]

    def _wished(self) -> Iterable[Messages]:
        places = self.links.wish(self.rules.most)
        return self._say(
            Phase.PARTNERS, self.links.owners[places], self.links.others[places], {WISH: self.links.wishes[places]}
        )

    def _requested(self, *, new: bool) -> Iterable[Messages]:
        waiting = self.requests.waiting
        coins = self._draws.draw("passing on", waiting, _COINS, ())
        on, back = self.requests.deal(self.called(waiting), coins)
        if new:
            self.requests.give_up()
            asking = self.requests.asking
            names = self.called(asking)
            tickets, coins = (self._draws.draw(name, asking, _COINS, ()) for name in ("tickets", "first hops"))
            on = [*on, *self.requests.ask(asking, names, tickets, coins)]
        asks = _columns([[a.sender, a.receiver, a.name, a.ticket, a.left] for a in on], 5)
        answers = _columns([[a.sender, a.receiver, a.ticket, a.name] for a in back], 4)
        passed = {NAME: asks[2], TICKET: asks[3], LEFT: asks[4].astype(np.uint8)}
        answered = {TICKET: answers[2], FOUND: answers[3]}
        return (
            *self._say(Phase.REQUESTS, asks[0], asks[1], passed),
            *self._say(Phase.REQUESTS, answers[0], answers[1], answered),
        )

    def _say(self, phase: Phase, senders: Ids, receivers: Ids, fields: Mapping[str, Array]) -> tuple[Messages, ...]:
        return (Messages(phase, SETUP, senders, receivers, fields),) if len(senders) else ()

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        if messages.step != SETUP or messages.tape_axes:
            raise StaleMessageError(f"partners must be agreed on before the first sum; found {messages.step}")
        if messages.phase not in (Phase.PARTNERS, Phase.REQUESTS):
            raise MalformedMessageError(f"messages must be about partners; found {messages.phase.label}")
        places = self.links.at(messages.receivers, messages.senders)
        if ENOUGH in messages.fields:
            self._take_enough(messages)
        elif messages.phase is Phase.REQUESTS:
            self._take_requests(messages)
        elif WISH in messages.fields:
            said = _field(messages, WISH, np.uint8)
            if not 1 < self._turn <= ROUNDS + 1 or (said > FULL).any():
                raise StaleMessageError("wishes must be said in the rounds of wishes; at least one was not")
            self.links.answered(places, said)
        else:
            numbers, names = (_field(messages, name, np.int64) for name in (NUMBER, NAME))
            if self._turn != 1 or (numbers < 0).any() or (names < 0).any():
                raise StaleMessageError("numbers must be told first, and not be negative; at least one was not")
            self.links.hear(places, numbers, names)

    def _take_requests(self, messages: Messages) -> None:
        ends = messages.senders.tolist(), messages.receivers.tolist()
        if self._turn <= ROUNDS + 1:
            raise StaleMessageError("requests must come after wishes; at least one did not")
        tickets = _field(messages, TICKET, np.int64).tolist()
        if FOUND in messages.fields:
            found = _field(messages, FOUND, np.int64).tolist()
            self.requests.take(answers=[Answer(*row) for row in zip(*ends, tickets, found, strict=True)])
            return
        left, names = _field(messages, LEFT, np.uint8), _field(messages, NAME, np.int64)
        if (left > REACH).any() or (names < 0).any():
            raise MalformedMessageError(f"requests must go {REACH} devices far at most; at least one goes further")
        asks = zip(*ends, names.tolist(), tickets, left.tolist(), strict=True)
        self.requests.take(asks=[Ask(*row) for row in asks])

    def _take_enough(self, messages: Messages) -> None:
        said = _field(messages, ENOUGH, np.uint8)
        if not self._asked < self._turn <= self._last or (said > 1).any():
            raise StaleMessageError("partners must say yes or no once they are chosen; at least one did not")
        passed = (self._turn - self._asked - 1) // (self.rules.reach + 1)
        if messages.phase is Phase.PARTNERS:
            self.tallies.hear(messages.receivers, messages.senders, said, passed)
            return
        columns = messages.senders, messages.receivers, _field(messages, TICKET, np.int64), said
        self.tallies.hear_of(zip(*(each.tolist() for each in columns), strict=True), passed)

    def state(self) -> dict[str, Array]:
        """All that changes."""
        tallies = {} if self._tallies is None else self._tallies.state()
        return {
            "turn": np.asarray(self._turn, dtype=np.int64),
            "names": self._names,
            **{f"links/{name}": value for name, value in self.links.state().items()},
            **{f"requests/{name}": value for name, value in self.requests.state().items()},
            **{f"tallies/{name}": value for name, value in tallies.items()},
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        if "turn" not in state or "names" not in state or state["names"].shape != self.parties.shape:
            raise MalformedMessageError("state must be of devices that agree on partners; it is not")
        self._turn, self._names = int(state["turn"]), state["names"]
        self.links.restore({name[6:]: value for name, value in state.items() if name.startswith("links/")})
        self.requests.restore({name[9:]: value for name, value in state.items() if name.startswith("requests/")})
        self._tallies = None
        if "tallies/heard" in state:
            self.tallies.restore({name[8:]: value for name, value in state.items() if name.startswith("tallies/")})


def _columns(rows: list[list[int]], width: int) -> Ids:
    return np.array(rows, dtype=np.int64).reshape(-1, width).T


def _field(messages: Messages, name: str, kind: type[np.generic]) -> Array:
    value = messages[name]
    if value.dtype != np.dtype(kind) or value.ndim != 1:
        raise MalformedMessageError(f"field {name} must be {np.dtype(kind)}, one a message; found {value.dtype}")
    return value
