"""The command line: `fgl-secure audit`, `fgl-secure train`, `fgl-secure bench`, `fgl-secure list`.

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
from fgl_secure.errors import FglSecureError, InputError

if TYPE_CHECKING:
    from fgl_secure.audit import Report
    from fgl_secure.commands.options import Options
    from fgl_secure.learning.loop import Progress as Rounds

OK, BAD_INPUT, CONTRADICTED = 0, 2, 3
INTERRUPTED = 130


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
    _add_run_options(audit)
    audit.add_argument("--method", default="hifgl", help="learning method")
    audit.add_argument("--protocol", action="append", default=[], metavar="NAME",
                       help="protocol to audit, repeatable; exit status 3 when evidence contradicts its claim; "
                            "without it a demonstration of plaintext and secmp that exits 0")  # fmt: skip
    audit.add_argument("--attack", action="append", default=[], metavar="NAME", help="attack to run, repeatable; all")
    audit.add_argument("--out", type=Path, default=Path("fgl-secure-report"), metavar="DIR",
                       help="folder for report.json and report.html")  # fmt: skip
    train = commands.add_parser("train", help="train a method under a protocol", formatter_class=style)
    train.set_defaults(run=_train)
    train.add_argument("method", help="learning method: hifgl")
    train.add_argument("--protocol", default="secmp", metavar="NAME", help="how neighbourhood sums are computed")
    _add_run_options(train)
    train.add_argument("--json", action="store_true", help="print one JSON object")
    bench = commands.add_parser("bench", help="how fast the arithmetic is here", formatter_class=style)
    bench.set_defaults(run=_bench)
    bench.add_argument("part", choices=("field", "lcc"), help="field arithmetic, or Lagrange coded computing")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    listing = commands.add_parser("list", help="what there is", formatter_class=style)
    listing.set_defaults(run=_list)
    listing.add_argument(
        "what", nargs="?", choices=("datasets", "protocols", "attacks", "methods"), help="one kind only"
    )
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dataset", default="digits", metavar="NAME",
        help="data set, see fgl-secure list datasets, or a graph of your own: the path of an .npz file with the "
             "arrays x, y, edge_index as in PyTorch Geometric")  # fmt: skip
    add("--partition", default="random", metavar="NAME", help="devices to silos: random (equal sizes) or louvain")
    add("--silos", type=int, default=5, metavar="K", help="number of silos")
    add("--silo-file", type=Path, default=None, metavar="FILE",
        help="silo of each device, one integer a line or .npy; replaces --partition and --silos")  # fmt: skip
    add("--backbone", default="gcn", metavar="NAME", help="graph neural network: gcn or sage")
    add(
        "--preset",
        default="honest",
        metavar="NAME",
        help="honest (chosen on validation data, FedAvg) or paper (as published)",
    )
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes the preset's")
    add("--seed", type=int, default=0, metavar="S", help="of partition, split, weights, and of an audit's coins")
    add("--data-root", type=Path, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add("--device", default="auto", metavar="NAME", help="where model compute runs: auto, cpu or cuda")
    coding = parser.add_argument_group("coding parameters of secmp")
    coding.add_argument(
        "--field", type=int, default=2**31 - 1, metavar="P", help="size of the field, a prime; the paper's is 11"
    )
    coding.add_argument("--T", type=int, default=1, metavar="T", help="number of masks; 2 T + 2 may not exceed P")
    coding.add_argument("--bound", type=float, default=16.0, metavar="X", help="largest magnitude of one value")
    coding.add_argument(
        "--fraction-bits",
        type=int,
        default=None,
        metavar="F",
        help="bits behind the binary point; None takes as many as fit",
    )
    coding.add_argument(
        "--mu", default="silo", choices=("silo", "target"), help="who hands the coding parameters to a source"
    )
    coding.add_argument(
        "--allow-wrap", action="store_true", help="let sums wrap in a field that is too small, as published"
    )


def _options(chosen: argparse.Namespace) -> Options:
    from fgl_secure.algebra import Overflow
    from fgl_secure.commands.options import Options
    from fgl_secure.protocols.registry import Parameters
    from fgl_secure.protocols.secmp import MuDelivery

    parameters = Parameters(
        modulus=chosen.field,
        T=chosen.T,
        bound=chosen.bound,
        fraction_bits=chosen.fraction_bits,
        overflow=Overflow.WRAP if chosen.allow_wrap else Overflow.REFUSE,
        mu_delivery=MuDelivery(chosen.mu),
    )
    return Options(
        method=chosen.method,
        dataset=chosen.dataset,
        partition=chosen.partition,
        silos=chosen.silos,
        silo_file=chosen.silo_file,
        backbone=chosen.backbone,
        preset=chosen.preset,
        epochs=chosen.epochs,
        seed=chosen.seed,
        data_root=chosen.data_root,
        device=chosen.device,
        parameters=parameters,
    )


def _audit(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.audit import contradictions, write_report
    from fgl_secure.commands.audit import audit

    _check_folder(chosen.out)
    command = shlex.join(["fgl-secure", *words])
    with _progress() as bar:
        report = audit(_options(chosen), tuple(chosen.protocol), tuple(chosen.attack), command=command, progress=bar)
    written = write_report(report, chosen.out)
    _say(_printed(report) + f"\nwritten: {written[0]} and {written[1]}")
    return CONTRADICTED if chosen.protocol and contradictions(report) else OK


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
    from fgl_secure.commands.options import prepare
    from fgl_secure.commands.train import describe, summary, train

    prepared = prepare(_options(chosen), (chosen.protocol,))
    scheme = prepared.schemes[0]
    with _progress() as bar:
        result = train(prepared, scheme, progress=bar(scheme.name))
    if chosen.json:
        _say(json.dumps({**summary(prepared, scheme, result), "command": shlex.join(["fgl-secure", *words])}, indent=2))
    else:
        _say(describe(prepared, scheme, result))
    return OK


def _bench(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_secure.commands.bench import as_json, bench, describe

    machine, report = bench(chosen.part)
    command = shlex.join(["fgl-secure", *words])
    if chosen.json:
        _say(json.dumps({"command": command, **as_json(machine, report)}, indent=2))
    else:
        _say(describe(machine, report))
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
