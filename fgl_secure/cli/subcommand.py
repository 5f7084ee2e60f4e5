"""Commands that other packages add to `fgl-secure`, by entry points of group `fgl_secure.subcommands`.

An entry point names a `Subcommand`. Its module is imported whenever the program starts, `--help` included, so heavy
imports belong into the function that runs the command.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fgl_secure import plugins
from fgl_secure.errors import InputError

GROUP = "fgl_secure.subcommands"


@dataclass(frozen=True)
class Subcommand:
    """A command behind `fgl-secure`.

    Attributes:
        name: the word on the command line.
        summary: one line for `fgl-secure --help`.
        add_arguments: adds its options to an `argparse.ArgumentParser`; `fgl_secure.cli.usage.add_common_options` adds
            those of all commands.
        run: takes the parsed options and the words of the command line, and returns the exit status.

    Examples:
        HELLO = Subcommand("hello", "greet", lambda parser: None, lambda options, words: print("hello") or 0)
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, list[str]], int]


def installed_subcommands() -> Iterator[tuple[str, Subcommand | InputError]]:
    """Yield each installed command's name with the command, or with the error that its package raised."""
    for point in sorted(plugins.installed_plugins(GROUP)):
        try:
            command = plugins.load_plugin(point)
            if not isinstance(command, Subcommand):
                raise InputError(f"entry point {point.name} of {GROUP} must name a Subcommand; found {point.value}")
            yield point.name, command
        except InputError as error:
            yield point.name, error
