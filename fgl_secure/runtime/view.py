"""What a coalition saw. An attack gets this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.runtime.machine import Directory
from fgl_secure.runtime.messages import PAYLOAD
from fgl_secure.runtime.phase import Direction, MessageKind, Step


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedRows:
    """Messages that reached the observers, one row a message.

    Attributes:
        phase: what they carry.
        step: when they were sent.
        observers: int64 [m], which observer received each; 0 throughout for one coalition.
        senders: int64 [m], party identifiers.
        receivers: int64 [m], party identifiers.
        item_bytes: payload size of one message in bytes.
        fields: by name, [*batch, m, ...], or None where only sizes were recorded.
    """

    phase: MessageKind
    step: Step
    observers: NDArray[np.int64]
    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    item_bytes: int
    fields: Mapping[str, NDArray[Any]] | None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A field.

        Raises:
            InputError: it was not recorded, or there is none of that name.
        """
        if self.fields is None or name not in self.fields:
            raise InputError(f"messages of {self.phase.label} must have the field {name} recorded; they have not")
        return self.fields[name]

    @property
    def payload(self) -> NDArray[Any] | None:
        """The field of messages that have one alone; None where only sizes were recorded."""
        return None if self.fields is None else self.fields[PAYLOAD]


@dataclass(frozen=True, slots=True, eq=False)
class PrivateRows:
    """Inputs, coins or outputs of the observers themselves: values [*batch, m, ...] of owners [m]."""

    kind: str
    name: str
    step: Step
    observers: NDArray[np.int64]
    owners: NDArray[np.int64]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The rows of a transcript that a coalition may know.

    A view holds the observers' own rows, read-only, and no reference to the transcript, the graph or other parties'
    inputs.
    `Transcript.views` puts the views of many separate observers side by side: then a conclusion about observer i may
    rest on rows of observer i only, and an attack joins its tables on the `observers` column.

    Attributes:
        name: who observes, in words.
        parties: numbering of the parties (public).
        received: messages that reached the observers.
        private: inputs, coins and outputs of the observers.
    """

    name: str
    parties: Directory
    received: tuple[ReceivedRows, ...]
    private: tuple[PrivateRows, ...]

    def messages(
        self,
        phase: MessageKind,
        *,
        direction: Direction | None = None,
        round: int | None = None,  # noqa: A002  # the field's word for it
        layer: int | None = None,
    ) -> tuple[ReceivedRows, ...]:
        """Received rows of one phase whose payload was recorded, in order; None means any."""
        return tuple(
            rows
            for rows in self.received
            if rows.phase is phase
            and rows.fields is not None
            and direction in (None, rows.step.direction)
            and round in (None, rows.step.round)
            and layer in (None, rows.step.layer)
        )

    def own(self, name: str) -> tuple[PrivateRows, ...]:
        """Inputs, coins or outputs of a name, in order."""
        return tuple(rows for rows in self.private if rows.name == name)
