"""What a round puts around the messages of its sums: which sum it is, and with the first request what to sum."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.rules import Purpose
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.staged.envelope import packed, unpacked


@dataclass(frozen=True, slots=True)
class Opening:
    """What the server says with the first request of a sum.

    Attributes:
        layout: of the mappings.
        bounds: as found by a sum before, by name; None where they follow from the rules.
    """

    layout: Layout
    bounds: Mapping[str, float] | None

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        bounds = b"" if self.bounds is None else json.dumps(dict(self.bounds)).encode()
        return packed([self.layout.to_bytes(), bounds])

    @classmethod
    def from_bytes(cls, data: bytes) -> Opening:
        """What was written.

        Raises:
            MalformedMessageError: it is no opening, or its bounds are not one positive number for each float tensor.
        """
        layout, bounds = fields(data, 2)
        opening = cls(Layout.from_bytes(layout), _bounds(bounds) if bounds else None)
        if opening.bounds is not None and set(opening.bounds) != {entry.name for entry in opening.layout.floats}:
            raise MalformedMessageError("bounds must be given for all float tensors and for nothing else; they are not")
        return opening


@dataclass(frozen=True, slots=True)
class Request:
    """A message of the server to a client.

    Attributes:
        purpose: of the sum that it belongs to.
        opening: with the first request of a sum.
        message: of the sum itself.
    """

    purpose: Purpose
    opening: Opening | None
    message: bytes

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        opening = b"" if self.opening is None else self.opening.to_bytes()
        return packed([bytes([self.purpose]), opening, self.message])

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """What was written.

        Raises:
            MalformedMessageError: it is no request.
        """
        purpose, opening, message = fields(data, 3)
        if len(purpose) != 1 or purpose[0] not in set(Purpose):
            raise MalformedMessageError("request must say what its sum is for; it does not")
        return cls(Purpose(purpose[0]), Opening.from_bytes(opening) if opening else None, message)


def fields(data: bytes, count: int) -> list[bytes]:
    """So many packed fields.

    Raises:
        MalformedMessageError: there are more or fewer, or none of the kind.
    """
    found = unpacked(data)
    if len(found) != count:
        raise MalformedMessageError(f"message must have {count} fields; found {len(found)}")
    return found


def _bounds(data: bytes) -> dict[str, float]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError("bounds must be numbers by name; they are not") from error
    if not isinstance(found, dict) or not all(type(b) is float and math.isfinite(b) and b > 0 for b in found.values()):
        raise MalformedMessageError("bounds must be positive numbers by name; they are not")
    return found
