"""Check callers' arguments, and convert them to the types that the aggregation computes with."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import torch

from fgl_secure.errors import InputError


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


def flag_of(value: Any, name: str) -> bool:
    """Return a truth value of Python or numpy, or 0 or 1, as a bool: text that says "no" would count as true.

    Raises:
        InputError: it is none; names the argument.
    """
    if not isinstance(value, bool | np.bool_) and not (type(value) is int and value in (0, 1)):
        raise InputError(f"{name} must be True or False; found {type(value).__name__}")
    return bool(value)


def check_kind(value: Any, kind: Any, name: str, remedy: str = "") -> None:
    """Check that a value is of a class.

    Raises:
        InputError: it is of another one; names the argument, both classes and the remedy.
    """
    if not isinstance(value, kind):
        found = type(value).__name__ + (f": {remedy}" if remedy else "")
        raise InputError(f"{name} must be a {kind.__name__}; found {found}")


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
        wanted = "bytes" if length is None else f"{length} bytes"
        raise InputError(f"{name} must be {wanted}; found {type(value).__name__}")
    found = bytes(value)
    if length is not None and len(found) != length:
        raise InputError(f"{name} must be {length} bytes; found {len(found)} bytes")
    return found
