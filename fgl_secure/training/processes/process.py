"""Processes of parties that go in lockstep: each takes what has arrived, and says what leaves.

A program keeps nothing but arrays between two turns, so that it can be put down after each of them and taken up in
another process: Flower gives no promise that one process serves two messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from fgl_secure.errors import ProtocolError
from fgl_secure.runtime import MessageKind
from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.typing import Array

SERVER = 2**32 - 1
"""Stands for the server among senders and receivers, where silos and relays go by their numbers."""

Inbox = Mapping[int, Sequence[Parcel]]
"""By sender: a silo or a relay by its number, or SERVER."""
Outbox = Mapping[int, Sequence[Parcel]]
"""By receiver."""

NOTHING: Outbox = {}


class Part(ABC):
    """A part of a program that goes on for some turns."""

    @abstractmethod
    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn.

        Args:
            inbox: what has arrived since the last one.

        Returns:
            What leaves; None when the part is over, and nothing leaves.

        Raises:
            ProtocolError: what has arrived is not what is due.
        """

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """All that changes, as arrays by name; secret, for this party alone."""

    @abstractmethod
    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""


class Process(ABC):
    """What one party does from the first turn to the last."""

    @abstractmethod
    def turn(self, inbox: Inbox) -> Outbox:
        """One turn; the first one finds nothing in the inbox."""

    @property
    @abstractmethod
    def report(self) -> dict[str, Array] | None:
        """What the party found in the end, for whoever started it; None until then, and for relays."""

    @property
    def found(self) -> dict[str, Array] | None:
        """The report as it is, after a turn in which a round has ended; None after others."""
        return self.report

    @property
    def due(self) -> str:
        """The collective that the party waits for, in words that everybody may read; empty where there is none."""
        return ""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """All that changes, as arrays by name; secret, for this party alone."""

    @abstractmethod
    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Lets go of threads; a state that was taken before is as good as it was."""


def joined(*outboxes: Outbox) -> Outbox:
    """Several outboxes as one."""
    out: dict[int, list[Parcel]] = {}
    for outbox in outboxes:
        for receiver, parcels in outbox.items():
            out.setdefault(receiver, []).extend(parcels)
    return out


def only(inbox: Inbox, sender: int, phase: MessageKind) -> Parcel:
    """The one parcel of a phase from a sender.

    Raises:
        ProtocolError: there is none, or more than one.
    """
    found = [parcel for parcel in inbox.get(sender, ()) if parcel.phase is phase]
    if len(found) != 1:
        raise ProtocolError(f"party {sender} must send one message of {phase.label}; found {len(found)}")
    return found[0]


def fitting(parcel: Parcel, *wanted: tuple[str, tuple[int, ...]]) -> tuple[Array, ...]:
    """The arrays of a parcel, which must have these types and shapes.

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
    """A number as an array that a state may hold: int64 or float64, without axes."""
    return np.asarray(value, dtype=np.int64 if isinstance(value, int) else np.float64)
