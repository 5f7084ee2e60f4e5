"""The command line: `fgl-secure audit`, `train`, `attack`, `bench`, `reproduce`, `museum`, `list`.

Exit status 0: done, and no evidence contradicts a claim of a scheme named with --scheme. 3: some does, or the museum
misses a flaw or rejects what is sound.
2: bad usage or input, with one line on the standard error stream.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fgl_secure import __version__, methods
from fgl_secure.cli import inversion
from fgl_secure.cli.options import add_method_options, configured, data_of, escaped
from fgl_secure.errors import FglSecureError, InputError

if TYPE_CHECKING:
    from fgl_secure.auditing import Report
    from fgl_secure.auditing.method import Method, Source
    from fgl_secure.auditing.train import Trained
    from fgl_secure.training.loop import Progress as Rounds

OK, BAD_INPUT, CONTRADICTED = 0, 2, 3
INTERRUPTED = 130

ENGINES = ("one-process", "flower")

METHOD = "hifgl"
"""What `fgl-secure audit` audits when no method is named."""


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
    chosen = _parser().parse_args(_with_method(words))
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
    train = commands.add_parser("train", help="train a method under a scheme", formatter_class=style)
    for parent, add in ((audit, _add_audit), (train, _add_train)):
        kinds = parent.add_subparsers(title="methods", required=True, metavar="METHOD", parser_class=_Parser)
        for name in methods.names():
            _add_method(kinds, name, add)
    attack = commands.add_parser("attack", help="attack one round and show what is seen", formatter_class=style)
    kinds = attack.add_subparsers(title="attacks", required=True, metavar="ATTACK", parser_class=_Parser)
    one = kinds.add_parser("gradient-inversion", help="reconstruct data from gradients", formatter_class=style)
    one.set_defaults(run=_invert)
    inversion.add_arguments(one)
    bench = commands.add_parser("bench", help="how fast the arithmetic is here", formatter_class=style)
    bench.set_defaults(run=_bench)
    bench.add_argument("part", choices=("field", "lcc", "secmp", "gradients", "ckks", "hop-adjacency", "secagg"),
                       help="field arithmetic, Lagrange coded computing, secured training epochs, parameter gradients "
                            "over relays, sums under CKKS, the exchange of adjacency powers, or secure "
                            "aggregation")  # fmt: skip
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    _add_reproduce(commands.add_parser("reproduce", help="run a table of a paper again", formatter_class=style))
    museum = commands.add_parser("museum", help="find published flaws without hints", formatter_class=style)
    museum.set_defaults(run=_museum)
    museum.add_argument("exhibits", nargs="*", metavar="EXHIBIT", help="some only; all fifteen unless given")
    museum.add_argument("--seed", type=int, default=None, metavar="S", help="repeat samples; None draws secret coins")
    museum.add_argument("--json", action="store_true", help="print one JSON object")
    listing = commands.add_parser("list", help="what there is", formatter_class=style)
    listing.set_defaults(run=_list)
    listing.add_argument(
        "what",
        nargs="?",
        choices=("datasets", "schemes", "attacks", "methods"),
        help="one kind only",
    )
    return parser


def _add_method(kinds: Any, name: str, add: Callable[[argparse.ArgumentParser, type[Method]], None]) -> None:
    """The command of one method; of a broken package, one that says what is broken, while all others work."""
    try:
        method = methods.method(name)
        add_method_options(_Parser(), method)  # tells whether options can be made of its fields, and leaves nothing
    except InputError as error:
        plain = "\0"  # no word begins with it, so that options are words like all others here
        broken = kinds.add_parser(name, help="can't be loaded; running it says why", prefix_chars=plain, add_help=False)
        broken.add_argument("words", nargs="*")
        broken.set_defaults(run=partial(_refuse, error))
        return
    one = kinds.add_parser(name, help=escaped(method.task), formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    one.set_defaults(method=method)
    add(one, method)
    add_method_options(one, method)


def _refuse(error: InputError, _chosen: argparse.Namespace, _words: list[str]) -> int:
    raise error


def _with_method(words: list[str]) -> list[str]:
    """The words with `METHOD` after an `audit` that names none."""
    bare = words[:1] == ["audit"] and (len(words) == 1 or words[1].startswith("-"))
    return ["audit", METHOD, *words[1:]] if bare and words[1:2] not in (["-h"], ["--help"]) else words


def _add_audit(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    parser.set_defaults(run=_audit)
    parser.add_argument(
        "--scheme",
        action="append",
        default=[],
        metavar="[TOPOLOGY=]NAME",
        help=f"schemes of a run, with commas between those for several topologies ({', '.join(method.topologies)}), "
        "parameters in brackets, as relay-coded[k_min=1,anon]; repeatable; exit status 3 when evidence contradicts a "
        f"claim; without it a demonstration of {', '.join(method.demonstrated)} that exits 0",
    )
    parser.add_argument("--attack", action="append", default=[], metavar="NAME", help="attack to run, repeatable; all")
    parser.add_argument("--out", type=Path, default=Path("fgl-secure-report"), metavar="DIR",
                        help="folder for report.json and report.html")  # fmt: skip


def _add_train(parser: argparse.ArgumentParser, method: type[Method]) -> None:
    parser.set_defaults(run=_train)
    parser.add_argument(
        "--scheme",
        action="append",
        default=[],
        metavar="[TOPOLOGY=]NAME",
        help=f"scheme of a topology of the run ({', '.join(method.topologies)}), repeatable, or several with commas; "
        f"parameters in brackets; {method.trained} where none is named",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="all silos in this process, or each a SuperNode of Flower's simulation engine, to the same bits",
    )


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_reproduce)
    add = parser.add_argument
    add("table", help="hifgl-table3, -table4, -table5, -table6 or -fig5; fedstruct-table2, -table7 or -fig4; "
                      "fedspray-table2; fed2gnn-table1, -table2, -fig3 or -fig4; fedvn-table1 or "
                      "-table1-zinc")  # fmt: skip
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
    add("--scheme", default="plaintext", metavar="NAME",
        help="how neighbourhood sums of the paper's own method are computed; the others run in the clear")  # fmt: skip
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes the preset's")
    add("--data-root", type=Path, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")


def _audit(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.auditing.audit import audit

    _check_folder(chosen.out)
    method, data = configured(chosen.method, chosen), data_of(chosen.method, chosen)
    command = shlex.join(["fgl-secure", *words])
    with _progress() as bar:
        report = audit(
            method,
            data,
            chosen.scheme,
            chosen.attack,
            seed=chosen.seed,
            device=chosen.device,
            command=command,
            progress=bar,
        )
    written = report.write(chosen.out)
    _say(_printed(report) + f"\nwritten: {written[0]} and {written[1]}")
    return CONTRADICTED if chosen.scheme and report.contradictions else OK


def _printed(report: Report) -> str:
    from rich.console import Console

    from fgl_secure.auditing import print_report

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
    from fgl_secure.auditing.train import train
    from fgl_secure.cli.printing import describe

    method, data = configured(chosen.method, chosen), data_of(chosen.method, chosen)
    scheme = ",".join(chosen.scheme) or None
    with _progress() as bar:
        if chosen.engine == "flower":
            done = _on_flower(method, data, scheme, chosen)
        else:
            done = train(method, data, scheme, seed=chosen.seed, device=chosen.device, progress=bar)
    command = shlex.join(["fgl-secure", *words])
    figures = json.dumps({**done.to_json(), "command": command}, indent=2) if chosen.json else describe(done)
    _say(figures)
    return OK


def _on_flower(method: Method, data: Source, scheme: str | None, chosen: argparse.Namespace) -> Trained:
    try:
        from fgl_secure.flower.training import train_on_flower
    except ImportError as error:
        raise InputError(f"engine flower needs the extra fgl-secure[flower]; found {error}") from error
    return train_on_flower(method, data, scheme, seed=chosen.seed, device=chosen.device)


def _invert(chosen: argparse.Namespace, words: list[str]) -> int:
    if chosen.out is not None:
        _check_folder(chosen.out)
    _say(inversion.output_of(chosen, shlex.join(["fgl-secure", *words])))
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
    from fgl_secure.cli.print_table import describe, shown_progress
    from fgl_secure.tables.reproduce import reproduce
    from fgl_secure.tables.table import Choices

    table = methods.table(chosen.table)

    choices = Choices(
        chosen.preset, chosen.seeds, chosen.scheme, chosen.epochs, chosen.data_root, clients=tuple(chosen.clients)
    )
    with shown_progress() as started:
        done = reproduce(table, choices, chosen.datasets, started)
    _say(json.dumps(done.as_json(), indent=2) if chosen.json else describe(done))
    return OK


def _museum(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.cli.print_museum import as_json, describe, shown_progress
    from fgl_secure.museum import visit

    with shown_progress() as before:
        findings = visit(chosen.exhibits, seed=chosen.seed, before=before)
    command = shlex.join(["fgl-secure", *words])
    _say(json.dumps(as_json(findings, command), indent=2) if chosen.json else describe(findings))
    return OK if all(finding.expected for finding in findings) else CONTRADICTED


def _list(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    from fgl_secure.cli.listing import listing

    _say(listing(chosen.what))
    return OK


@contextmanager
def _progress() -> Iterator[Any]:
    """Gives a function from a run's name to a callback for its rounds: bars on a terminal, nothing in a pipe."""
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
