"""Fields of messages of staged sums under CKKS: of fixed size, whatever the keys and vectors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.staged.ciphertexts.plan import FRAME_BYTES, CkksPlan
from fgl_secure.protocols.staged.interface import Integers

_FRAME = struct.Struct(">II")
_LENGTH_BYTES = 4
_ENTRY = np.dtype("<i8")


def padded(data: bytes, size: int) -> bytes:
    """Length, data, and zeros up to a size."""
    assert len(data) <= size - _LENGTH_BYTES, "sizes are chosen to hold what they are for"
    return len(data).to_bytes(_LENGTH_BYTES) + data.ljust(size - _LENGTH_BYTES, b"\0")


def unpadded(field: bytes, size: int, what: str) -> bytes:
    """What was padded.

    Raises:
        MalformedMessageError: it is not of that size, or says that it is longer than it is.
    """
    length = int.from_bytes(field[:_LENGTH_BYTES])
    if len(field) != size or length > size - _LENGTH_BYTES:
        raise MalformedMessageError(f"{what} must have {size:,} bytes, padding included; found {len(field):,}")
    return field[_LENGTH_BYTES : _LENGTH_BYTES + length]


def ciphertext_field(plan: CkksPlan, ciphertexts: Sequence[bytes]) -> bytes:
    """A vector's ciphertexts, each in a frame of one size."""
    return framed(enumerate(ciphertexts), plan.ciphertexts, plan.frame_bytes).tobytes()


def ciphertexts_from(plan: CkksPlan, field: bytes) -> list[bytes]:
    """The ciphertexts of a vector.

    Raises:
        MalformedMessageError: there are more or fewer, they are out of order, or one is cut.
    """
    size, count = plan.frame_bytes, plan.ciphertexts
    if len(field) != size * count:
        raise MalformedMessageError(f"ciphertexts must have {count} * {size:,} bytes; found {len(field):,}")
    try:
        found = [unframe(field[at : at + size], size) for at in range(0, len(field), size)]
    except ProtocolError as error:
        raise MalformedMessageError(str(error)) from error
    if [place for place, _ in found] != list(range(count)):
        raise MalformedMessageError(f"ciphertexts must come in the order of their {count} places; they do not")
    return [data for _, data in found]


def integer_field(vector: Integers) -> bytes:
    """A vector, 8 bytes an entry."""
    return vector.astype(_ENTRY).tobytes()


def integers_from(field: bytes, length: int, bound: int, what: str) -> Integers:
    """The vector in a field: int64 [length].

    Raises:
        MalformedMessageError: it has another length, or an entry is beyond the bound.
    """
    if len(field) != length * _ENTRY.itemsize:
        raise MalformedMessageError(f"{what} must have {length * _ENTRY.itemsize:,} bytes; found {len(field):,}")
    found: Integers = np.frombuffer(field, dtype=_ENTRY).astype(np.int64)
    if int(found.max()) > bound or int(found.min()) < -bound:
        raise MalformedMessageError(f"{what} must have magnitude up to {bound:,}; at least one entry is beyond it")
    return found


def framed(messages: Iterator[tuple[int, bytes]], count: int, size: int) -> NDArray[np.uint8]:
    """uint8 [count, size]: the next messages, each position and length, then ciphertext and zeros: all of one size.

    Args:
        messages: positions in the vector and ciphertexts, of which `count` are taken.
        count: how many.
        size: bytes of each.
    """
    rows = np.zeros((count, size), dtype=np.uint8)
    for row, (position, data) in zip(rows, messages, strict=False):  # rows come first: no message is lost at the end
        content = _FRAME.pack(position, len(data)) + data
        row[: len(content)] = np.frombuffer(content, dtype=np.uint8)
    return rows


def unframe(message: bytes, size: int) -> tuple[int, bytes]:
    """Position and ciphertext of a framed message.

    Raises:
        ProtocolError: it has another size, or says that it is longer than it is.
    """
    if len(message) != size:
        raise ProtocolError(f"message must have {size:,} bytes; found {len(message):,}")
    position, length = _FRAME.unpack_from(message)
    if length > size - FRAME_BYTES:
        raise ProtocolError(f"message must hold up to {size - FRAME_BYTES:,} bytes of ciphertext; found {length:,}")
    return position, message[FRAME_BYTES : FRAME_BYTES + length]
