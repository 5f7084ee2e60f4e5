"""Machines of a scheme in a program that goes in lockstep: their messages travel as parcels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from fgl_secure.errors import ProtocolError
from fgl_secure.runtime import Messages, decode, encode
from fgl_secure.runtime.machine import Machine
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import Inbox, Outbox, fitting
from fgl_secure.typing import Array, Ids

Hosted = TypeVar("Hosted", bound=Machine)


class Hosting(Generic[Hosted]):
    """The machines of one process, and what passes between them and others.

    Args:
        machines: of the parties hosted here.
        number: of this process.
        process_of: gives the numbers of the processes that host parties, int64 [m].
        session: 16 public bytes, different in every run.
        admit: hears of the senders of messages from another process before they are checked.
    """

    def __init__(
        self,
        machines: Sequence[Hosted],
        number: int,
        process_of: Callable[[Ids], Ids],
        session: bytes,
        admit: Callable[[int, Ids], None] = lambda sender, parties: None,  # noqa: ARG005  # nothing to learn
    ) -> None:
        self.machines = tuple(machines)
        self._number, self._process_of, self._session = number, process_of, session
        self._admit = admit
        self._here: list[Messages] = []

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn: machines take what has arrived, and say what leaves.

        Raises:
            ProtocolError: something that arrived is not what honest parties of its sender's process send.
        """
        arrived, self._here = self._here, []
        for messages in arrived:
            self._give(messages)
        for sender, parcels in inbox.items():
            for parcel in parcels:
                self._give(self._opened(sender, parcel))
        out: dict[int, list[Parcel]] = {}
        for leaving in [machine.turn() for machine in self.machines]:
            for messages in leaving:
                self._sort(messages, out)
        return out

    def _opened(self, sender: int, parcel: Parcel) -> Messages:
        (data,) = fitting(parcel, ("|u1", (-1,)))
        messages = decode(data.tobytes(), self._session)
        if messages.phase is not parcel.phase or messages.step != parcel.step:
            raise ProtocolError(f"party {sender} must send messages under their own phase and step; it does not")
        self._admit(sender, messages.senders)
        if (self._process_of(messages.senders) != sender).any():
            raise ProtocolError(f"party {sender} must send for devices of its own; at least one is not")
        return messages

    def _give(self, messages: Messages) -> None:
        left = len(messages)
        for machine in self.machines:
            mine = np.isin(messages.receivers, machine.parties)
            if mine.any():
                left -= int(mine.sum())
                machine.take(messages.rows(mine))
        if left:
            raise ProtocolError(f"messages of {messages.phase.label} must be for parties hosted here; {left} are not")

    def _sort(self, messages: Messages, out: dict[int, list[Parcel]]) -> None:
        to = self._process_of(messages.receivers)
        for process in np.unique(to).tolist():
            part = messages.rows(to == process)
            if process == self._number:
                self._here.append(part)
                continue
            data = np.frombuffer(encode(part, self._session), dtype=np.uint8)
            out.setdefault(process, []).append(Parcel(part.phase, part.step, (data,)))

    def state(self) -> dict[str, Array]:
        """The states of machines, and what passes between them."""
        arrays: dict[str, Array] = {}
        for n, machine in enumerate(self.machines):
            arrays |= under(f"machine{n}", dict(machine.state()))
        here = {f"here{n}": np.frombuffer(encode(m, self._session), dtype=np.uint8) for n, m in enumerate(self._here)}
        return arrays | here

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        for n, machine in enumerate(self.machines):
            machine.restore(within(f"machine{n}", state))
        self._here = []
        while f"here{len(self._here)}" in state:
            self._here.append(decode(state[f"here{len(self._here)}"].tobytes(), self._session))
