"""The words that the command line takes. Nothing heavy is imported: help and bad usage answer at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fgl_secure import __version__, methods
from fgl_secure.cli import commands
from fgl_secure.cli.listing import KINDS
from fgl_secure.cli.options import add_fields, add_method_options, escape_percent
from fgl_secure.cli.parser import SCRIPTS, Parser, place
from fgl_secure.cli.subcommand import Subcommand, installed_subcommands
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing.method import Method

METHOD = "hifgl"
"""What `fgl-secure audit` audits when no method is named."""

_ENGINES = ("one-process", "flower")

_COMPLETION = """\
examples:
  eval "$(fgl-secure completion bash)"      # in ~/.bashrc; zsh in ~/.zshrc
  fgl-secure completion fish | source       # in ~/.config/fish/config.fish"""


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Defaults behind what they are for, where there is one, and examples as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == []:
            return action.help
        return super()._get_help_string(action)


def parser_for(words: Sequence[str]) -> Parser:
    """The parser, with all options of the methods that words name; those of others are left out, for they take time.

    Args:
        words: of a command line.
    """
    parser = Parser(
        prog="fgl-secure",
        description="Run federated graph learning under a protocol, and see what it leaks.",
        epilog=_examples(
            "fgl-secure audit", "fgl-secure audit fedavg --scheme pairwise-masking", "fgl-secure train hifgl --help",
            "fgl-secure list schemes",
        ),
        formatter_class=_Help,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    kinds = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    for command, says in (
        ("audit", "train, attack what was said, and report"),
        ("train", "train a method under a scheme"),
    ):
        _add_methods(_command(kinds, command, says), command, words)
    _add_comparison(_command(kinds, "compare", "all methods that fit a data set, side by side"), words)
    _add_listing(_command(kinds, "list", "what there is"))
    for name, subcommand in installed_subcommands():
        _add_installed(kinds, name, subcommand)
    shell = _command(kinds, "completion", "what makes a shell complete words", _COMPLETION)
    shell.set_defaults(run=commands.complete)
    shell.add_argument("shell", choices=tuple(SCRIPTS), help="whose script to print")
    return parser


def _command(kinds: Any, name: str, says: str, examples: str = "") -> Parser:
    parser: Parser = kinds.add_parser(
        name, help=says, description=_wrap_text(says), epilog=examples, formatter_class=_Help
    )
    return parser


def _wrap_text(text: str) -> str:
    return fill(f"{text[:1].upper()}{text[1:]}", 78)


def _examples(*lines: str) -> str:
    return "\n".join(("examples:", *(f"  {line}" for line in lines)))


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that run for long: how results are printed, and `--config`."""
    group = parser.add_argument_group("how it is told")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    group.add_argument("--config", type=place, metavar="FILE",
                       help="TOML file of options, as run.toml beside a report; what is said here wins")  # fmt: skip
    verbosity = group.add_mutually_exclusive_group()
    verbosity.add_argument("-v", "--verbose", action="store_true", help="print everything, and where a fault was met")
    verbosity.add_argument("-q", "--quiet", action="store_true", help="no progress, and no more than the essence")


def _add_methods(parent: Parser, command: str, words: Sequence[str]) -> None:
    kinds = parent.add_subparsers(title="methods", required=True, metavar="METHOD", parser_class=Parser)
    method_names = [name for name in methods.names() if name in words[1:2]]
    for name in method_names or methods.names():  # where one is named, the others are not loaded
        if tuple(words[:1]) == (command,):
            _add_method(kinds, name, {"audit": _add_audit, "train": _add_train}[command], command)


def _add_method(
    kinds: Any, name: str, add: Callable[[argparse.ArgumentParser, type[Method]], None], command: str
) -> None:
    """The command of one method; of a broken package, one that says what is broken, while all others work."""
    try:
        method = methods.method(name)
        add_method_options(Parser(), method)  # tells whether options can be made of its fields, and leaves nothing
    except InputError as error:
        _add_broken(kinds, name, error)
        return
    one = kinds.add_parser(
        name,
        help=escape_percent(method.task),
        description=_wrap_text(escape_percent(f"{method.title}: {method.task}. It sums {method.summed}.")),
        epilog=escape_percent(_examples_of(command, method)),
        formatter_class=_Help,
    )
    one.set_defaults(method=method)
    add(one, method)
    add_method_options(one, method)


def _add_installed(kinds: Any, name: str, result: Subcommand | InputError) -> None:
    """The command of another package; of a broken package, one that says what is broken."""
    if isinstance(result, InputError):
        _add_broken(kinds, name, result)
        return
    parser = _command(kinds, name, result.summary)
    parser.set_defaults(run=result.run)
    result.add_arguments(parser)


def _add_broken(kinds: Any, name: str, error: InputError) -> None:
    plain = "\0"  # no word begins with it, so that options are words like all others here
    broken = kinds.add_parser(name, help="can't be loaded; running it says why", prefix_chars=plain, add_help=False)
    broken.add_argument("words", nargs="*")
    broken.set_defaults(run=partial(commands.refuse, error), verbose=False)


def _examples_of(command: str, method: type[Method]) -> str:
    say = f"fgl-secure {command} {method.name}"
    first, last = method.demonstrated[0], method.topologies[-1]
    lines = [say, f"{say} --scheme '{first}' --epochs 20 --seed 1", f"{say} --scheme '{last}=plaintext'"]
    if command == "audit":
        lines += [f"{say} --out report --verbose", "fgl-secure audit --config fgl-secure-report/run.toml"]
    else:
        lines += [f"{say} --json"]
    return _examples(*lines)


def _add_schemes(parser: argparse.ArgumentParser | argparse._ArgumentGroup, says: str) -> None:
    parser.add_argument("--scheme", action="append", default=[], metavar="[TOPOLOGY=]NAME", help=says)


def _add_attacks(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--attack", "--attacks", action="append", default=[], metavar="NAME",
                        help="attack to run, repeatable: a name, all, games, or outputs for the finished model's; all "
                        "without it")  # fmt: skip


def add_ceilings(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the option for ceilings on what finished models reveal."""
    parser.add_argument("--ceiling", action="append", default=[], metavar="METRIC=VALUE",
                        help="exit with status 3 if the lower end of an attack's 95 %% interval is larger; repeatable; "
                        f"membership.auc, membership.tpr or links.auc{more}")  # fmt: skip


def _add_audit(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    parser.set_defaults(run=commands.audit)
    _add_schemes(
        parser,
        f"schemes of a run, with commas between those for several topologies ({', '.join(method.topologies)}), "
        "parameters in brackets, as relay-coded[k_min=1,graph-shown]; repeatable; exit status 3 when evidence "
        f"violates a guarantee; without it a demonstration of {', '.join(method.demonstrated)} that exits 0",
    )
    _add_attacks(parser)
    add_ceilings(parser, "; goes with attack outputs")
    parser.add_argument("--thorough", action="store_true", help="play games on three times as many devices and rounds, "
                        "with all observers, which see smaller leaks; takes several times as long")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=1, metavar="N",
                        help="audits with seeds S to S + N - 1, and means over them; a call with the same folder goes "
                        "on after the last finished seed")  # fmt: skip
    parser.add_argument("--out", type=place, default=Path("fgl-secure-report"), metavar="DIR",
                        help="folder for the report, and for run.toml that repeats it")  # fmt: skip
    add_common_options(parser)


def _add_train(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    parser.set_defaults(run=commands.train)
    _add_schemes(
        parser,
        f"scheme of a topology of the run ({', '.join(method.topologies)}), repeatable, or several with commas; "
        f"parameters in brackets; {method.trained} where none is named",
    )
    parser.add_argument(
        "--engine",
        choices=_ENGINES,
        default=_ENGINES[0],
        help="all silos in this process, or each a SuperNode of Flower's simulation engine: to the same bits, unless a "
        "scheme rounds numbers at random",
    )
    add_common_options(parser)


def _add_comparison(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    if tuple(words[:1]) != ("compare",):
        return  # its data are options that take time to load
    from fgl_secure.graph.data import Data  # noqa: PLC0415

    parser.set_defaults(run=commands.compare)
    add_fields(parser.add_argument_group("data"), Data)
    group = parser.add_argument_group("run")
    add = group.add_argument
    add("--methods", nargs="+", default=[], metavar="NAME", help="methods; all that fit when empty")
    _add_schemes(
        group,
        "beside the run in the clear a method runs under the first of these that serves it, repeatable; exit status 3 "
        "when evidence violates a guarantee; relay-coded, then pairwise-masking where none is named",
    )
    _add_attacks(group)
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes each preset's")
    add("--seed", type=int, default=0, metavar="S", help="of partition, split, weights and coins; the first of several")
    add("--seeds", type=int, default=1, metavar="N", help="runs of each method, with seeds S to S + N - 1")
    add("--device", default="auto", metavar="NAME", help="where model compute runs: auto, cpu or cuda")
    add("--out", type=place, default=Path("fgl-secure-comparison"), metavar="DIR",
        help="folder for the page, and for run.toml that repeats it")  # fmt: skip
    add_runs_option(parser, "those that are in it with equal options, data, version and sources aren't run again")
    add_common_options(parser)


def add_runs_option(parser: argparse.ArgumentParser, says: str) -> None:
    """Add the option for the file that finished runs are appended to."""
    parser.add_argument("--runs", type=place, default=Path("fgl-secure-runs.jsonl"), metavar="FILE",
                        help=f"file that each finished run is added to; {says}")  # fmt: skip


def _add_listing(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.list_)
    parser.add_argument("what", nargs="?", choices=KINDS, help="one kind only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(verbose=False)
