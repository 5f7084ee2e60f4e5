"""The server of programs of silos: it leads the sums that they open, and knows nothing else of what they do."""

from __future__ import annotations

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.silos.parcels import Array, Parcel
from fgl_secure.methods.silos.program import Inbox, Outbox, fitting, joined, only
from fgl_secure.methods.silos.sums import EVERYBODY, OPENING, Company
from fgl_secure.protocols.staged.envelope import stage_of
from fgl_secure.protocols.staged.interface import StagedServer
from fgl_secure.protocols.staged.recorded import PHASES
from fgl_secure.runtime import Phase, Step


class SumServer:
    """The server's part in a run.

    Args:
        company: who adds up, and how.
        coins: its own.
    """

    def __init__(self, company: Company, coins: Coins) -> None:
        self._company, self._coins = company, coins
        self._step = Step(0)
        self._receivers: dict[int, int] = {}
        self._sums: dict[int, StagedServer] = {}

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
        elif self._sums:
            self._receive(inbox)
        return joined(*(self._message(number) for number in list(self._sums)))

    def _open(self, inbox: Inbox) -> None:
        if self._sums:
            raise ProtocolError(f"silos must end their sums before they open others; {len(self._sums)} are open")
        asked = [only(inbox, silo, OPENING) for silo in range(self._company.silos)]
        (rows,) = fitting(asked[0], ("<i8", (-1, 4)))
        self._step = asked[0].step
        for silo, parcel in enumerate(asked):
            if not np.array_equal(fitting(parcel, ("<i8", (-1, 4)))[0], rows) or parcel.step != self._step:
                raise ProtocolError(f"silos must open the same sums; those of silos 0 and {silo} differ")
        for number, length, bound, receiver in rows.tolist():
            terms = self._company.terms(number, length, bound)
            self._company.scheme.check(terms)
            self._sums[number] = self._company.scheme.server(terms, self._coins)
            self._receivers[number] = receiver

    def _receive(self, inbox: Inbox) -> None:
        for silo, parcels in inbox.items():
            for parcel in parcels:
                if parcel.phase not in PHASES.values():
                    continue
                number, message = fitting(parcel, ("<i8", ()), ("|u1", (-1,)))
                if int(number) not in self._sums:
                    raise ProtocolError(f"silo {silo} must answer in a sum that is open; found {int(number)}")
                self._sums[int(number)].receive(silo, message.tobytes())
        for leader in self._sums.values():
            leader.advance()

    def _message(self, number: int) -> Outbox:
        leader, label = self._sums[number], np.asarray(number, dtype=np.int64)
        if leader.stage is None:
            del self._sums[number]
            return self._result(leader.result(), label, self._receivers.pop(number))
        requests = leader.requests().items()
        return {silo: [self._request(label, message)] for silo, message in requests}

    def _request(self, label: Array, message: bytes) -> Parcel:
        return Parcel(PHASES[stage_of(message)], self._step, (label, np.frombuffer(message, dtype=np.uint8)))

    def _result(self, total: Array, label: Array, receiver: int) -> Outbox:
        """The sum to those who are entitled to it; the others hear that it is done."""
        phase = Phase.VECTOR_SUMS if receiver == EVERYBODY else Phase.MASKED_SUMS
        told = {silo: total if receiver in (EVERYBODY, silo) else total[:0] for silo in range(self._company.silos)}
        return {silo: [Parcel(phase, self._step, (label, each))] for silo, each in told.items()}
