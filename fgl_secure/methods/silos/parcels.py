"""What programs of silos send each other: arrays under a phase and a step, as bytes; nothing that could run."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.staged.envelope import packed, unpacked
from fgl_secure.runtime import Direction, Phase, Step

Array = NDArray[Any]
Arrays = Mapping[str, Array]

KINDS = ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")
"""Types of entries that travel, as numpy spells them."""
MOST_AXES = 3
MOST_ENTRIES = 2**40
"""With empty axes taken as 1: numpy refuses shapes that it cannot count, also where there is nothing to count."""

_STEP = struct.Struct(">IiBBII")
_HEAD = struct.Struct(">BB")


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """One message.

    Attributes:
        phase: what it carries.
        step: when it is sent.
        arrays: of the types in `KINDS`.
    """

    phase: Phase
    step: Step
    arrays: tuple[Array, ...]

    def to_bytes(self) -> bytes:
        """The parcel on the wire."""
        step = self.step
        backward = step.direction is Direction.BACKWARD
        head = _STEP.pack(step.round, step.layer, backward, step.evaluation, step.part, step.final)
        return packed([self.phase.name.encode(), head, *(array_to_bytes(array) for array in self.arrays)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Parcel:
        """Reads a parcel.

        Raises:
            MalformedMessageError: it is none.
        """
        fields = unpacked(data)
        if len(fields) < 2 or len(fields[1]) != _STEP.size:
            raise MalformedMessageError(f"parcel must start with a phase and a step; found {len(fields)} fields")
        name = fields[0].decode("ascii", errors="replace")
        if name not in Phase.__members__:
            raise MalformedMessageError("parcel must name a phase that is known; it does not")
        number, layer, backward, evaluation, part, final = _STEP.unpack(fields[1])
        if max(backward, evaluation, final) > 1:
            raise MalformedMessageError("parcel must say yes or no of its step as 0 or 1; it does not")
        direction = Direction.BACKWARD if backward else Direction.FORWARD
        step = Step(number, layer, direction, bool(evaluation), part, bool(final))
        return cls(Phase[name], step, tuple(array_from_bytes(field) for field in fields[2:]))


def array_to_bytes(array: Array) -> bytes:
    """An array behind its type and shape."""
    kind = array.dtype.newbyteorder("<").str
    assert kind in KINDS, f"{array.dtype} is not sent"
    assert array.ndim <= MOST_AXES
    shape = struct.pack(f">{array.ndim}Q", *array.shape)
    return _HEAD.pack(KINDS.index(kind), array.ndim) + shape + np.ascontiguousarray(array, dtype=kind).tobytes()


def array_from_bytes(data: bytes) -> Array:
    """Reads an array; it cannot be written to.

    Raises:
        MalformedMessageError: it is none.
    """
    if len(data) < _HEAD.size:
        raise MalformedMessageError("array must start with its type and its number of axes; it is cut")
    kind, axes = _HEAD.unpack_from(data)
    start = _HEAD.size + 8 * axes
    if kind >= len(KINDS) or axes > MOST_AXES or len(data) < start:
        raise MalformedMessageError("array must have a known type and its whole shape; it has not")
    shape, dtype = struct.unpack_from(f">{axes}Q", data, _HEAD.size), np.dtype(KINDS[kind])
    size = dtype.itemsize * math.prod(shape)
    if math.prod(max(length, 1) for length in shape) > MOST_ENTRIES:
        raise MalformedMessageError(f"array must have at most {MOST_ENTRIES:,} entries, empty axes aside; it has more")
    if size != len(data) - start:
        raise MalformedMessageError(f"array must have the {size:,} bytes of its shape; found {len(data) - start:,}")
    if KINDS[kind] == "|b1" and max(data[start:], default=0) > 1:
        raise MalformedMessageError("array of yes and no must hold 0 and 1 alone; it does not")
    return np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)


def parcels_to_bytes(parcels: Sequence[Parcel]) -> bytes:
    """Parcels for one receiver."""
    return packed([parcel.to_bytes() for parcel in parcels])


def parcels_from_bytes(data: bytes) -> tuple[Parcel, ...]:
    """What one sender sent.

    Raises:
        MalformedMessageError: it is no row of parcels.
    """
    return tuple(Parcel.from_bytes(field) for field in unpacked(data))


def named_to_bytes(arrays: Arrays) -> bytes:
    """Arrays by name, as a file or a state keeps them."""
    return packed([field for name, array in arrays.items() for field in (name.encode(), array_to_bytes(array))])


def named_from_bytes(data: bytes) -> dict[str, Array]:
    """Reads arrays by name.

    Raises:
        MalformedMessageError: it is no such row, or a name is there twice.
    """
    fields = unpacked(data)
    names = [name.decode("utf-8", errors="replace") for name in fields[::2]]
    if len(fields) % 2 or len(set(names)) != len(names):
        raise MalformedMessageError("arrays must each have a name of their own; at least one has not")
    return dict(zip(names, map(array_from_bytes, fields[1::2]), strict=True))


def under(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays with a prefix before their names."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def within(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """Those arrays whose names have the prefix, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
