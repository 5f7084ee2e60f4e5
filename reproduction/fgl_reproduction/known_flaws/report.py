"""Findings as a table for a terminal and as records for JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fgl_reproduction.known_flaws.examination import Finding

HEADER = ("case", "flaw", "source", "result", "coalition", "statistic", "seconds")
WIDTH = 160
"""Columns if the output is not a terminal."""


def result_of(finding: Finding) -> str:
    """Return `found` or `passed`, or if that is wrong `missed` or `REJECTED`."""
    words = {(False, True): "found", (True, False): "passed", (False, False): "missed", (True, True): "REJECTED"}
    return words[finding.case.sound, finding.violated]


def table_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Return one row per finding, with the columns of `HEADER`."""
    return [
        (
            finding.case.name,
            finding.case.flaw,
            finding.case.source,
            result_of(finding),
            finding.observer,
            f"{finding.check}: {finding.statistic}",
            f"{finding.seconds:.1f}",
        )
        for finding in findings
    ]


def describe(findings: Sequence[Finding]) -> str:
    """Return the table and its totals, coloured on a terminal only."""
    terminal, buffer = Console(), io.StringIO()
    width = terminal.width if terminal.is_terminal else WIDTH
    console = Console(file=buffer, force_terminal=terminal.is_terminal, width=width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, show_lines=True)
    for heading in HEADER:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("result", "seconds"))
    for finding, row in zip(findings, table_rows(findings), strict=True):
        table.add_row(*row, style=None if finding.is_expected else "red")
    console.print(table, markup=False, highlight=False)
    console.print(_totals(findings), markup=False, highlight=False)
    return buffer.getvalue().rstrip()


def as_json(findings: Sequence[Finding], command: str) -> dict[str, Any]:
    """Return the command, whether all results are as expected, and a record per case."""
    return {
        "command": command,
        "expected": all(finding.is_expected for finding in findings),
        "cases": [_record(finding) for finding in findings],
    }


def _record(finding: Finding) -> dict[str, Any]:
    return {
        "case": finding.case.name,
        "sound": finding.case.sound,
        "flaw": finding.case.flaw,
        "source": finding.case.source,
        "scale": finding.case.scale,
        "result": result_of(finding),
        "coalition": finding.observer,
        "check": finding.check,
        "statistic": finding.statistic,
        "questions": finding.questions,
        "seconds": round(finding.seconds, 2),
    }


def _totals(findings: Sequence[Finding]) -> str:
    flawed = [finding for finding in findings if not finding.case.sound]
    sound = [finding for finding in findings if finding.case.sound]
    detected, rejected = sum(finding.violated for finding in flawed), sum(finding.violated for finding in sound)
    return f"{detected} of {len(flawed)} flaws found; {rejected} of {len(sound)} sound protocols rejected"
