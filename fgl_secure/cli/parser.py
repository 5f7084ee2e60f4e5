"""A parser of command lines whose errors are one line, with what was meant, perhaps; and words that a shell completes.

The scripts of shells ask the program itself, so that names are those of today.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from fgl_secure.cli import listing
from fgl_secure.cli.output import BAD_INPUT, say


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that says what was meant, perhaps; options are written out."""

    def __init__(self, **others: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **others})

    def error(self, message: str) -> NoReturn:
        """Leaves with one line on the standard error stream."""
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and the version go where all else is printed: argparse would not say that they could not be written."""
        if message and file is sys.stdout:
            say(message.removesuffix("\n"))
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        values = [str(item) for item in action.choices or ()]
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"must be one of {', '.join(values)}; found {value!r}{suggest(value, values)}"
            )

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        kinds = {int: "an integer", float: "a number"}
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in kinds:
                raise
            raise argparse.ArgumentError(action, f"must be {kinds[action.type]}; found {arg_string!r}") from None

    def parser_of(self, words: Sequence[str]) -> Parser:
        """The parser of the command that words begin with."""
        index = self
        for word in words:
            choices = index.commands()
            if word not in choices:
                break
            index = choices[word]
        return index

    def commands(self) -> dict[str, Parser]:
        """The commands of this one, by name; none where there are none."""
        result: dict[str, Parser] = {}
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                result.update(action.choices)
        return result

    def options(self) -> Iterator[argparse.Action]:
        """What may be said to this command, positions included, but help and the version."""
        for action in self._actions:
            if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction | argparse._VersionAction):
                yield action

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Leaves with the words that mean nothing to this command."""
        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        hint = next((_option_meant(word.partition("=")[0], options) for word in words if word.startswith("--")), "")
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")


def suggest(word: str, vocabulary: Sequence[str]) -> str:
    """What a word was probably meant to be, as the end of a sentence; empty where nothing is near.

    The dashes of options, which all of them have, make none of them near.
    """
    plain = {item.casefold().lstrip("-"): item for item in vocabulary}
    near = get_close_matches(str(word).casefold().lstrip("-"), list(plain), n=1, cutoff=0.6)
    return f"; did you mean {plain[near[0]]}?" if near else ""


def _option_meant(option: str, options: Sequence[str]) -> str:
    """What an option was probably meant to be, as the end of a sentence."""
    from fgl_secure import schemes  # noqa: PLC0415  # a moment, of which only this error has need

    name = option.removeprefix("--")
    if "--scheme" in options:
        having = [kind for kind in schemes.kinds() if name.replace("-", "_") in schemes.parameters(kind)]
        if having:
            words = f"{name.replace('-', '_')}=..."
            return f": a parameter of {', '.join(having)}, to be said as --scheme '{having[0]}[{words}]'"
    return suggest(option, options)


def place(text: str) -> Path:
    """The path of a file or a folder; one without a name is refused, which an empty variable of a shell leaves."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"must name a file or a folder; found {text!r}")
    return Path(text)


ASKED = "__complete"
"""The command that scripts call, with the words before the cursor, the unfinished one last."""

_BASH = """\
_fgl_secure() {
  local IFS=$'\\n'
  COMPREPLY=($(fgl-secure __complete "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _fgl_secure fgl-secure
"""

SCRIPTS: Mapping[str, str] = MappingProxyType({
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete -c fgl-secure -a '(fgl-secure __complete (commandline -opc)[2..] (commandline -ct))'\n",
})  # fmt: skip


def candidates(parser: Parser, words: Sequence[str]) -> list[str]:
    """What the last word may become.

    Args:
        parser: with the options of the method that the words name.
        words: behind the program's name; the last is unfinished, and may be empty.
    """
    *before, start = words or [""]
    index = parser.parser_of(before)
    pending_action = next(
        (option for option in index.options() if before and before[-1] in option.option_strings), None
    )
    if pending_action is not None and pending_action.nargs != 0:
        return [name for name in _values(pending_action) if name.startswith(start)]
    result = list(index.commands())
    for action in index.options():
        result += action.option_strings if action.option_strings else _values(action)
    options = [*result, "--help"]
    return [name for name in options if name.startswith(start) and (start.startswith("-") or not name.startswith("-"))]


def _values(action: argparse.Action) -> list[str]:
    """The words that an option takes, where they are known."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest == "scheme":
        return list(listing.names("schemes"))
    if action.dest == "attack":
        return list(listing.names("attacks"))
    return list(getattr(action, "known", ()))
