"""Processes of parties that go in lockstep: each takes what has arrived, and says what leaves.

A program keeps nothing but arrays between two turns, so that it can be put down after each of them and taken up in
another process: Flower gives no promise that one process serves two messages. Processes send each other parcels, in the
codec of all messages; those of a scheme's machines travel in them as bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.runtime import MessageKind, Messages, Step, decode, encode
from fgl_secure.runtime.machine import Machine
from fgl_secure.runtime.packing import Arrays, packed, under, unpacked, within
from fgl_secure.typing import Array, Ids

SERVER = 2**32 - 1
"""Stands for the server among senders and receivers, where silos and relays go by their numbers."""
_NOBODY = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """One message between processes: arrays under a phase and a step.

    Attributes:
        phase: what it carries.
        step: when it is sent.
        arrays: of types that travel, with up to 3 axes.
    """

    phase: MessageKind
    step: Step
    arrays: tuple[Array, ...]

    def to_bytes(self) -> bytes:
        """Return the parcel on the wire: a batch of one message, whose ends the transport knows."""
        fields = {str(place): array[None] for place, array in enumerate(self.arrays)}
        return encode(Messages(self.phase, self.step, _NOBODY, _NOBODY, fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Parcel:
        """Read a parcel.

        Raises:
            MalformedMessageError: it is none.
        """
        found = decode(data)
        if len(found) != 1 or list(found.fields) != [str(place) for place in range(len(found.fields))]:
            raise MalformedMessageError("parcel must be one message with numbered arrays; it is not")
        return cls(found.phase, found.step, tuple(value[0] for value in found.fields.values()))


Inbox = Mapping[int, Sequence[Parcel]]
"""By sender: a silo or a relay by its number, or SERVER."""
Outbox = Mapping[int, Sequence[Parcel]]
"""By receiver."""
NOTHING: Outbox = {}


def parcels_to_bytes(parcels: Sequence[Parcel]) -> bytes:
    """Return parcels for one receiver as bytes."""
    return packed([parcel.to_bytes() for parcel in parcels])


def parcels_from_bytes(data: bytes) -> tuple[Parcel, ...]:
    """Read what one sender sent.

    Raises:
        MalformedMessageError: it is no row of parcels.
    """
    return tuple(Parcel.from_bytes(field) for field in unpacked(data))


def joined(*outboxes: Outbox) -> Outbox:
    """Return several outboxes as one."""
    out: dict[int, list[Parcel]] = {}
    for outbox in outboxes:
        for receiver, parcels in outbox.items():
            out.setdefault(receiver, []).extend(parcels)
    return out


def only(inbox: Inbox, sender: int, phase: MessageKind) -> Parcel:
    """Return the one parcel of a phase from a sender.

    Raises:
        ProtocolError: there is none, or more than one.
    """
    found = [parcel for parcel in inbox.get(sender, ()) if parcel.phase is phase]
    if len(found) != 1:
        raise ProtocolError(f"party {sender} must send one message of {phase.label}; found {len(found)}")
    return found[0]


def fitting(parcel: Parcel, *wanted: tuple[str, tuple[int, ...]]) -> tuple[Array, ...]:
    """Return the arrays of a parcel, which must have these types and shapes.

    Args:
        parcel: what arrived.
        wanted: type and shape of each array; -1 stands for any length.

    Raises:
        ProtocolError: they have not.
    """
    found = [(array.dtype.str, array.shape) for array in parcel.arrays]
    fits = len(found) == len(wanted) and all(
        kind == type_ and len(shape) == len(form) and all(f in (-1, s) for f, s in zip(form, shape, strict=True))
        for (kind, shape), (type_, form) in zip(found, wanted, strict=True)
    )
    if not fits:
        raise ProtocolError(f"message of {parcel.phase.label} must hold arrays {list(wanted)}; found {found}")
    return parcel.arrays


def scalar(value: int | float) -> Array:
    """Return a number as an array that a state may hold: int64 or float64, without axes."""
    return np.asarray(value, dtype=np.int64 if isinstance(value, int) else np.float64)


class Process(ABC):
    """What one party does from the first turn to the last."""

    @abstractmethod
    def turn(self, inbox: Inbox) -> Outbox:
        """Have one turn; the first one finds nothing in the inbox."""

    @property
    def report(self) -> dict[str, Array] | None:
        """What the party found in the end; None until then, and for relays."""
        return None

    @property
    def found(self) -> dict[str, Array] | None:
        """The report as it is, after a turn in which a round has ended; None after others."""
        return self.report

    @property
    def due(self) -> str:
        """The collective that the party waits for, in words that all may read; empty where there is none."""
        return ""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return all that changes, as arrays by name; secret, for this party alone."""

    @abstractmethod
    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of threads; a state that was taken before is as good as it was."""


_Hosted = TypeVar("_Hosted", bound=Machine)


class Hosting(Generic[_Hosted]):
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
        machines: Sequence[_Hosted],
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
        """Have one turn: machines take what has arrived, and say what leaves.

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
        """Return the states of machines, and what passes between them."""
        arrays: dict[str, Array] = {}
        for n, machine in enumerate(self.machines):
            arrays |= under(f"machine{n}", dict(machine.state()))
        here = {f"here{n}": np.frombuffer(encode(m, self._session), dtype=np.uint8) for n, m in enumerate(self._here)}
        return arrays | here

    def restore(self, state: Arrays) -> None:
        """Go on where a state was taken."""
        for n, machine in enumerate(self.machines):
            machine.restore(within(f"machine{n}", state))
        self._here = []
        while f"here{len(self._here)}" in state:
            self._here.append(decode(state[f"here{len(self._here)}"].tobytes(), self._session))
