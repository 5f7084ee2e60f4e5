"""Arguments of callers as the numbers that they must be."""

from __future__ import annotations

import operator
from typing import Any

from fgl_secure.errors import InputError


def integer_of(value: Any, name: str) -> int:
    """An integer of any integer type.

    Raises:
        InputError: it is none; names the argument.
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise InputError(f"{name} must be an integer; found {type(value).__name__}") from error


def number_of(value: Any, name: str) -> float:
    """A number of any real type.

    Raises:
        InputError: it is none; names the argument, and shows no value.
    """
    if isinstance(value, str | bytes):
        raise InputError(f"{name} must be a number; found {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be a number; found {type(value).__name__}") from error


def list_of(value: Any, name: str) -> list[Any]:
    """The members of a collection, in its order.

    Raises:
        InputError: it is none, or goes by keys; names the argument.
    """
    if isinstance(value, dict | str | bytes):
        raise InputError(f"{name} must be a sequence; found {type(value).__name__}")
    try:
        return list(value)
    except TypeError as error:
        raise InputError(f"{name} must be a sequence; found {type(value).__name__}") from error


def bytes_of(value: Any, name: str, length: int) -> bytes:
    """So many bytes.

    Raises:
        InputError: it is something else; names the argument, and shows no value.
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InputError(f"{name} must be {length} bytes; found {type(value).__name__}")
    found = bytes(value)
    if len(found) != length:
        raise InputError(f"{name} must be {length} bytes; found {len(found)} bytes")
    return found
