"""What server and clients of a round say: which sum it is, at first what is summed, and the messages of machines."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.limits import DEFAULT_LIMITS, Limits
from fgl_secure.aggregation.purposes import Found, Purpose
from fgl_secure.aggregation.withheld import read_entries
from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Messages, decode, encode
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import packed, unpacked

_HEAD = struct.Struct(f">{SESSION_BYTES}sIB")


@dataclass(frozen=True, slots=True)
class Opening:
    """What the server says with the first request of a sum.

    Attributes:
        layout: of the mappings.
        found: by the sums before.
    """

    layout: Layout
    found: Found

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        bounds = b"" if self.found.bounds is None else json.dumps(dict(self.found.bounds)).encode()
        return packed([self.layout.to_bytes(), bounds, self.found.opened or b""])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> Opening:
        """What was written.

        Args:
            data: as it arrived.
            limits: of the party that reads it.

        Raises:
            MalformedMessageError: it is no opening, is beyond a limit, its bounds are not one positive number for
                each float tensor, or it opens other entries than there are.
        """
        written, bounds, opened = unpacked(data, 3)
        limits.check_layout(bounds)
        layout, found = Layout.from_bytes(written, limits), _bounds(bounds) if bounds else None
        if found is not None and set(found) != {entry.name for entry in layout.floats}:
            raise MalformedMessageError("bounds must be given for all float tensors and for nothing else; they are not")
        if opened:
            read_entries(opened, layout.size)
        return cls(layout, Found(found, opened or None))


@dataclass(frozen=True, slots=True)
class Request:
    """A message of the server to a client.

    Attributes:
        session: 16 public bytes.
        number: of the round in the session.
        purpose: of the sum that it belongs to.
        opening: with the first request of a sum.
        batches: messages of the machines, as bytes; none in a first request.
    """

    session: bytes
    number: int
    purpose: Purpose
    opening: Opening | None
    batches: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        opening = b"" if self.opening is None else self.opening.to_bytes()
        head = _HEAD.pack(self.session, self.number, self.purpose)
        return packed([head, opening, packed(self.batches)])

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> Request:
        """What was written.

        Args:
            data: as it arrived.
            limits: of the party that reads it.

        Raises:
            MalformedMessageError: it is no request, or beyond a limit.
        """
        limits.check_message(data)
        head, opening, batches = unpacked(data, 3)
        if len(head) != _HEAD.size or head[-1] not in set(Purpose):
            raise MalformedMessageError("request must say of which round its sum is, and what it is for; it does not")
        session, number, purpose = _HEAD.unpack(head)
        read = Opening.from_bytes(opening, limits) if opening else None
        return cls(session, number, Purpose(purpose), read, tuple(unpacked(batches, most=limits.batches)))


def batches_to_bytes(batches: Iterable[Messages], session: bytes) -> tuple[bytes, ...]:
    """Messages of a machine, a string for each batch."""
    return tuple(encode(messages, session) for messages in batches)


def batches_from_bytes(data: Iterable[bytes], session: bytes, sender: int, receiver: int) -> list[Messages]:
    """The messages that one party sent another.

    Raises:
        MalformedMessageError: they are none, or from or for somebody else.
        StaleMessageError: they are of another session.
    """
    found = [decode(each, session) for each in data]
    for messages in found:
        if not ((messages.senders == sender).all() and (messages.receivers == receiver).all()):
            raise MalformedMessageError("messages must be from who sent them, for who gets them; at least one is not")
    return found


def _bounds(data: bytes) -> dict[str, float]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError("bounds must be numbers by name; they are not") from error
    if not isinstance(found, dict) or not all(type(b) is float and math.isfinite(b) and b > 0 for b in found.values()):
        raise MalformedMessageError("bounds must be positive numbers by name; they are not")
    return found
