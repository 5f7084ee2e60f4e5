"""`fgl-secure reproduce`: a table of a paper, run again beside the printed numbers."""

from __future__ import annotations

import argparse
import json

from fgl_reproduction.tables.numbered import NUMBERED
from fgl_secure.cli.options import OneOf
from fgl_secure.cli.output import OK, say
from fgl_secure.cli.parser import place
from fgl_secure.cli.subcommand import Subcommand
from fgl_secure.cli.usage import add_common_options, add_runs_option
from fgl_secure.errors import InputError


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", nargs="?", help="as hifgl-table3 or fedstruct-fig4d")
    add("--list", action="store_true",
        help="list all numbered tables and figures of the papers, with why some can't be run again")  # fmt: skip
    add("--seeds", type=_seeds, default=5, metavar="N",
        help="runs of each case, with seeds 0 to N - 1; or the seeds, as 11,12 (7, is seed 7 alone)")  # fmt: skip
    add("--preset", default="honest", metavar="NAME", action=OneOf, known=("honest", "paper", "public-code"),
        help="honest (chosen on validation data, FedAvg), paper (as published), or for HiFGL public-code")  # fmt: skip
    add("--datasets", nargs="+", default=[], metavar="NAME", help="data sets; those of the paper when empty")
    add("--clients", nargs="+", type=int, default=[], metavar="K",
        help="numbers of clients, for tables that vary them; all when empty")  # fmt: skip
    add("--methods", nargs="+", default=[], metavar="LINE",
        help="lines of the table, by the method as it is printed; all when empty")  # fmt: skip
    add("--scheme", default="plaintext", metavar="NAME",
        help="how neighbourhood sums of the paper's own method are computed; the others run in the clear")  # fmt: skip
    add("--epochs", type=int, default=None, metavar="N", help="most training rounds; None takes the preset's")
    add("--device", default="auto", metavar="NAME", help="where model compute runs: auto, cpu or cuda")
    add("--data-root", type=place, default=None, metavar="DIR",
        help="folder of raw data sets in PyG's layout; None takes FGL_SECURE_DATA, then PyG's download")  # fmt: skip
    add_runs_option(parser, "those that are in it with equal options, version and sources aren't run again")
    add_common_options(parser)


def _seeds(text: str) -> int | tuple[int, ...]:
    parts = text.strip().removesuffix(",").split(",")
    if not all(part.strip().removeprefix("-").isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"must be a number of runs, or seeds as 11,12; found {text!r}")
    return tuple(map(int, parts)) if "," in text else int(text)


def _run(chosen: argparse.Namespace, _words: list[str]) -> int:
    if chosen.list:
        return _list(json_wanted=chosen.json)
    if chosen.table is None:
        raise InputError("table must be named, as hifgl-table3; `fgl-secure reproduce --list` has all")
    from fgl_reproduction.tables.catalogue import table as table_of  # noqa: PLC0415  # seconds, which --help has not
    from fgl_reproduction.tables.printing import describe, figures  # noqa: PLC0415
    from fgl_reproduction.tables.reproduce import reproduce  # noqa: PLC0415
    from fgl_reproduction.tables.table import Choices  # noqa: PLC0415
    from fgl_secure.ledger import RunLedger  # noqa: PLC0415
    from fgl_secure.progress import Runs, show_progress  # noqa: PLC0415

    table, ledger = table_of(chosen.table), RunLedger(chosen.runs)
    choices = Choices(
        chosen.preset,
        chosen.seeds,
        chosen.scheme,
        chosen.epochs,
        chosen.data_root,
        tuple(chosen.clients),
        tuple(chosen.methods),
        chosen.device,
    )
    with show_progress(quiet=chosen.quiet) as phases:
        done = reproduce(table, choices, chosen.datasets, ledger, Runs(phases, lambda entry: figures(table, entry)))
    say(json.dumps(done.as_json(), indent=2) if chosen.json else describe(done))
    if ledger.error is not None:  # what was found is printed by now, whatever became of the file
        raise ledger.error
    return OK


def _list(*, json_wanted: bool) -> int:
    if json_wanted:
        say(json.dumps([{"name": item.name, "says": item.says} for item in NUMBERED], indent=2))
    else:
        width = max(len(item.name) for item in NUMBERED) + 2
        say("\n".join(f"{item.name:<{width}}{item.says}" for item in NUMBERED))
    return OK


REPRODUCE = Subcommand("reproduce", "run a table of a paper again", _add_arguments, _run)
