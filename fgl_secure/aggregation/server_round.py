"""The server's part in one round: its machines, and bytes out and in over any transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgl_secure.aggregation.arguments import DEFAULT_LIMITS, Limits, bytes_of, integer_of
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.record import RoundOutcome, RoundRecord, recording_for
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.sums import Opening, SumKind, SumRequest, batches_from_bytes, batches_to_bytes
from fgl_secure.coins import Coins
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.host import numpy_settings
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import Channel, Messages, Recording, Role
from fgl_secure.runtime.packing import unpack

OPENING = "opening"
"""What the first request of a sum is called."""


class ServerRound:
    """The server's part in one round: sums that find ranges and count contributors where that is open, and the mean's.

    Requests go out (`requests`), answers come in (`receive`), and a party that has not answered when the server goes on
    (`advance`) has dropped out.

    Args:
        rules: as all parties agreed on them.
        layout: of the mappings.
        session: 16 public bytes that no other session has.
        number: of the round in the session.
        coins: of the server.
        bounds: as a round before found them; None where there was none.
        recording: what is kept of messages; None keeps them as long as they are not too large.
        limits: what is read of an answer at most.
    """

    def __init__(
        self,
        rules: Rules,
        layout: TensorLayout,
        session: bytes,
        number: int,
        coins: Coins,
        bounds: Mapping[str, float] | None = None,
        recording: Recording | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._rules, self._limits, self._session, self._number = rules, limits, session, number
        self._opening = Opening(layout, bounds if rules.finds_ranges(layout) else None)
        self._clients, (self._server,) = rules.parties.ids(Role.SILO), rules.parties.ids(Role.SERVER).tolist()
        self._channel = Channel(rules.parties, coins, recording or recording_for(rules, layout))
        self._start, self._seconds = time.perf_counter(), 0.0
        self._outcome: RoundOutcome | None = None
        self._warned = False
        self._open(rules.first(self._opening))

    @property
    def session(self) -> bytes:
        """16 public bytes; clients need them to take part."""
        return self._session

    @property
    def number(self) -> int:
        """Of the round in the session; clients need it too."""
        return self._number

    @property
    def layout(self) -> TensorLayout:
        """Of the mappings."""
        return self._opening.layout

    @property
    def purpose(self) -> SumKind:
        """What the current sum is for."""
        return self._purpose

    @property
    def request_kind(self) -> str:
        """What the current requests carry, in words; "opening" for the first of a sum."""
        if not self._outbox:
            return OPENING
        return " and ".join(dict.fromkeys(messages.phase.label for messages in self._outbox))

    @property
    def opens(self) -> bool:
        """Whether the current requests open a sum."""
        return not self._outbox

    @property
    def is_done(self) -> bool:
        """Whether the round is done."""
        return self._outcome is not None

    @property
    def bounds(self) -> Mapping[str, float] | None:
        """Ranges as found, by tensor; None where the rules give them or they are not found yet."""
        return self._opening.bounds

    @property
    def contributors(self) -> tuple[int, ...]:
        """Whose numbers are in the mean, ascending; empty until they are in."""
        return () if self._outcome is None else self._outcome.included

    def requests(self) -> Mapping[int, bytes]:
        """What to send now, by client; clients that have dropped out of the sum get nothing."""
        if self.is_done:
            return {}
        if self.opens:
            opening_bytes = self._as_request(self._opening).to_bytes()
            return dict.fromkeys(range(self._rules.clients), opening_bytes)
        receivers = np.unique(np.concatenate([messages.receivers for messages in self._outbox]))
        places = np.flatnonzero(np.isin(self._clients, receivers)).tolist()
        return _Requests(tuple(places), self._request)

    @numpy_settings()
    def receive(self, client: int, message: bytes) -> None:
        """Takes an answer.

        Args:
            client: who sent it, as the transport authenticates it.
            message: as the client's `reply` gave it.

        Raises:
            ProtocolError: malformed, stale, from another party, or a second answer. The server is as it was before.
        """
        client, message = integer_of(client, "client"), bytes_of(message, "message")
        if self.is_done or not 0 <= client < self._rules.clients:
            raise ProtocolError(f"answer must be of a client in a round that is not done; found client {client}")
        sender = int(self._clients[client])
        self._limits.check_message(message)
        answers = unpack(message, most=self._limits.batches)
        batches = batches_from_bytes(answers, self._session, sender, self._server)
        if not batches:
            raise MalformedMessageError(f"answer must hold a message; that of client {client} holds none")
        before = self._machine.state() if len(batches) > 1 else None
        try:
            for messages in batches:
                self._machine.receive(self._channel.carry(messages))
        except ProtocolError:
            if before is not None:
                self._machine.restore(before)
            raise

    @numpy_settings()
    def advance(self) -> None:
        """Goes on with what has arrived: clients that have not answered have dropped out of the sum.

        Raises:
            TooFewClientsError: fewer than the threshold are left; names the stage and both numbers.
            ProtocolError: answers contradict each other beyond repair.
        """
        self._outbox = self._step_machines() or self._step_machines()  # who is silent twice has nothing more to say
        if self._outbox:
            return
        if self._machine.is_vetoed:
            self._open(self._rules.after(self._purpose, self.layout))
            return
        total, included = self._machine.sums, self._machine.contributors
        if total is None or included is None:
            raise ProtocolError("sum must be there when no party has more messages; it is not")
        places = tuple(np.flatnonzero(np.isin(self._clients, included)).tolist())
        if self._purpose.is_mean:
            self._seconds = time.perf_counter() - self._start
            self._outcome = RoundOutcome(self._rules, self._opening, total[0], places)
            return
        self._opening = self._rules.next_opening(self._purpose, self._opening, total[0])
        self._open(self._rules.after(self._purpose, self.layout))

    @property
    @numpy_settings()
    def result(self) -> dict[str, Any]:
        """The weighted mean of the included clients' mappings.

        Warns:
            PrecisionWarning: a bound that was given is so large that most of the mean keeps next to no bits.

        Raises:
            ProtocolError: the round is not done, or the sum is beyond the numbers and weights that there may be, so
                that a client must have handed in something else.
            InputError: all weights are 0, or a mean of integers is none (names the key).
        """
        outcome = self._final_outcome()
        if not self._warned:
            self._warned = True
            outcome.warn_of_lost_mean()
        return outcome.mean

    @property
    @numpy_settings()
    def record(self) -> RoundRecord:
        """What the server saw.

        Raises:
            ProtocolError: the round is not done.
        """
        return self._final_outcome().record(self._number, self._channel, self._seconds)

    def _final_outcome(self) -> RoundOutcome:
        if self._outcome is None:
            raise ProtocolError("round must be done before there is a mean; it is not")
        return self._outcome

    def _step_machines(self) -> list[Messages]:
        """What the machine says in its turn, recorded."""
        return [self._channel.carry(messages) for messages in self._machine.step()]

    def _request(self, client: int) -> bytes:
        client_messages = [messages.rows(messages.receivers == self._clients[client]) for messages in self._outbox]
        batches = batches_to_bytes((messages for messages in client_messages if len(messages)), self._session)
        return self._as_request(None, batches).to_bytes()

    def _as_request(self, opening: Opening | None, batches: tuple[bytes, ...] = ()) -> SumRequest:
        return SumRequest(self._session, self._number, self._purpose, opening, batches)

    def _open(self, purpose: SumKind) -> None:
        rules, opening = self._rules, self._opening
        session, topology = rules.session(self._session, opening), rules.topology(purpose, opening)
        hosted = np.array([self._server], dtype=np.int64)
        (machine,) = rules.scheme.machines(topology, session, self._channel, hosted)
        machine.begin(rules.step(purpose, self._number))
        self._machine: SumMachine = machine
        self._purpose, self._outbox = purpose, list[Messages]()


@dataclass(frozen=True, slots=True, eq=False)
class _Requests(Mapping[int, bytes]):
    """Requests that are made when they are looked up: all together they may be larger than memory."""

    clients: Sequence[int]
    request_of: Callable[[int], bytes]

    def __getitem__(self, client: int) -> bytes:
        if client not in self.clients:
            raise KeyError(client)
        return self.request_of(client)

    def __iter__(self) -> Iterator[int]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)
