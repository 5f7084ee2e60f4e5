"""Devices that agree on partners: numbers first, then rounds of wishes, then requests of those that have few.

In the end partners report to each other whether their sums are over enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.partners.links import FULL, Links
from fgl_secure.protocols.partners.requests import NOBODY, PartnerAnswer, PartnerRequest, Requests
from fgl_secure.protocols.partners.tallies import PASSES, Tallies
from fgl_secure.protocols.topology import REACH, ROUNDS, Grouping, Partnering, check_mutual
from fgl_secure.runtime import Draws, Messages, Phase
from fgl_secure.runtime.machine import SETUP, Machine
from fgl_secure.typing import Array, Ids

NUMBER, NAME, WISH = "number", "name", "wish"
TICKET, HOPS_LEFT, ACCEPTER, ENOUGH = "ticket", "left", "found", "enough"
_COINS = 2**63
_NO_DEVICES: Ids = np.empty(0, dtype=np.int64)
_STEPS_PER_TRY = 2 * (REACH + 1)
"""Steps until a request has been answered: there, and back."""


class PartnerDevices(Machine):
    """The devices that one process hosts.

    Args:
        parties: int64 [k], ascending identifiers.
        grouping: the messages; each has one in the other direction.
        rules: the same for all devices.
        draws: coins of the devices.

    Attributes:
        rules: as given.
        links: to neighbours.
        requests: for more partners.

    Raises:
        InputError: rows travel in one direction alone between two devices, or all tapes run at once: messages depend on
            what was drawn.
    """

    def __init__(self, parties: Ids, grouping: Grouping, rules: Partnering, draws: Draws) -> None:
        super().__init__(parties)
        if draws.batch_shape:
            raise InputError(f"partners must be agreed on in a run of its own; found {draws.batch_shape} tapes")
        owners, others = grouping.group_owner[grouping.target], grouping.row_owner[grouping.source]
        is_hosted = np.isin(owners, parties) & (owners != others)
        check_mutual(owners, others)
        self.rules, self._draws = rules, draws
        self._administered = grouping.row_owner, grouping.row_custodian
        self.links = Links(owners[is_hosted], others[is_hosted])
        self.requests = Requests(self.links, rules.most, rules.least)
        self._own_names: Ids = np.zeros(len(parties), dtype=np.int64)
        self._tallies: Tallies | None = None
        self._step_number = 0

    def silo_of(self, devices: Ids) -> Ids:
        """Return the silos of devices that are hosted, or neighbours of hosted ones: int64 [k]."""
        owners, custodians = self._administered
        order = np.argsort(owners)
        return custodians[order[np.searchsorted(owners[order], devices)]]

    @property
    def _requests_end(self) -> int:
        """The step in which requests are over."""
        return 1 + ROUNDS + self.rules.tries * _STEPS_PER_TRY

    @property
    def _last_step(self) -> int:
        return self._requests_end + PASSES * (self.rules.reach + 1)

    @property
    def tallies(self) -> Tallies:
        """Partners, once they are chosen.

        Raises:
            StaleMessageError: they are not.
        """
        if self._step_number <= self._requests_end:
            raise StaleMessageError("partners must have been chosen before they count; they are not")
        if self._tallies is None:
            self._tallies = Tallies(self.links, self.requests, self.rules, self.silo_of)
        return self._tallies

    def step(self) -> Iterable[Messages]:
        """Numbers, wishes, requests, and whether sums are over enough."""
        step, self._step_number = self._step_number, min(self._step_number + 1, self._last_step + 1)
        if step == 0:
            return self._introduce()
        if step <= ROUNDS:
            if step > 1:
                self.links.end_round(last=False)
            return self._send_wishes()
        if step == ROUNDS + 1:
            self.links.end_round(last=True)
        if step < self._requests_end:
            return self._send_requests(new=(step - ROUNDS - 1) % _STEPS_PER_TRY == 0)
        if step == self._requests_end:
            self.requests.process(_NO_DEVICES, _NO_DEVICES)  # answers of the last request
            self.requests.drop_unanswered()
        if step >= self._last_step:
            return ()
        return self._report_sums(*divmod(step - self._requests_end, self.rules.reach + 1))

    def _report_sums(self, pass_index: int, hop: int) -> Iterable[Messages]:
        """Report whether sums of a pass are over enough to all partners; then forward reports of others."""
        tallies = self.tallies
        senders, receivers, tickets, sums_ok = tallies.pop_forwarded()
        if hop == 0:
            direct, own_sums_ok = tallies.tickets == NOBODY, tallies.check_own_sums(pass_index).astype(np.int64)
            ends = tallies.owners[direct], tallies.next_hops[direct]
            yield from self._message(Phase.PARTNERS, *ends, {ENOUGH: own_sums_ok[direct].astype(np.uint8)})
            columns = tallies.owners, tallies.next_hops, tallies.tickets, own_sums_ok
            senders, receivers, tickets, sums_ok = (column[~direct] for column in columns)
        fields = {TICKET: tickets, ENOUGH: sums_ok.astype(np.uint8)}
        yield from self._message(Phase.REQUESTS, senders, receivers, fields)

    def on_idle(self) -> bool:
        """All devices go through all steps, so that no device sees when others are done."""
        return self._step_number <= self._last_step

    def _introduce(self) -> Iterable[Messages]:
        links = self.links
        links.own_numbers = self._draws.draw("link numbers", links.owners, _COINS, (), SETUP)
        self._own_names = self._draws.draw("names", self.parties, _COINS, (), SETUP)
        names = self.names_of(links.owners)
        return self._message(Phase.PARTNERS, links.owners, links.others, {NUMBER: links.own_numbers, NAME: names})

    def names_of(self, devices: Ids) -> Ids:
        """Return the names of hosted devices: int64 [k]."""
        return self._own_names[np.searchsorted(self.parties, devices)]

    def _send_wishes(self) -> Iterable[Messages]:
        places = self.links.choose_wishes(self.rules.most)
        return self._message(
            Phase.PARTNERS, self.links.owners[places], self.links.others[places], {WISH: self.links.wishes[places]}
        )

    def _send_requests(self, *, new: bool) -> Iterable[Messages]:
        waiting = self.requests.forwarders
        coins = self._draws.draw("passing on", waiting, _COINS, ())
        requests, replies = self.requests.process(self.names_of(waiting), coins)
        if new:
            self.requests.drop_unanswered()
            asking = self.requests.requesters
            names = self.names_of(asking)
            tickets, coins = (self._draws.draw(name, asking, _COINS, ()) for name in ("tickets", "first hops"))
            requests = [*requests, *self.requests.make_requests(asking, names, tickets, coins)]
        request_columns = _to_columns([[a.sender, a.receiver, a.name, a.ticket, a.hops_left] for a in requests], 5)
        answer_columns = _to_columns([[a.sender, a.receiver, a.ticket, a.name] for a in replies], 4)
        hops = request_columns[4].astype(np.uint8)
        request_fields = {NAME: request_columns[2], TICKET: request_columns[3], HOPS_LEFT: hops}
        answer_fields = {TICKET: answer_columns[2], ACCEPTER: answer_columns[3]}
        return (
            *self._message(Phase.REQUESTS, request_columns[0], request_columns[1], request_fields),
            *self._message(Phase.REQUESTS, answer_columns[0], answer_columns[1], answer_fields),
        )

    def _message(self, phase: Phase, senders: Ids, receivers: Ids, fields: Mapping[str, Array]) -> tuple[Messages, ...]:
        return (Messages(phase, SETUP, senders, receivers, fields),) if len(senders) else ()

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        if messages.step != SETUP or messages.tape_axes:
            raise StaleMessageError(f"partners must be agreed on before the first sum; found {messages.step}")
        if messages.phase not in (Phase.PARTNERS, Phase.REQUESTS):
            raise MalformedMessageError(f"messages must be about partners; found {messages.phase.label}")
        places = self.links.find_links(messages.receivers, messages.senders)
        if ENOUGH in messages.fields:
            self._receive_reports(messages)
        elif messages.phase is Phase.REQUESTS:
            self._receive_requests(messages)
        elif WISH in messages.fields:
            wishes = _read_field(messages, WISH, np.uint8)
            if not 1 < self._step_number <= ROUNDS + 1 or (wishes > FULL).any():
                raise StaleMessageError("wishes must be sent in the rounds of wishes; at least one was not")
            self.links.receive_answers(places, wishes)
        else:
            numbers, names = (_read_field(messages, name, np.int64) for name in (NUMBER, NAME))
            if self._step_number != 1 or (numbers < 0).any() or (names < 0).any():
                raise StaleMessageError("numbers must be sent first, and not be negative; at least one was not")
            self.links.receive_numbers(places, numbers, names)

    def _receive_requests(self, messages: Messages) -> None:
        ends = messages.senders.tolist(), messages.receivers.tolist()
        if self._step_number <= ROUNDS + 1:
            raise StaleMessageError("requests must come after wishes; at least one did not")
        tickets = _read_field(messages, TICKET, np.int64).tolist()
        if ACCEPTER in messages.fields:
            accepters = _read_field(messages, ACCEPTER, np.int64).tolist()
            self.requests.receive(answers=[PartnerAnswer(*row) for row in zip(*ends, tickets, accepters, strict=True)])
            return
        hops_left, names = _read_field(messages, HOPS_LEFT, np.uint8), _read_field(messages, NAME, np.int64)
        if (hops_left > REACH).any() or (names < 0).any():
            raise MalformedMessageError(f"requests must go {REACH} devices far at most; at least one goes further")
        rows = zip(*ends, names.tolist(), tickets, hops_left.tolist(), strict=True)
        self.requests.receive(requests=[PartnerRequest(*row) for row in rows])

    def _receive_reports(self, messages: Messages) -> None:
        sums_ok = _read_field(messages, ENOUGH, np.uint8)
        if not self._requests_end < self._step_number <= self._last_step or (sums_ok > 1).any():
            raise StaleMessageError("partners must report 0 or 1 once they are chosen; at least one did not")
        pass_index = (self._step_number - self._requests_end - 1) // (self.rules.reach + 1)
        if messages.phase is Phase.PARTNERS:
            self.tallies.receive_reports(messages.receivers, messages.senders, sums_ok, pass_index)
            return
        columns = messages.senders, messages.receivers, _read_field(messages, TICKET, np.int64), sums_ok
        self.tallies.receive_forwarded(zip(*(column.tolist() for column in columns), strict=True), pass_index)

    def state(self) -> dict[str, Array]:
        """All that changes."""
        tallies = {} if self._tallies is None else self._tallies.state()
        return {
            "turn": np.asarray(self._step_number, dtype=np.int64),
            "names": self._own_names,
            **{f"links/{name}": value for name, value in self.links.state().items()},
            **{f"requests/{name}": value for name, value in self.requests.state().items()},
            **{f"tallies/{name}": value for name, value in tallies.items()},
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Goes on where a state was taken."""
        if "turn" not in state or "names" not in state or state["names"].shape != self.parties.shape:
            raise MalformedMessageError("state must be of devices that agree on partners; it is not")
        self._step_number, self._own_names = int(state["turn"]), state["names"]
        self.links.restore({name[6:]: value for name, value in state.items() if name.startswith("links/")})
        self.requests.restore({name[9:]: value for name, value in state.items() if name.startswith("requests/")})
        self._tallies = None
        if "tallies/heard" in state:
            self.tallies.restore({name[8:]: value for name, value in state.items() if name.startswith("tallies/")})


def _to_columns(rows: list[list[int]], width: int) -> Ids:
    return np.array(rows, dtype=np.int64).reshape(-1, width).T


def _read_field(messages: Messages, name: str, kind: type[np.generic]) -> Array:
    value = messages[name]
    if value.dtype != np.dtype(kind) or value.ndim != 1:
        raise MalformedMessageError(f"field {name} must be {np.dtype(kind)}, one a message; found {value.dtype}")
    return value
