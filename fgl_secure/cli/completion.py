"""Words that a shell may complete. The scripts ask the program itself, so that names are those of today."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fgl_secure.cli import listing
from fgl_secure.cli.parser import Parser

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

EXAMPLES = """\
examples:
  eval "$(fgl-secure completion bash)"      # in ~/.bashrc; zsh in ~/.zshrc
  fgl-secure completion fish | source       # in ~/.config/fish/config.fish"""


def candidates(parser: Parser, words: Sequence[str]) -> list[str]:
    """What the last word may become.

    Args:
        parser: with the options of the method that the words name.
        words: behind the program's name; the last is unfinished, and may be empty.
    """
    *before, start = words or [""]
    at = parser.reached(before)
    asked = next((each for each in at.options() if before and before[-1] in each.option_strings), None)
    if asked is not None and asked.nargs != 0:
        return [name for name in _values(asked) if name.startswith(start)]
    found = list(at.commands())
    for action in at.options():
        found += action.option_strings if action.option_strings else _values(action)
    options = [*found, "--help"]
    return [name for name in options if name.startswith(start) and (start.startswith("-") or not name.startswith("-"))]


def _values(action: argparse.Action) -> list[str]:
    """The words that an option takes, where they are known."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    if action.dest == "scheme":
        return list(listing.names("schemes"))
    if action.dest == "attack":
        return list(listing.names("attacks"))
    return list(getattr(action, "known", ()))
