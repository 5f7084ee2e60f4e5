"""What parties of one sum have in common: stages, states, checks of messages, and fields as they travel."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fgl_secure.crypto.ring import Ring
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.stepwise import CheckpointedMachine, check_arrays
from fgl_secure.runtime import Machine, MessageKind, Messages, Step
from fgl_secure.typing import Array, Bytes, Flags, Ids, Integers


def bytes_of(messages: Messages, name: str, *shape: int) -> Bytes:
    """A field of bytes, which are the same on all tapes: uint8 [m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape.
    """
    return _public(messages, name, np.dtype(np.uint8), shape)


def flags_of(messages: Messages, name: str, *shape: int) -> Flags:
    """A field of yes and no, the same on all tapes: bool [m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape.
    """
    return _public(messages, name, np.dtype(np.bool_), shape)


def elements_of(messages: Messages, name: str, ring: Ring, *shape: int) -> Integers:
    """A field of elements: int64 [*tapes, m, *shape].

    Raises:
        MalformedMessageError: it has another type or shape, or a value is no element.
    """
    value = _shaped(messages, name, ring.dtype, (*shape[:-1], ring.entries(shape[-1])))
    try:
        return ring.read(value, shape[-1])
    except MalformedMessageError as error:
        raise MalformedMessageError(f"{name} must be elements of its ring or field; {error}") from error


def laid_out(
    fields: Mapping[str, Array], elements: Mapping[str, Array], tapes: tuple[int, ...], ring: Ring
) -> dict[str, Array]:
    """Fields on all tapes: those that are the same on them, and elements of a ring as they travel."""
    public = {name: np.broadcast_to(value, (*tapes, *value.shape)) for name, value in fields.items()}
    return {**public, **{name: ring.written(value) for name, value in elements.items()}}


def each_row(machine: Machine, messages: Messages, take: Callable[[int], None]) -> None:
    """Takes messages one by one: a bad one does not stop the others.

    Args:
        machine: which takes them, and gets a remark for each that is refused beside good ones.
        messages: a batch.
        take: takes the message at a place, or raises a `ProtocolError` and leaves the machine as it was.

    Raises:
        ProtocolError: there is no good one among them; what the first was refused for.
    """
    refused: list[tuple[int, ProtocolError]] = []
    for row in range(len(messages)):
        try:
            take(row)
        except ProtocolError as error:
            refused.append((row, error))
    if refused and len(refused) == len(messages):
        for row, why in refused[1:]:
            _remark(machine, messages, row, why)
        raise refused[0][1]
    for row, why in refused:
        _remark(machine, messages, row, why)


def _remark(machine: Machine, messages: Messages, row: int, error: ProtocolError) -> None:
    sender, to = int(messages.senders[row]), int(messages.receivers[row])
    machine.remark(messages.step, sender, f"a message ({messages.phase.label}) to party {to} is refused: {error}")


def _public(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    value = _shaped(messages, name, kind, shape)
    return np.asarray(value[(0,) * messages.tape_axes])


def _shaped(messages: Messages, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    value = messages[name]
    expected = (len(messages), *shape)
    if value.dtype != kind or value.shape[messages.tape_axes :] != expected:
        raise MalformedMessageError(
            f"{name} must be {kind} {list(expected)}; found {value.dtype} {list(value.shape[messages.tape_axes :])}"
        )
    return value


class OneSumMachine(CheckpointedMachine, ABC):
    """A role in sums of one topology.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.
        owner: what names the scheme, its parameters and the role, in states.
        tape_axes: of all fields.
    """

    def __init__(self, parties: Ids, terms: OneSum, owner: bytes, tape_axes: int) -> None:
        super().__init__(parties, terms, tape_axes, owner)
        self.terms = terms
        self._sums: Array | None = None

    @property
    def sums(self) -> Array | None:
        """See `SumMachine.sums`."""
        return None if self._sums is None else self._sums.copy()

    def _started(self, step: Step) -> None:
        """Goes to a step; see `_check_new`."""
        self._check_new(step)
        self._step, self._sums = step, None

    def _unexpected_rows(self, rows: Array | None) -> None:
        if rows is not None:
            raise InputError("rows must be those of hosted clients, of whom there are none; found some")

    def _check_head(self, messages: Messages, phases: Mapping[MessageKind, Any], due: MessageKind | None) -> None:
        """Raises unless messages are of the step and phase that is due, for parties hosted here.

        Args:
            messages: as they arrived.
            phases: that this role hears at all.
            due: which of them; None where none is.
        """
        self._check_ends(messages)
        if messages.phase not in phases:
            known = ", ".join(phase.label for phase in phases)
            raise MalformedMessageError(f"messages must be {known}; found {messages.phase.label}")
        if messages.step != self.now:
            raise StaleMessageError(f"messages must be of {self.now}; found some of {messages.step}")
        if messages.phase is not due:
            what = "nothing" if due is None else due.label
            raise StaleMessageError(f"messages must be of the stage that is due, {what}; found {messages.phase.label}")

    def _check_from(self, messages: Messages, sender: int) -> None:
        if not (messages.senders == sender).all():
            raise MalformedMessageError(f"messages must be from party {sender}; at least one is not")

    def _arrays(self) -> dict[str, Array]:
        """All that changes beside the steps; here the sum."""
        empty = np.zeros((1,) * self._tape_axes + (0, 0), dtype=np.int64)
        return {"sums": empty if self._sums is None else self._sums}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        check_arrays(arrays, self._arrays())
        self._sums = arrays["sums"] if arrays["sums"].size else None
