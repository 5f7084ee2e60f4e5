"""From what callers hand over to what JSON can hold, or a clear refusal."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TypeAlias, TypeGuard

import numpy as np

from fgl_secure.errors import InputError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def plain(value: object, where: str) -> Json:
    """A deep copy of `value` made of dict, list, str, int, float, bool and None alone.

    Args:
        value: mappings with text keys, lists, tuples, numpy arrays and scalars of these.
        where: the name of the value, for the message.

    Raises:
        InputError: for NaN, an infinity, a key that is no text, or any other type.
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), where)
    if isinstance(value, Mapping):
        return plain_mapping(value, where)
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    return _plain_scalar(value, where)


def plain_mapping(value: object, where: str) -> dict[str, Json]:
    """Like `plain`, for a value that must be a mapping with text keys.

    Raises:
        InputError: as `plain`, and when the value is no mapping.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping; found {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{where} must have text keys; found {key!r}")
    return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is an int or a float, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain_scalar(value: object, where: str) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    raise InputError(f"{where} must be text, a finite number, a truth value or None; found {value!r}")
