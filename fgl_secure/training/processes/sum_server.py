"""The server of programs of silos: it leads the sums that they open, and knows nothing else of what they do."""

from __future__ import annotations

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import OwnDraws, Step
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import SERVER, Inbox, Outbox, fitting, joined, only, scalar
from fgl_secure.training.processes.sums import DONE, EVERYBODY, OPENING, Company, arrived, sent
from fgl_secure.training.ranges import NO_DIGITS, Digits
from fgl_secure.training.server_sums import quotients
from fgl_secure.typing import Array

_MOST_BITS = 64


class SumServer:
    """The server's part in a run.

    Args:
        company: who adds up, and how.
        coins: its own.
    """

    def __init__(self, company: Company, coins: Coins) -> None:
        self._company, self._draws = company, OwnDraws(coins)
        self._step = Step(0)
        self._parts: list[int] = []
        self._least = 0
        self._digits = NO_DIGITS
        self._receivers: dict[int, int] = {}
        self._sums: dict[int, SumMachine | None] = {}

    @property
    def silos(self) -> int:
        """How many take part."""
        return self._company.silos

    @property
    def session(self) -> bytes:
        """16 public bytes, different in every run."""
        return self._company.session

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn: what silos have sent, and what they get.

        Raises:
            ProtocolError: silos open different sums, or an answer is not what is due.
            TooFewClientsError: fewer are left than the scheme's threshold.
        """
        if any(parcel.phase is OPENING for parcels in inbox.values() for parcel in parcels):
            self._open(inbox)
        for silo, parcels in inbox.items():
            for parcel in parcels:
                if parcel.phase is not OPENING and self._sums:
                    self._hear(silo, parcel)
        return joined(*(self._said(number) for number in list(self._sums)))

    def _open(self, inbox: Inbox) -> None:
        if self._sums:
            raise ProtocolError(f"silos must end their sums before they open others; {len(self._sums)} are open")
        asked = [only(inbox, silo, OPENING) for silo in range(self._company.silos)]
        opened = [fitting(parcel, ("<i8", (-1, 4)), ("<i8", (-1,)), ("<i8", ()), ("<i8", (3,))) for parcel in asked]
        self._step, (rows, parts, least, digits) = asked[0].step, opened[0]
        for silo, (parcel, found) in enumerate(zip(asked, opened, strict=True)):
            same = all(np.array_equal(*pair) for pair in zip(found, opened[0], strict=True))
            if not same or parcel.step != self._step:
                raise ProtocolError(f"silos must open the same sums; those of silos 0 and {silo} differ")
        self._parts, self._least = parts.tolist(), int(least)
        if min(self._parts, default=0) < 0 or (len(parts) and (len(rows), rows[0, 3]) != (1, EVERYBODY)):
            raise ProtocolError("parts must be lengths, of the one sum that is opened, for everybody; they are not")
        if self._least < 0 or (self._least and (len(parts) or (len(rows), rows[0, 3]) != (1, EVERYBODY))):
            raise ProtocolError("least must be 0, or that of the one sum that is opened, for everybody; it is not")
        self._digits = _checked_digits(digits, rows)
        if len(parts) and sum(self._parts) + len(parts) > rows[0, 1] - self._digits.spared:
            raise ProtocolError("parts must fit into the sum; they do not")
        for number, length, bound, receiver in rows.tolist():
            machine = self._company.machine(length, bound, receiver, SERVER, self._draws)
            if machine is not None:
                machine.begin(Step(number))
            self._sums[number], self._receivers[number] = machine, receiver

    def _hear(self, silo: int, parcel: Parcel) -> None:
        number, messages = arrived(self._company, parcel, silo, SERVER)
        machine = self._sums.get(number)
        if machine is None:
            raise ProtocolError(f"silo {silo} must answer in a sum that is open; found {number}")
        machine.take(messages)

    def _said(self, number: int) -> Outbox:
        """What the server says in a sum; to all when it is done."""
        machine = self._sums[number]
        out = {} if machine is None else sent(self._company, number, list(machine.turn()))
        if machine is not None and not machine.over:
            return out
        del self._sums[number]
        total: Array = np.empty(0, dtype=np.int64)
        if self._receivers.pop(number) == EVERYBODY:
            assert machine is not None, "the server adds up what is for everybody"
            sums = machine.sums
            if sums is None:
                raise ProtocolError(f"sum {number} must be there when all is said; it is not")
            total = self._digits.together(sums[0])
            total = quotients(total, self._parts) if self._parts else total
            total = total >= self._least if self._least else total
        done = {silo: [Parcel(DONE, self._step, (scalar(number), total))] for silo in range(self._company.silos)}
        return joined(out, done)


def _checked_digits(digits: Array, rows: Array) -> Digits:
    """Which entries of the one sum that is opened, for everybody, are digits."""
    found = Digits(*digits.tolist())
    if found == NO_DIGITS:
        return found
    fits = found.whole >= 1 and 1 <= found.places <= _MOST_BITS and 2 <= found.bits <= _MOST_BITS
    if not fits or (len(rows), rows[0, 3]) != (1, EVERYBODY) or found.whole * found.places > rows[0, 1]:
        raise ProtocolError("digits must be those of the one sum that is opened, for everybody; they are not")
    return found
