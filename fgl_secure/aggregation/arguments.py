"""What callers pass and peers send, checked: kinds of arguments, and limits on what is read of a message."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from fgl_secure.errors import InputError, MalformedMessageError


def integer_of(value: Any, name: str) -> int:
    """Return an integer of any integer type; truth values are none.

    Raises:
        InputError: it is none; names the argument.
    """
    if isinstance(value, bool):
        raise InputError(f"{name} must be an integer; found bool")
    try:
        return operator.index(value)
    except (TypeError, RuntimeError) as error:  # torch raises RuntimeError for tensors without data
        raise InputError(f"{name} must be an integer; found {type(value).__name__}") from error


def number_of(value: Any, name: str) -> float:
    """Return a number of any real type, also from an array or tensor that has one entry.

    Raises:
        InputError: it is none; names the argument, and shows no value.
    """
    kind = type(value).__name__
    try:
        number = value.item() if isinstance(value, np.ndarray | torch.Tensor) else value
        if isinstance(number, str | bytes) or value is np.ma.masked:
            raise TypeError
        return float(number)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(f"{name} must be a number; found {kind}") from error


def check_kind(value: Any, kind: Any, name: str, remedy: str = "") -> None:
    """Check that a value is of a class.

    Raises:
        InputError: it is of another one; names the argument, both classes and the remedy.
    """
    if not isinstance(value, kind):
        result = type(value).__name__ + (f": {remedy}" if remedy else "")
        raise InputError(f"{name} must be a {kind.__name__}; found {result}")


def list_of(value: Any, name: str) -> list[Any]:
    """Return a list of what a collection has for each client, in its order.

    Raises:
        InputError: it is no collection, is a model, or has no order of clients; names the argument.
    """
    kind, remedy = type(value).__name__, ""
    if isinstance(value, torch.nn.Module):
        kind, remedy = f"a {kind}", ": pass a list of state dicts"
    elif isinstance(value, Mapping):
        kind = f"a {kind} with {len(value)} key{'' if len(value) == 1 else 's'}"
        arrays = any(isinstance(one, np.ndarray | torch.Tensor) for one in value.values())
        remedy = ": pass a list of such mappings" if arrays else f": pass list({name}.values())"
    elif isinstance(value, Set):
        kind, remedy = f"a {kind}, which has no order of clients", ": pass a list"
    elif not isinstance(value, str | bytes):
        try:
            return list(value)
        except TypeError:  # no collection at all, or an array or tensor without axes
            pass
    raise InputError(f"{name} must be a list, one for each client; found {kind}{remedy}")


def bytes_of(value: Any, name: str, length: int | None = None) -> bytes:
    """Return bytes, of the length that is given.

    Raises:
        InputError: it is something else; names the argument, and shows no value.
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        expected = "bytes" if length is None else f"{length} bytes"
        raise InputError(f"{name} must be {expected}; found {type(value).__name__}")
    result = bytes(value)
    if length is not None and len(result) != length:
        raise InputError(f"{name} must be {length} bytes; found {len(result)} bytes")
    return result


@dataclass(frozen=True, slots=True)
class Limits:
    """What a party of an aggregation accepts at most; each party has its own, and they need not agree.

    Attributes:
        clients: of a round. Along a complete graph, or with coded masks, a client works through a table of
            clients^2 entries, so that the number costs memory before any party has sent a key.
        entries: numbers in all tensors of a mapping together.
        tensors: in a mapping.
        depth: keys in the path of a tensor.
        path_bytes: of one path, its keys in UTF-8 joined by dots.
        layout_bytes: of a layout, and of ranges by name, as they travel.
        message_bytes: of a request or an answer.
        batches: of machines' messages in one request or answer.

    Raises:
        InputError: a limit below 1.
    """

    clients: int = 2**11
    entries: int = 2**32
    tensors: int = 2**14
    depth: int = 32
    path_bytes: int = 2**10
    layout_bytes: int = 2**21
    message_bytes: int = 2**31
    batches: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, integer_of(getattr(self, field.name), field.name))
            if getattr(self, field.name) < 1:
                raise InputError(f"{field.name} must be at least 1; found {getattr(self, field.name)}")

    def check_clients(self, clients: int) -> None:
        """Raises `InputError` for more clients than these."""
        if clients > self.clients:
            raise InputError(f"clients must number at most {self.clients:,}, this party's limit; found {clients:,}")

    def check_message(self, data: bytes) -> None:
        """Raises `MalformedMessageError` for more bytes than a message may have."""
        _check("message", len(data), self.message_bytes, "bytes")

    def check_layout(self, data: bytes) -> None:
        """Raises `MalformedMessageError` for more bytes than layouts, or ranges by name, may have."""
        _check("layout", len(data), self.layout_bytes, "bytes")

    def check_path(self, path: list[str]) -> None:
        """Raises `MalformedMessageError` for more keys, or longer ones, than the path of a tensor may have."""
        _check("path of a tensor", len(path), self.depth, "keys")
        _check("path of a tensor", len(".".join(path).encode(errors="surrogatepass")), self.path_bytes, "bytes")

    def check_sizes(self, tensors: int, entries: int) -> None:
        """Raises `MalformedMessageError` for more tensors, or more numbers in all of them, than a mapping may have."""
        _check("layout", tensors, self.tensors, "tensors")
        _check("layout", entries, self.entries, "entries")


def _check(name: str, result: int, most: int, unit: str) -> None:
    if result > most:
        raise MalformedMessageError(f"{name} must have at most {most:,} {unit}, this party's limit; found {result:,}")


DEFAULT_LIMITS = Limits()
"""2,048 clients, 2^32 numbers in 16,384 tensors at a depth of 32."""
