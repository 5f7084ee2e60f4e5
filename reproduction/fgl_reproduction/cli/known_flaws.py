"""`fgl-secure known-flaws`."""

from __future__ import annotations

import argparse
import json
import shlex

from fgl_secure.cli.output import OK, VIOLATED, say
from fgl_secure.cli.subcommand import Subcommand
from fgl_secure.cli.usage import add_common_options
from fgl_secure.progress import show_progress


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to examine; all fifteen when empty")
    parser.add_argument("--seed", type=int, default=None, metavar="S",
                        help="repeat samples; None draws secret randomness")  # fmt: skip
    add_common_options(parser)


def _run(chosen: argparse.Namespace, words: list[str]) -> int:
    from fgl_reproduction.known_flaws.report import as_json, describe  # noqa: PLC0415  # loads torch
    from fgl_reproduction.known_flaws.run import run_cases  # noqa: PLC0415

    with show_progress(quiet=chosen.quiet) as phases:
        findings = run_cases(chosen.cases, seed=chosen.seed, before=lambda case: phases(f"examining {case.name}"))
    command = shlex.join(["fgl-secure", *words])
    say(json.dumps(as_json(findings, command), indent=2) if chosen.json else describe(findings))
    return OK if all(finding.is_expected for finding in findings) else VIOLATED


KNOWN_FLAWS = Subcommand("known-flaws", "find published flaws without hints", _add_arguments, _run)
