"""The command line: `fgl-secure audit`, `train`, `attack`, `bench`, `reproduce`, `list`.

Exit status 0: done, and no evidence contradicts a claim of a protocol named with --protocol. 3: some does.
2: bad usage or input, with one line on the standard error stream.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fgl_secure import __version__
from fgl_secure.arguments import SERVER_SUMS, add_run_options, options_of
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.methods.fedavg.inversion import cli as inversion_cli

if TYPE_CHECKING:
    from fgl_secure.audit import Report
    from fgl_secure.training.loop import Progress as Rounds

OK, BAD_INPUT, CONTRADICTED = 0, 2, 3
INTERRUPTED = 130

SUMS = "relay-coded"
"""What computes neighbourhood sums in training when no protocol is named; FedStruct has its own usual one."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: words behind the program's name; those of the process unless given.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen = _parser().parse_args(words)
    try:
        return int(chosen.run(chosen, words))
    except FglSecureError as error:
        print(f"fgl-secure: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print("fgl-secure: error: this run needs more memory than there is", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("fgl-secure: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fgl-secure", description="Run federated graph learning under a protocol, and see what it leaks."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)
    style = argparse.ArgumentDefaultsHelpFormatter
    audit = commands.add_parser("audit", help="train, attack what was said, and report", formatter_class=style)
    audit.set_defaults(run=_audit)
    add_run_options(audit)
    audit.add_argument("--method", default="hifgl", help="learning method, see fgl-secure list methods")
    audit.add_argument("--protocol", action="append", default=[], metavar="NAME",
                       help="protocol to audit, repeatable; exit status 3 when evidence contradicts its claim; "
                            "without it a demonstration of secmp, relay-coded and plaintext that exits 0")  # fmt: skip
    audit.add_argument("--attack", action="append", default=[], metavar="NAME", help="attack to run, repeatable; all")
    audit.add_argument("--out", type=Path, default=Path("fgl-secure-report"), metavar="DIR",
                       help="folder for report.json and report.html")  # fmt: skip
    train = commands.add_parser("train", help="train a method under a protocol", formatter_class=style)
    train.set_defaults(run=_train)
    train.add_argument("method", help="learning method, see fgl-secure list methods")
    train.add_argument("--protocol", default=None, metavar="NAME",
                       help=f"how neighbourhood sums are computed; None takes {SUMS}")  # fmt: skip
    add_run_options(train)
    train.add_argument("--json", action="store_true", help="print one JSON object")
    attack = commands.add_parser("attack", help="attack one round and show what is seen", formatter_class=style)
    kinds = attack.add_subparsers(title="attacks", required=True, metavar="ATTACK", parser_class=_Parser)
    inversion = kinds.add_parser("gradient-inversion", help="reconstruct data from gradients", formatter_class=style)
    inversion.set_defaults(run=_invert)
    inversion_cli.add_arguments(inversion)
    bench = commands.add_parser("bench", help="how fast the arithmetic is here", formatter_class=style)
    bench.set_defaults(run=_bench)
    bench.add_argument("part", choices=("field", "lcc", "secmp", "ckks", "hop-adjacency", "secagg"),
                       help="field arithmetic, Lagrange coded computing, secured training epochs, sums under CKKS, "
                            "the exchange of adjacency powers, or secure aggregation")  # fmt: skip
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    _add_reproduce(commands.add_parser("reproduce", help="run a table of a paper again", formatter_class=style))
    listing = commands.add_parser("list", help="what there is", formatter_class=style)
    listing.set_defaults(run=_list)
    listing.add_argument(
        "what",
        nargs="?",
        choices=("datasets", "protocols", "exchanges", "schemes", "attacks", "methods"),
        help="one kind only",
    )
    return parser


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_reproduce)
    add = parser.add_argument
    add("table", help="hifgl-table3, -table4, -table5, -table6 or -fig5; fedstruct-table2, -table7 or -fig4; "
                      "fedspray-table2; fed2gnn-table1, -table2, -fig3 or -fig4; fedvn-table1")  # fmt: skip
    add("--seeds", type=int, default=5, metavar="N", help="runs of each case, with seeds 0 to N - 1")
    add(
        "--preset",
        default="honest",
        metavar="NAME",
        help="honest (chosen on validation data, FedAvg) or paper (as in the public code)",
    )
    add("--datasets", nargs="+", default=[], metavar="NAME", help="data sets; those of the paper when empty")
    add("--clients", nargs="+", type=int, default=[], metavar="K",
        help="numbers of clients, for tables that vary them; all when empty")  # fmt: skip
    add("--protocol", default="plaintext", metavar="NAME",
        help="how neighbourhood sums of the paper's own method are computed; the others run in the clear")  # fmt: skip
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes the preset's")
    add("--data-root", type=Path, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")


def _audit(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.audit import contradictions, write_report
    from fgl_secure.commands.audit import audit

    _check_folder(chosen.out)
    command = shlex.join(["fgl-secure", *words])
    with _progress() as bar:
        report = audit(options_of(chosen), tuple(chosen.protocol), tuple(chosen.attack), command=command, progress=bar)
    written = write_report(report, chosen.out)
    _say(_printed(report) + f"\nwritten: {written[0]} and {written[1]}")
    named = chosen.protocol or chosen.exchange or chosen.scheme
    return CONTRADICTED if named and contradictions(report) else OK


def _printed(report: Report) -> str:
    from rich.console import Console

    from fgl_secure.audit import print_report

    there, here = Console(), io.StringIO()
    print_report(report, Console(file=here, force_terminal=there.is_terminal, width=there.width))
    return here.getvalue()


def _say(text: str) -> None:
    """Prints; a reader who has closed the pipe has seen enough, and the exit status stays what it is."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_folder(out: Path) -> None:
    """Refuses a folder that could not be written to after minutes of training; makes nothing."""
    existing = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"out must be a folder that can be made and written to; {existing} is not")


def _train(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.commands.plans import planned
    from fgl_secure.commands.training_report import describe, summary

    usual = () if chosen.method in (*SERVER_SUMS, "fedstruct") else (SUMS,)
    plan = planned(options_of(chosen), (chosen.protocol,) if chosen.protocol else usual)
    if len(plan.subjects) != 1:
        choice = "exchange" if chosen.method == "fedstruct" else "scheme"
        raise InputError(f"{choice} must be given once for train; found {len(plan.subjects)}")
    subject = plan.subjects[0]
    with _progress() as bar:
        result = subject.train(progress=bar(subject.name))
        cost = subject.privacy_cost(result, bar)
    if chosen.json:
        command = shlex.join(["fgl-secure", *words])
        _say(json.dumps({**summary(plan, subject.name, result, cost), "command": command}, indent=2))
    else:
        _say(describe(plan, subject.name, result, cost))
    return OK


def _invert(chosen: argparse.Namespace, words: list[str]) -> int:
    if chosen.out is not None:
        _check_folder(chosen.out)
    _say(inversion_cli.output_of(chosen, shlex.join(["fgl-secure", *words])))
    return OK


def _bench(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.cli.bench.bench import as_json, bench, describe

    machine, report = bench(chosen.part)
    command = shlex.join(["fgl-secure", *words])
    if chosen.json:
        _say(json.dumps({"command": command, **as_json(machine, report)}, indent=2))
    else:
        _say(describe(machine, report))
    return OK


def _reproduce(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    from fgl_secure.commands.tables.print import describe, shown_progress
    from fgl_secure.commands.tables.reproduce import reproduce
    from fgl_secure.commands.tables.table import Choices

    choices = Choices(
        chosen.preset, chosen.seeds, chosen.protocol, chosen.epochs, chosen.data_root, clients=tuple(chosen.clients)
    )
    with shown_progress() as started:
        done = reproduce(chosen.table, choices, chosen.datasets, started)
    _say(json.dumps(done.as_json(), indent=2) if chosen.json else describe(done))
    return OK


def _list(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    from fgl_secure.commands.listing import listing

    _say(listing(chosen.what))
    return OK


@contextmanager
def _progress() -> Iterator[Any]:
    """Gives a function from a protocol's name to a callback for its rounds: bars on a terminal, nothing in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def bar(name: str) -> Rounds:
            task = bars.add_task(f"training under {name}", total=None)
            return lambda done, most: bars.update(task, completed=done, total=most)

        yield bar


if __name__ == "__main__":
    sys.exit(main())
