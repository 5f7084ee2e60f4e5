"""The commands: from parsed options to what is printed and the exit status."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fgl_secure import methods
from fgl_secure.ceilings import ceiling_lines, read_ceilings
from fgl_secure.cli.config import RUN_FILE, run_file
from fgl_secure.cli.options import configure_method, data_of
from fgl_secure.cli.output import OK, VIOLATED, OutputError, say
from fgl_secure.cli.parser import SCRIPTS
from fgl_secure.errors import InputError
from fgl_secure.ledger import RunLedger
from fgl_secure.progress import Runs, show_progress

if TYPE_CHECKING:
    from fgl_secure.auditing import Report
    from fgl_secure.auditing.method import Method, Source
    from fgl_secure.auditing.train import TrainedRun
    from fgl_secure.progress import Phases


def audit(options: argparse.Namespace, words: list[str]) -> int:
    """Trains, attacks, prints what was found, and then writes it."""
    from fgl_secure.auditing.audit import audit as run

    check_folder(options.out)
    ceilings = read_ceilings(options.ceiling)
    if options.seeds != 1:
        if ceilings:
            raise InputError(f"seeds must be 1 with a ceiling; found {options.seeds}")
        return _audit_seeds(options, words)
    method, data = configure_method(options.method, options), data_of(options.method, options)
    with show_progress(quiet=options.quiet) as phases:
        report = run(
            method,
            data,
            options.scheme,
            options.attack,
            seed=options.seed,
            device=options.device,
            command=_command(words),
            progress=phases,
            thorough=options.thorough,
            ceilings=ceilings,
        )
    _deliver(lambda: _report_text(report, options), report.write, options, ["audit", options.method.name])
    above = ceiling_lines(report, ceilings)
    if not options.json:
        for line in above:
            say(line)
    return VIOLATED if above or (options.scheme and report.violations) else OK


def _audit_seeds(chosen: argparse.Namespace, words: list[str]) -> int:
    """Audits under several seeds; those that are finished are kept beside the reports, and not run again."""
    from fgl_secure.cli.printing import describe_seeds
    from fgl_secure.methods.seeds import audit_each_seed, checked_seeds, describe_entry

    seeds = [chosen.seed + offset for offset in checked_seeds(chosen.seeds)]
    method = configure_method(chosen.method, chosen)
    with show_progress(quiet=chosen.quiet) as phases:
        reports = audit_each_seed(
            method,
            dict.fromkeys(seeds, data_of(chosen.method, chosen)),
            chosen.scheme,
            chosen.attack,
            device=chosen.device,
            command=lambda seed: _command([*words, "--seeds", "1", "--seed", str(seed)]),
            runs=chosen.out / "seeds.jsonl",
            watch=Runs(phases, describe_entry),
            progress=phases,
            thorough=chosen.thorough,
        )
    _deliver(
        lambda: json.dumps(reports.rows(), indent=2) if chosen.json else describe_seeds(reports),
        reports.write,
        chosen,
        ["audit", chosen.method.name],
    )
    return VIOLATED if chosen.scheme and reports.violations else OK


def _deliver(
    text: Callable[[], str], write: Callable[[Path], tuple[Path, ...]], options: argparse.Namespace, names: list[str]
) -> None:
    """Prints findings, and then writes them: a full disk takes nothing from a reader, and a full pipe no file."""
    from fgl_secure.auditing.report import write_files

    output_error = None
    try:
        say(text())
    except OutputError as error:
        output_error = error
    paths = write(options.out)
    write_files(options.out, {RUN_FILE: run_file(options, names)})
    if output_error is not None:
        raise output_error
    if not options.json:
        others = ", ".join(dict.fromkeys(path.suffix for path in paths[1:]))
        say(f"written: {paths[0]}, {others}; {RUN_FILE} repeats it")


def _report_text(report: Report, options: argparse.Namespace) -> str:
    from fgl_secure.auditing.report import render_json
    from fgl_secure.auditing.wording import summary

    if options.json:
        return render_json(report).rstrip()
    return summary(report) if options.quiet else _format_report(report, verbose=options.verbose)


def _format_report(report: Report, *, verbose: bool) -> str:
    from rich.console import Console

    from fgl_secure.auditing import print_report

    tty = Console()
    buffer = io.TextIOWrapper(io.BytesIO(), tty.encoding, "replace")  # whose encoding has lines of its own in tables
    console = Console(file=buffer, force_terminal=tty.is_terminal, width=tty.width)
    print_report(report, console, verbose=verbose)
    buffer.seek(0)
    lines = [line.rstrip() for line in buffer.read().splitlines()]
    if not verbose:
        lines.append("in brackets: best guess without messages; intervals: --verbose or report.html")
    return "\n".join(lines)


def _command(words: list[str]) -> str:
    return shlex.join(["fgl-secure", *words])


def check_folder(out: Path) -> None:
    """Refuse a folder that could not be written to after minutes of training; leave no file there.

    Raises:
        InputError: it can't be written to.
        UnicodeEncodeError: its name has letters that the system's encoding lacks.
    """
    os.fsencode(out)
    try:
        existing = next(place for place in (out, *out.absolute().parents) if place.exists())
        with TemporaryDirectory(prefix=".fgl-secure-", dir=existing):
            pass
    except OSError as error:
        raise InputError(f"out must be a folder that can be made and written to; found {out} ({error})") from error


def train(options: argparse.Namespace, words: list[str]) -> int:
    """Trains once."""
    from fgl_secure.cli.printing import describe

    method, data = configure_method(options.method, options), data_of(options.method, options)
    with show_progress(quiet=options.quiet) as phases:
        training = _run_training(method, data, options, phases)
    say(
        json.dumps({**training.to_json(), "command": _command(words)}, indent=2) if options.json else describe(training)
    )
    return OK


def _run_training(method: Method, data: Source, options: argparse.Namespace, phases: Phases) -> TrainedRun:
    from fgl_secure.auditing.train import train as run

    scheme = ",".join(options.scheme) if options.scheme else None
    if options.engine != "flower":
        return run(method, data, scheme, seed=options.seed, device=options.device, progress=phases)
    try:
        from fgl_secure.flower.programs import train_on_flower
    except ImportError as error:
        raise InputError(f"engine flower needs the extra fgl-secure[flower]; found {error}") from error
    phases(f"training {method.name} on Flower")
    return train_on_flower(method, data, scheme, seed=options.seed, device=options.device)


def compare(options: argparse.Namespace, words: list[str]) -> int:
    """Audits all methods that fit, prints the table, and then writes it."""
    from fgl_secure.cli.printing import describe_comparison, describe_entry
    from fgl_secure.graph import Data
    from fgl_secure.methods.comparison import SECURED, source_of
    from fgl_secure.methods.comparison import compare as run

    check_folder(options.out)
    if options.seeds < 1:
        raise InputError(f"seeds must be at least 1; found {options.seeds}")
    data, ledger = source_of(options.dataset, options.data_root), RunLedger(options.runs)
    if isinstance(data, Data):
        data = data_of(methods.FedAvg, options)
    with show_progress(quiet=options.quiet) as phases:
        result = run(
            data,
            options.scheme or SECURED,
            tuple(methods.method(name)() for name in options.methods),
            options.attack,
            seeds=range(options.seed, options.seed + options.seeds),
            epochs=options.epochs,
            device=options.device,
            command=_command(words),
            ledger=ledger,
            watch=Runs(phases, describe_entry),
            progress=phases,
        )
    _deliver(
        lambda: json.dumps(result.as_json(), indent=2) if options.json else describe_comparison(result),
        result.write,
        options,
        ["compare"],
    )
    if options.scheme and result.violations:
        return VIOLATED
    if ledger.error is not None:  # what was found is printed by now, whatever became of the file of runs
        raise ledger.error
    return OK


def list_(options: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    """Says what there is."""
    from fgl_secure.cli.listing import as_json, listing

    say(json.dumps(as_json(options.what), indent=2) if options.json else listing(options.what))
    return OK


def complete(options: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    """Prints what a shell reads."""
    say(SCRIPTS[options.shell].rstrip())
    return OK


def refuse(error: InputError, _chosen: argparse.Namespace, _words: list[str]) -> int:
    """Says why a method is not to be had."""
    raise error
