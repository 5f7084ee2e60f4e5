"""Choices as fields of frozen dataclasses: what each means, and which values it takes, beside its default.

A configuration is checked when it is made, from what its fields say, and a command line makes its options from the
same fields. Nothing heavy is imported here: `--help` and bad usage answer at once.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fgl_secure.errors import InputError, UnknownNameError

Known = tuple[str, ...] | Callable[[], tuple[str, ...]]

_KEY = "choice"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a field says of itself.

    Attributes:
        says: its meaning, in words that fit into a table of options.
        known: values that it may take, or what tells them when it is asked; empty for any of its type.
        least: smallest number that it may be; None for no bound.
        above: number that it must exceed; None for no such bound.
        option: its name on the command line where that isn't the field's.
        shown: what stands for its value in a table of options.
        prefix: what the options of a part begin with, for a field that is a configuration itself; empty for others.
        part: that configuration, whose first field must be given for the part to be there.
    """

    says: str
    known: Known = ()
    least: int | None = None
    above: int | None = None
    option: str = ""
    shown: str = ""
    prefix: str = ""
    part: type | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The values that it may take now; empty for any of its type."""
        return self.known() if callable(self.known) else self.known


def choice(
    default: Any,  # of the field's own type
    says: str,
    *,
    known: Known = (),
    least: int | None = None,
    above: int | None = None,
    option: str = "",
    shown: str = "",
) -> Any:  # stands for a value of the field's own type
    """A field with a default and a meaning; see `Choice`.

    Returns:
        The dataclass field.

    Examples:
        epochs: int = choice(50, "most training rounds", least=1, shown="N")
    """
    return field(default=default, metadata={_KEY: Choice(says, known, least, above, option, shown)})


def required_field(says: str, *, option: str = "", shown: str = "") -> Any:  # stands for the field's value
    """A field that has to be given, with its meaning."""
    return field(metadata={_KEY: Choice(says, option=option, shown=shown)})


def part(kind: type, prefix: str, says: str) -> Any:  # stands for the field's value
    """A field that is None or a configuration of its own.

    Args:
        kind: of that configuration; its first field has no default.
        prefix: what its options begin with.
        says: the meaning of the whole.
    """
    return field(default=None, metadata={_KEY: Choice(says, prefix=prefix, part=kind)})


def choices_of(kind: type) -> Mapping[str, tuple[Field[Any], Choice]]:
    """The fields of a configuration that say what they mean, by name, in order."""
    return MappingProxyType({item.name: (item, item.metadata[_KEY]) for item in fields(kind) if _KEY in item.metadata})


def default_of(option: Field[Any]) -> object:
    """The default of a field; None where it has none."""
    return None if option.default is MISSING else option.default


def option_values(made: Any, prefix: str = "") -> dict[str, object]:  # of any configuration
    """Return what a configuration holds, by the names of options that make it.

    Args:
        made: the configuration.
        prefix: what the options begin with.

    Raises:
        InputError: a field that no option sets has another value than its default.
    """
    chosen = choices_of(type(made))
    for other in fields(made):
        if other.name not in chosen and other.init and getattr(made, other.name) != default_of(other):
            raise InputError(f"{other.name} must have its default in a file of options; no option sets it")
    result: dict[str, object] = {}
    for name, (_, item) in chosen.items():
        value = getattr(made, name)
        if item.part is not None:
            result |= {} if value is None else option_values(value, f"{item.prefix}-")
        elif value is not None:
            result[f"{prefix}{item.option or name.replace('_', '-')}"] = value
    return result


def toml_lines(options: Mapping[str, object]) -> Iterator[str]:
    """Yield a line of TOML per option."""
    return (f"{key} = {_toml(value)}" for key, value in options.items())


def _toml(value: object) -> str:
    """Return a value as TOML writes it; JSON's texts, with what it leaves as it is escaped, are TOML's."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def name_members(made: Any) -> None:  # any frozen dataclass
    """Replace text by the member of an enumeration that it names, in all fields whose default is such a member.

    Members are compared by identity, so that a field that keeps the text would act as another member.

    Raises:
        UnknownNameError: the text, or a value of another type, names no member.
    """
    for item in fields(made):
        default = item.default if item.default_factory is MISSING else item.default_factory()
        value = getattr(made, item.name)
        if isinstance(default, StrEnum) and not isinstance(value, type(default)):
            if value not in tuple(type(default)):
                raise UnknownNameError(item.name, str(value), tuple(map(str, type(default))))
            object.__setattr__(made, item.name, type(default)(value))


def check_choices(made: Any) -> None:  # any dataclass
    """Raises unless every field has a value that its choice admits.

    Raises:
        UnknownNameError: a name is none of those that are known.
        InputError: a value is of another type than its field, or a number is below its least.
    """
    kinds = _kinds(made.__class__)
    for name, (_, item) in choices_of(type(made)).items():
        result = getattr(made, name)
        if not any(_fits(result, kind) for kind in kinds[name]):
            raise InputError(f"{name} must be {' or '.join(map(_kind_name, kinds[name]))}; found {result!r}")
        if item.names and result is not None and result not in item.names:
            raise UnknownNameError(name, str(result), item.names)
        bounded = item.least is not None or item.above is not None
        if bounded and isinstance(result, float) and not math.isfinite(result):
            raise InputError(f"{name} must be finite; found {result}")
        if item.least is not None and result is not None and not result >= item.least:
            raise InputError(f"{name} must be at least {item.least}; found {result}")
        if item.above is not None and result is not None and not result > item.above:
            raise InputError(f"{name} must be above {item.above}; found {result}")


@cache
def _kinds(kind: type) -> Mapping[str, tuple[type, ...]]:
    """By field of a configuration, the types that its values may have."""
    hints = typing.get_type_hints(kind)
    kinds = {name: hints[name] for name in choices_of(kind)}
    return MappingProxyType({
        name: typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,) for name, hint in kinds.items()
    })  # fmt: skip


def _fits(result: object, kind: type) -> bool:
    if kind is float:
        return isinstance(result, Real) and not isinstance(result, bool)
    if kind is int:
        return isinstance(result, Integral) and not isinstance(result, bool)
    return isinstance(result, kind)


def _kind_name(kind: type) -> str:
    words = {bool: "True or False", int: "an integer", float: "a number", str: "text", Path: "a Path"}
    return "None" if kind is type(None) else words.get(kind, kind.__name__)
