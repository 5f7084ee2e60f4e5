"""What programs of silos send each other: arrays under a phase and a step, as bytes; nothing that could run."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Direction, MessageKind, Step
from fgl_secure.runtime.packing import array_from_bytes, array_to_bytes, packed, unpacked
from fgl_secure.typing import Array

_STEP = struct.Struct(">IiBBII")


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """One message.

    Attributes:
        phase: what it carries.
        step: when it is sent.
        arrays: of types that travel.
    """

    phase: MessageKind
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
        phase = MessageKind.named(name)
        if phase is None:
            raise MalformedMessageError("parcel must name a phase that is known; it does not")
        number, layer, backward, evaluation, part, final = _STEP.unpack(fields[1])
        if max(backward, evaluation, final) > 1:
            raise MalformedMessageError("parcel must say yes or no of its step as 0 or 1; it does not")
        direction = Direction.BACKWARD if backward else Direction.FORWARD
        step = Step(number, layer, direction, bool(evaluation), part, bool(final))
        return cls(phase, step, tuple(array_from_bytes(field) for field in fields[2:]))


def parcels_to_bytes(parcels: Sequence[Parcel]) -> bytes:
    """Parcels for one receiver."""
    return packed([parcel.to_bytes() for parcel in parcels])


def parcels_from_bytes(data: bytes) -> tuple[Parcel, ...]:
    """What one sender sent.

    Raises:
        MalformedMessageError: it is no row of parcels.
    """
    return tuple(Parcel.from_bytes(field) for field in unpacked(data))
