"""Options from a TOML file, and the file beside a report that repeats its run.

A file holds the words of a command line: `command`, `method` where the command has methods, and each option by its
name without the dashes. Options come before those that are said on the command line, which win.

    command = "audit"
    method = "hifgl"
    scheme = ["secmp", "relay-coded"]
    dataset = "Cora"
    static-first-layer = true
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fgl_secure import __version__
from fgl_secure.cli.parser import Parser, suggest
from fgl_secure.config_fields import toml_lines
from fgl_secure.errors import InputError

RUN_FILE = "run.toml"

_OF_THIS_CALL = {"config", "json", "verbose", "quiet"}
"""Options about the output of a call, which are no part of a run."""


def file_of(words: Sequence[str]) -> Path | None:
    """The file that words name with --config; None where they name none."""
    for index, word in enumerate(words):
        if word == "--config" and index + 1 < len(words):
            return Path(words[index + 1])
        if word.startswith("--config="):
            return Path(word.removeprefix("--config="))
    return None


def read(path: Path) -> dict[str, Any]:
    """The options of a file.

    Raises:
        InputError: it can't be read, or is no TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config must be a TOML file that can be read; found {path} ({error})") from error


def command_words(table: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    """The words with the method of a file after the command, where they name none themselves.

    Raises:
        InputError: the file is of another command, or its method is no text.
    """
    command = table.get("command", words[0])
    if command != words[0]:
        raise InputError(f"command of a config must be {words[0]}, as on the command line; found {command!r}")
    method = table.get("method")
    if method is None or (len(words) > 1 and not words[1].startswith("-")):
        return list(words)
    if not isinstance(method, str):
        raise InputError(f"method of a config must be text; found {method!r}")
    return [words[0], method, *words[1:]]


def with_options(table: Mapping[str, Any], parser: Parser, words: Sequence[str], index: int) -> list[str]:
    """Words with the options of a file before those that are said.

    Args:
        table: what the file holds.
        parser: of the command that the words name.
        words: of the command line.
        index: how many of them are names of commands.

    Raises:
        InputError: the file has an option that the command hasn't, or a value that no option takes.
    """
    actions = {_key(action): action for action in parser.options()}
    given_options = {word.partition("=")[0] for word in words}
    options: list[str] = []
    places: list[str] = []
    for key, value in table.items():
        if key in ("command", "method"):
            continue
        if key not in actions or key in _OF_THIS_CALL:
            raise InputError(f"config must name options of {parser.prog}; found {key}{suggest(key, list(actions))}")
        if given_options.isdisjoint(actions[key].option_strings):
            (options if actions[key].option_strings else places).extend(_words(key, value, actions[key]))
    option_places = places if len(words) == index or words[index].startswith("-") else []
    return [*words[:index], *option_places, *options, *words[index:]]


def _key(action: argparse.Action) -> str:
    long = [option for option in action.option_strings if option.startswith("--")]
    return long[0].removeprefix("--") if long else action.dest


def _words(key: str, value: Any, action: argparse.Action) -> Iterator[str]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float) for item in values):
        raise InputError(
            f"{key} of a config must be text, a number, true or false, or a list of these; found {value!r}"
        )
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(value, bool):
            raise InputError(f"{key} of a config must be true or false; found {value!r}")
        yield from [f"--{key}"] if value else []
    elif not action.option_strings:
        yield from map(str, values)
    elif action.nargs is not None:
        yield from [f"--{key}", *map(str, values)] if values else []
    else:
        if len(values) != 1 and not isinstance(action, argparse._AppendAction):
            raise InputError(f"{key} of a config must be one value; found {value!r}")
        yield from (f"--{key}={item}" for item in values)


def run_file(options: argparse.Namespace, names: Sequence[str]) -> str:
    """The file that repeats a run, with every option that it had, defaults included.

    Args:
        options: the parsed options, with the parser that read them.
        names: of the command and, where it has them, of its method.
    """
    parser: Parser = options.parser
    lines = [f"# fgl-secure {__version__}; repeat it with: fgl-secure {' '.join(names)} --config {RUN_FILE}"]
    chosen: dict[str, object] = dict(zip(("command", "method"), names, strict=False))
    for action in parser.options():
        value = getattr(options, action.dest, None)
        if value is not None and _key(action) not in _OF_THIS_CALL:
            chosen[_key(action)] = value
    return "\n".join([*lines, *toml_lines(chosen)]) + "\n"
