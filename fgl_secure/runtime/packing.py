"""Strings of bytes and arrays by name, laid out one after another: no pickle, and lengths are checked before use."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime.messages import KINDS, MOST_AXES, Reader
from fgl_secure.typing import Array

Arrays = Mapping[str, Array]

MOST_STRINGS = 2**20
"""In one message. An empty one takes 8 bytes of it, and five times as many once it is an object."""

_LENGTH = struct.Struct(">Q")
_HEAD = struct.Struct(">BB")


def pack(fields: Sequence[bytes]) -> bytes:
    """Strings of bytes one after another, each behind its length in 8 bytes."""
    return b"".join(part for field in fields for part in (_LENGTH.pack(len(field)), field))


def unpack(data: bytes, count: int | None = None, *, most: int = MOST_STRINGS) -> list[bytes]:
    """What was packed.

    Args:
        data: as it arrived.
        count: how many strings there must be; None for any number.
        most: how many there may be, where their number is not given.

    Raises:
        MalformedMessageError: lengths do not add up, or there are more or fewer.
    """
    fields: list[bytes] = []
    offset, most = 0, most if count is None else count
    while offset < len(data):
        if len(fields) == most:
            raise MalformedMessageError(f"message must have {most:,} fields{'' if count else ' at most'}; found more")
        if len(data) - offset < _LENGTH.size:
            raise MalformedMessageError("message must end with its last field; it is cut")
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if length > len(data) - offset:
            raise MalformedMessageError(f"field must have the {length:,} bytes it says; found {len(data) - offset:,}")
        fields.append(data[offset : offset + length])
        offset += length
    if count is not None and len(fields) != count:
        raise MalformedMessageError(f"message must have {count} fields; found {len(fields)}")
    return fields


def array_to_bytes(array: Array) -> bytes:
    """An array behind its type and shape."""
    kind = array.dtype.newbyteorder("<").str
    assert kind in KINDS, f"{array.dtype} is not sent"
    assert array.ndim <= MOST_AXES
    shape = struct.pack(f">{array.ndim}Q", *array.shape)
    return _HEAD.pack(KINDS.index(kind), array.ndim) + shape + np.ascontiguousarray(array, dtype=kind).tobytes()


def _array_from_bytes(data: bytes) -> Array:
    """Reads an array; it cannot be written to.

    Raises:
        MalformedMessageError: it is none.
    """
    reader = Reader(data)
    kind, axes = reader.unpack(_HEAD)
    if kind >= len(KINDS) or axes > MOST_AXES:
        raise MalformedMessageError("field must have a known type and up to so many axes; it has not")
    value = reader.array(KINDS[kind], reader.shape(axes))
    reader.end()
    return value


def named_to_bytes(arrays: Arrays) -> bytes:
    """Arrays by name, as a file or a state keeps them."""
    return pack([field for name, array in arrays.items() for field in (name.encode(), array_to_bytes(array))])


def named_from_bytes(data: bytes) -> dict[str, Array]:
    """Reads arrays by name.

    Raises:
        MalformedMessageError: it is no such row, or a name is there twice.
    """
    fields = unpack(data)
    names = [name.decode("utf-8", errors="replace") for name in fields[::2]]
    if len(fields) % 2 or len(set(names)) != len(names):
        raise MalformedMessageError("arrays must each have a name of their own; at least one has not")
    return dict(zip(names, map(_array_from_bytes, fields[1::2]), strict=True))


def under(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """The arrays with a prefix before their names."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def within(prefix: str, arrays: Arrays) -> dict[str, Array]:
    """Those arrays whose names have the prefix, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
