"""Fields of pairwise-masking messages as bytes, and back with every length and range checked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.crypto.prg import word_of
from fgl_secure.errors import MalformedMessageError, ProtocolError

_NUMBER = np.dtype("<u4")


def client_bytes(clients: Sequence[int]) -> bytes:
    """Client numbers, 4 bytes each, little-endian."""
    return np.array(clients, dtype=_NUMBER).tobytes()


def clients_from(data: bytes, among: Collection[int], what: str) -> list[int]:
    """Client numbers, which must ascend and be among some.

    Raises:
        MalformedMessageError: they do not ascend, or are cut.
        ProtocolError: one is not among those it may be among.
    """
    if len(data) % _NUMBER.itemsize:
        raise MalformedMessageError(f"{what} must have 4 bytes each; found {len(data)} bytes")
    found: list[int] = np.frombuffer(data, dtype=_NUMBER).tolist()
    if any(a >= b for a, b in itertools.pairwise(found)):
        raise MalformedMessageError(f"{what} must be named once each, in ascending order; they are not")
    strangers = sorted(set(found) - set(among))
    if strangers:
        raise ProtocolError(f"{what} must be clients that this stage allows; found client {strangers[0]}")
    return found


def rows_from(data: bytes, count: int, size: int, what: str) -> list[bytes]:
    """So many rows of so many bytes.

    Raises:
        MalformedMessageError: there are more or fewer bytes.
    """
    if len(data) != count * size:
        raise MalformedMessageError(f"{what} must have {count} * {size} bytes; found {len(data)}")
    return [data[at : at + size] for at in range(0, len(data), size)]


def element_bytes(field: PrimeField, values: NDArray[Any]) -> bytes:
    """Elements in the least words that hold them, little-endian."""
    word, _ = word_of(field.modulus)
    return values.astype(word, copy=False).tobytes()


def elements_from(field: PrimeField, data: bytes, shape: tuple[int, ...], what: str) -> Elements:
    """Elements of a given shape, of the field's dtype.

    Raises:
        MalformedMessageError: there are more or fewer, or a value is no element.
    """
    word, _ = word_of(field.modulus)
    size = math.prod(shape) * word.itemsize
    if len(data) != size:
        raise MalformedMessageError(f"{what} must have {size} bytes; found {len(data)}")
    values = np.frombuffer(data, dtype=word)
    if values.size and int(values.max()) >= field.modulus:
        raise MalformedMessageError(f"{what} must be elements of the field; found others")
    return values.astype(field.dtype).reshape(shape)
