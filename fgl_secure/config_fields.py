"""Choices as fields of frozen dataclasses: what each means, and which values it takes, beside its default.

A configuration is checked when it is made, from what its fields say, and a command line makes its options from the
same fields. Nothing heavy is imported here: `--help` and bad usage answer at once.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
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
    """A field with a default and a meaning; see `Choice`."""
    return field(default=default, metadata={_KEY: Choice(says, known, least, above, option, shown)})


def required(says: str, *, option: str = "", shown: str = "") -> Any:  # stands for the field's value
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
    return MappingProxyType({each.name: (each, each.metadata[_KEY]) for each in fields(kind) if _KEY in each.metadata})


def default_of(each: Field[Any]) -> object:
    """The default of a field; None where it has none."""
    return None if each.default is MISSING else each.default


def name_members(made: Any) -> None:  # any frozen dataclass
    """Replace text by the member of an enumeration that it names, in all fields whose default is such a member.

    Members are compared by identity, so that a field that keeps the text would act as another member.

    Raises:
        UnknownNameError: the text, or a value of another type, names no member.
    """
    for each in fields(made):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        value = getattr(made, each.name)
        if isinstance(default, StrEnum) and not isinstance(value, type(default)):
            if value not in tuple(type(default)):
                raise UnknownNameError(each.name, str(value), tuple(map(str, type(default))))
            object.__setattr__(made, each.name, type(default)(value))


def check_choices(made: Any) -> None:  # any dataclass
    """Raises unless every field has a value that its choice admits.

    Raises:
        UnknownNameError: a name is none of those that are known.
        InputError: a value is of another type than its field, or a number is below its least.
    """
    kinds = _kinds(made.__class__)
    for name, (_, each) in choices_of(type(made)).items():
        found = getattr(made, name)
        if not any(_fits(found, kind) for kind in kinds[name]):
            raise InputError(f"{name} must be {' or '.join(map(_said, kinds[name]))}; found {found!r}")
        if each.names and found is not None and found not in each.names:
            raise UnknownNameError(name, str(found), each.names)
        bounded = each.least is not None or each.above is not None
        if bounded and isinstance(found, float) and not math.isfinite(found):
            raise InputError(f"{name} must be finite; found {found}")
        if each.least is not None and found is not None and not found >= each.least:
            raise InputError(f"{name} must be at least {each.least}; found {found}")
        if each.above is not None and found is not None and not found > each.above:
            raise InputError(f"{name} must be above {each.above}; found {found}")


@cache
def _kinds(kind: type) -> Mapping[str, tuple[type, ...]]:
    """By field of a configuration, the types that its values may have."""
    hints = typing.get_type_hints(kind)
    found = {name: hints[name] for name in choices_of(kind)}
    return MappingProxyType({
        name: typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,) for name, hint in found.items()
    })  # fmt: skip


def _fits(found: object, kind: type) -> bool:
    if kind is float:
        return isinstance(found, Real) and not isinstance(found, bool)
    if kind is int:
        return isinstance(found, Integral) and not isinstance(found, bool)
    return isinstance(found, kind)


def _said(kind: type) -> str:
    words = {bool: "True or False", int: "an integer", float: "a number", str: "text", Path: "a Path"}
    return "None" if kind is type(None) else words.get(kind, kind.__name__)
