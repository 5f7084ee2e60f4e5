"""Fields of messages as their receivers find them: of the type and shape that they must have, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.ring import Ring
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.runtime import Machine, Messages

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]


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
