"""The commands: from parsed options to what is printed and the exit status."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from fgl_secure import methods
from fgl_secure.cli import completion, inversion
from fgl_secure.cli.config import RUN_FILE, run_file
from fgl_secure.cli.options import configured, data_of
from fgl_secure.cli.output import CONTRADICTED, OK, OutputError, say
from fgl_secure.cli.progress import shown
from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.auditing import Report
    from fgl_secure.auditing.method import Method, Source
    from fgl_secure.auditing.train import Trained
    from fgl_secure.cli.progress import Phases


def audit(chosen: argparse.Namespace, words: list[str]) -> int:
    """Trains, attacks, prints what was found, and then writes it: a full disk takes nothing from who reads along."""
    from fgl_secure.auditing.audit import audit as run

    _check_folder(chosen.out)
    method, data = configured(chosen.method, chosen), data_of(chosen.method, chosen)
    with shown(quiet=chosen.quiet) as phases:
        report = run(
            method,
            data,
            chosen.scheme,
            chosen.attack,
            seed=chosen.seed,
            device=chosen.device,
            command=_command(words),
            progress=phases,
        )
    unsaid = _told(report, chosen)
    written = report.write(chosen.out)
    _write(chosen.out / RUN_FILE, run_file(chosen, ["audit", chosen.method.name]))
    if unsaid is not None:
        raise unsaid
    if not chosen.json:
        others = ", ".join(path.suffix for path in written[1:])
        say(f"written: {written[0]}, {others}; {RUN_FILE} repeats it")
    return CONTRADICTED if chosen.scheme and report.contradictions else OK


def _told(report: Report, chosen: argparse.Namespace) -> OutputError | None:
    """Prints the findings; what stands in the way is given back, so that files are written all the same."""
    from fgl_secure.auditing.report import render_json
    from fgl_secure.auditing.wording import summary

    try:
        if chosen.json:
            say(render_json(report).rstrip())
        else:
            say(summary(report) if chosen.quiet else _printed(report, verbose=chosen.verbose))
    except OutputError as error:
        return error
    return None


def _printed(report: Report, *, verbose: bool) -> str:
    from rich.console import Console

    from fgl_secure.auditing import print_report

    there, here = Console(), io.StringIO()
    console = Console(file=here, force_terminal=there.is_terminal, width=there.width)
    print_report(report, console, verbose=verbose)
    lines = [line.rstrip() for line in here.getvalue().splitlines()]
    if not verbose:
        lines.append("every figure with its interval and prior: --verbose, or report.html")
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path} must be a file that can be written; found {error}") from error


def _command(words: list[str]) -> str:
    return shlex.join(["fgl-secure", *words])


def _check_folder(out: Path) -> None:
    """Refuses a folder that could not be written to after minutes of training; makes nothing."""
    existing = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"out must be a folder that can be made and written to; {existing} is not")


def train(chosen: argparse.Namespace, words: list[str]) -> int:
    """Trains once."""
    from fgl_secure.cli.printing import describe

    method, data = configured(chosen.method, chosen), data_of(chosen.method, chosen)
    with shown(quiet=chosen.quiet) as phases:
        done = _trained(method, data, chosen, phases)
    say(json.dumps({**done.to_json(), "command": _command(words)}, indent=2) if chosen.json else describe(done))
    return OK


def _trained(method: Method, data: Source, chosen: argparse.Namespace, phases: Phases) -> Trained:
    from fgl_secure.auditing.train import train as run

    scheme = ",".join(chosen.scheme) or None
    if chosen.engine != "flower":
        return run(method, data, scheme, seed=chosen.seed, device=chosen.device, progress=phases)
    try:
        from fgl_secure.flower.training import train_on_flower
    except ImportError as error:
        raise InputError(f"engine flower needs the extra fgl-secure[flower]; found {error}") from error
    phases(f"training {method.name} on Flower")
    return train_on_flower(method, data, scheme, seed=chosen.seed, device=chosen.device)


def invert(chosen: argparse.Namespace, words: list[str]) -> int:
    """Reconstructs data from gradients."""
    if chosen.out is not None:
        _check_folder(chosen.out)
    with shown(quiet=chosen.quiet) as phases:
        phases(f"gradient inversion by {chosen.attack}")
        text = inversion.output_of(chosen, _command(words))
    if chosen.out is not None:
        _write(chosen.out / RUN_FILE, run_file(chosen, ["attack", "gradient-inversion"]))
    say(text)
    return OK


def bench(chosen: argparse.Namespace, words: list[str]) -> int:
    """Measures one part of the arithmetic."""
    from fgl_secure.cli.bench.bench import as_json, describe
    from fgl_secure.cli.bench.bench import bench as run

    with shown(quiet=chosen.quiet) as phases:
        phases(f"measuring {chosen.part}")
        machine, report = run(chosen.part)
    if chosen.json:
        say(json.dumps({"command": _command(words), **as_json(machine, report)}, indent=2))
    else:
        say(describe(machine, report))
    return OK


def reproduce(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    """Runs a table of a paper again."""
    from fgl_secure.cli.print_table import describe
    from fgl_secure.tables.reproduce import reproduce as run
    from fgl_secure.tables.table import Choices

    table = methods.table(chosen.table)
    choices = Choices(
        chosen.preset, chosen.seeds, chosen.scheme, chosen.epochs, chosen.data_root, clients=tuple(chosen.clients)
    )
    with shown(quiet=chosen.quiet) as phases:
        done = run(table, choices, chosen.datasets, lambda at, most, what: phases(what)(at, most))
    say(json.dumps(done.as_json(), indent=2) if chosen.json else describe(done))
    return OK


def museum(chosen: argparse.Namespace, words: list[str]) -> int:
    """Looks for published flaws."""
    from fgl_secure.cli.print_museum import as_json, describe
    from fgl_secure.museum import visit

    with shown(quiet=chosen.quiet) as phases:
        findings = visit(chosen.exhibits, seed=chosen.seed, before=lambda each: phases(f"examining {each.name}"))
    say(json.dumps(as_json(findings, _command(words)), indent=2) if chosen.json else describe(findings))
    return OK if all(finding.expected for finding in findings) else CONTRADICTED


def list_(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    """Says what there is."""
    from fgl_secure.cli.listing import as_json, listing

    say(json.dumps(as_json(chosen.what), indent=2) if chosen.json else listing(chosen.what))
    return OK


def complete(chosen: argparse.Namespace, words: list[str]) -> int:  # noqa: ARG001  # one signature for all commands
    """Prints what a shell reads."""
    say(completion.SCRIPTS[chosen.shell].rstrip())
    return OK


def refuse(error: InputError, _chosen: argparse.Namespace, _words: list[str]) -> int:
    """Says why a method is not to be had."""
    raise error
