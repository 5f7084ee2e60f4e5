"""Options made from the fields of configurations, and configurations made from what was chosen.

Nothing heavy is imported: --help and bad usage answer at once.
"""

from __future__ import annotations

import argparse
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fgl_secure.cli.parser import place
from fgl_secure.config_fields import Choice, choices_of, default_of
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing.method import Method
    from fgl_secure.graph import Data
    from fgl_secure.graph.data import GraphSets


def add_method_options(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    """Adds what a run of a method may be told: its data, its own choices, its schemes, seed and compute device.

    Raises:
        InputError: a field of the method is of a type that no option has, or called like another option.
    """
    try:
        _add_options(parser, method)
    except (argparse.ArgumentError, NameError) as error:
        raise InputError(f"fields of {method.__qualname__} must make options; {error}") from error


def _add_options(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    add_fields(parser.add_argument_group("data"), method.data)
    group = parser.add_argument_group(method.title)
    add_fields(group, method)
    for _, item in choices_of(method).values():
        if item.part is not None:
            add_fields(parser.add_argument_group(item.says), item.part, f"{item.prefix}-")
    add = parser.add_argument_group("run").add_argument
    add("--seed", type=int, default=0, metavar="S", help="of partition, split, weights, and of an audit's coins")
    add("--device", default="auto", metavar="NAME", help="where model compute runs: auto, cpu or cuda")


def configure_method(method: type[Method], options: argparse.Namespace) -> Method:
    """The method with the choices of a parsed command line.

    Raises:
        InputError: a choice breaks a rule.
    """
    return method(**dict(_values(method, options)))


def data_of(method: type[Method], options: argparse.Namespace) -> Data | GraphSets:
    """The data that a parsed command line names, of the kind that a method takes.

    Raises:
        InputError: a choice breaks a rule.
    """
    return method.data(**dict(_values(method.data, options)))


def add_fields(group: argparse._ArgumentGroup, kind: type, prefix: str = "") -> None:
    """Adds an option for each field of a configuration, but its parts."""
    hints = typing.get_type_hints(kind)
    for name, (item, says) in choices_of(kind).items():
        if says.part is None:
            _add_option(group, f"{prefix}{_option(name, says)}", hints[name], item, says)


def _add_option(
    group: argparse._ArgumentGroup,
    option: str,
    hint: Any,  # a type
    field: Field[Any],
    says: Choice,
) -> None:
    if hint is bool:
        group.add_argument(f"--{option}", action="store_true", help=escape_percent(says.says))
        return
    names_in_help = all(name in says.says for name in says.names)
    meaning = says.says if names_in_help else f"{says.says}: {', '.join(says.names)}"
    group.add_argument(
        f"--{option}",
        action=OneOf,
        known=says.names,
        type=_reader(hint),
        default=default_of(field),
        metavar=says.shown or "NAME",
        help=escape_percent(meaning),
    )


class OneOf(argparse._StoreAction):
    """Stores a value of which some are known, for shells that complete words; what it may be is checked later.

    Args:
        known: the values.
        others: as argparse has them.
    """

    def __init__(self, *, known: tuple[str, ...] = (), **others: Any) -> None:
        super().__init__(**others)
        self.known = known


def escape_percent(text: str) -> str:
    """A text of another author for argparse, which formats with percent signs."""
    return text.replace("%", "%%")


def _option(name: str, says: Choice) -> str:
    return says.option or name.replace("_", "-")


def _reader(hint: Any) -> Callable[[str], object]:  # a type
    """What reads a value of this type, which may also be None."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    result = next((kind for kind in (int, float, Path, str) if kind in kinds), None)
    if result is None:
        raise InputError(f"fields of a method must be numbers, texts, paths, switches or parts; found {hint!r}")
    return place if result is Path else result


def _values(kind: type, options: argparse.Namespace, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, (_, says) in choices_of(kind).items():
        if says.part is not None:
            yield name, _part(says.part, options, says.prefix)
        else:
            yield name, vars(options)[_dest(f"{prefix}{_option(name, says)}")]


def _part(kind: type, options: argparse.Namespace, prefix: str) -> object:
    """A part, if its first field was given; without it the others must be left alone."""
    values: Mapping[str, object] = dict(_values(kind, options, f"{prefix}-"))
    first, *others = choices_of(kind).items()
    if values[first[0]] is not None:
        return kind(**values)
    for name, (item, says) in others:
        if values[name] != default_of(item):
            option, required_option = (
                _dest(f"{prefix}-{_option(*of)}") for of in ((name, says), (first[0], first[1][1]))
            )
            raise InputError(
                f"{option} must go with {required_option}, without which there is none; found {values[name]}"
            )
    return None


def _dest(option: str) -> str:
    return option.replace("-", "_")
