"""A reproduced table for people."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import cast

from rich import box
from rich.console import Console
from rich.table import Table

from fgl_reproduction.tables.reproduce import Reproduction
from fgl_reproduction.tables.rows import FigureRow, MeanFigure
from fgl_reproduction.tables.table import PaperTable
from fgl_secure.ledger import LedgerEntry

MISSING = "-"
WIDTH = 120
"""Columns where the output is not a terminal: enough for every row on one line."""
VERDICTS = {True: "within", False: "outside", None: MISSING}
STYLES = {True: "green", False: "yellow", None: "dim"}


def describe(done: Reproduction) -> str:
    """Title, table and notes; colours only on a terminal."""
    there, buffer = Console(), io.StringIO()
    console = Console(file=buffer, force_terminal=there.is_terminal, width=there.width if there.is_terminal else WIDTH)
    console.print(done.table.title, style="bold", markup=False, highlight=False)
    console.print(_how(done), markup=False, highlight=False)
    console.print(_table(done.rows))
    for note in ("Within: our mean is at most one printed deviation from the printed mean.", *done.table.notes):
        console.print(f"Note: {note}", markup=False, highlight=False)
    return buffer.getvalue().rstrip()


def figures(table: PaperTable, entry: LedgerEntry) -> str:
    """What one run measured, `accuracy 0.812`."""
    result = cast("Mapping[str, float]", entry.found)
    return ", ".join(f"{metric.name} {result[metric.name]:.{metric.digits}f}" for metric in table.metrics)


def _how(done: Reproduction) -> str:
    choices = done.choices
    seeds = choices.seeds_of_runs
    runs = f"{len(seeds)} run{'s' * (len(seeds) > 1)}, seed {', '.join(map(str, seeds))}"
    epochs = "" if choices.epochs is None else f", at most {choices.epochs} epochs"
    return f"{choices.preset} preset{epochs}, {runs}, {done.table.method} under {choices.scheme}"


def _table(rows: tuple[FigureRow, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    for heading in ("data set", "setting", "method"):
        table.add_column(heading, no_wrap=True)
    table.add_column("metric", overflow="fold")
    for heading in ("ours", "printed"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for row, following in zip(rows, (*rows[1:], None), strict=True):
        ours = _text(row.ours, row.metric.digits) if row.implemented else "not implemented"
        printed = _text(row.paper, row.metric.digits)
        verdict = f"[{STYLES[row.within]}]{VERDICTS[row.within]}[/]"
        last = following is not None and following.dataset != row.dataset
        cells = (row.dataset, row.setting, row.method, row.metric.name, ours, printed, verdict)
        table.add_row(*cells, end_section=last)
    return table


def _text(figure: MeanFigure, digits: int) -> str:
    if figure.mean is None:
        return MISSING
    return f"{figure.mean:.{digits}f}" + ("" if figure.std is None else f" +- {figure.std:.{digits}f}")
