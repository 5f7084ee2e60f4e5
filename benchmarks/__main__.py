"""`python -m benchmarks PART`: how fast field arithmetic, schemes and training epochs are on this machine."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import PARTS, as_json, bench, describe, rows_of
from fgl_secure.cli.output import BAD_INPUT, INTERRUPTED, OK, say
from fgl_secure.cli.parser import Parser
from fgl_secure.errors import FglSecureError
from fgl_secure.ledger import RunLedger
from fgl_secure.progress import Runs, complain, show_progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one part, print its figures, and return the exit status.

    Args:
        arguments: words behind the module's name; those of the process unless given.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    args = _parser().parse_args(words)
    try:
        _measure(args, words)
    except FglSecureError as error:
        complain(f"benchmarks: error: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        complain("benchmarks: interrupted")
        return INTERRUPTED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", choices=PARTS, help="what is measured")
    parser.add_argument("--runs", type=Path, default=Path("fgl-secure-runs.jsonl"), metavar="FILE",
                        help="file that each finished measurement is added to; an interrupted one continues "
                             "there")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _measure(chosen: argparse.Namespace, words: Sequence[str]) -> None:
    ledger = RunLedger(chosen.runs)
    with show_progress(quiet=chosen.quiet) as phases:
        machine, report = bench(chosen.part, ledger, Runs(phases, lambda entry: rows_of(entry.found)))
    if chosen.json:
        command = shlex.join(["python", "-m", "benchmarks", *words])
        say(json.dumps({"command": command, **as_json(machine, report)}, indent=2))
    else:
        say(describe(machine, report))
    if ledger.error is not None:
        raise ledger.error


if __name__ == "__main__":
    sys.exit(main())
