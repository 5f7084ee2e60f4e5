"""The museum's table for people and for programs, and a line of progress."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fgl_secure.museum import HEADER, Finding, records, table

WIDTH = 160
"""Columns where the output is not a terminal."""
STYLES = {"found": "green", "kept": "green", "missed": "red", "REJECTED": "red"}


def describe(findings: Sequence[Finding]) -> str:
    """The table and its sum; colours only on a terminal."""
    there, here = Console(), io.StringIO()
    console = Console(file=here, force_terminal=there.is_terminal, width=there.width if there.is_terminal else WIDTH)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, show_lines=True)
    for heading in HEADER:
        shown.add_column(heading, overflow="fold", no_wrap=heading in ("result", "seconds"))
    for row in table(findings):
        shown.add_row(*row, style=None if STYLES[row[3]] == "green" else STYLES[row[3]])
    console.print(shown, markup=False, highlight=False)
    console.print(_sum(findings), markup=False, highlight=False)
    return here.getvalue().rstrip()


def as_json(findings: Sequence[Finding], command: str) -> dict[str, Any]:
    """One object: the command, whether all is as it should be, and a record for each exhibit."""
    return {
        "command": command,
        "expected": all(finding.expected for finding in findings),
        "exhibits": records(findings),
    }


def _sum(findings: Sequence[Finding]) -> str:
    flawed = [finding for finding in findings if not finding.exhibit.sound]
    sound = [finding for finding in findings if finding.exhibit.sound]
    found, rejected = sum(finding.found for finding in flawed), sum(finding.found for finding in sound)
    return f"{found} of {len(flawed)} flaws found; {rejected} of {len(sound)} sound protocols rejected"
