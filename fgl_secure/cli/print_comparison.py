"""A comparison of methods for people."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.table import Table

from fgl_secure.auditing.wording import bytes_text, figure
from fgl_secure.ledger import Entry
from fgl_secure.methods.comparison import Comparison, columns, rows, summary, title

WIDTH = 120
"""Columns where the output is not a terminal."""
STYLES = {"contradicted": "red", "found": "yellow", "quiet": "default"}
RIGHT = (2, 3, 4, 7)


def describe(found: Comparison) -> str:
    """Title, table, what was left out and why; colours only on a terminal."""
    there, here = Console(), io.StringIO()
    console = Console(file=here, force_terminal=there.is_terminal, width=there.width if there.is_terminal else WIDTH)
    console.print(title(found), style="bold", markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for index, heading in enumerate(columns(found)):
        table.add_column(heading, justify="right" if index in RIGHT else "left", overflow="fold")
    for tone, cells in rows(found):
        table.add_row(*(cell.replace("[", "\\[") for cell in cells), style=STYLES[tone])
    console.print(table)
    console.print(summary(found), markup=False, highlight=False)
    for each in found.left_out:
        console.print(f"{each.title} is left out: {each.reason}.", markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in here.getvalue().splitlines())


def read(entry: Entry) -> str:
    """What one run came to, on one line."""
    found = cast("Mapping[str, Any]", entry.found)
    if "refused" in found:
        return f"left out, {found['refused']}"
    return "; ".join(
        f"{side['scheme']} {figure(side['score'])}, {bytes_text(side['bytes'])}" for side in found["sides"]
    )
