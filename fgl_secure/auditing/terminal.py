"""The report in a terminal: a picture of about one screen, and on request all findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fgl_secure.auditing import tables, wording
from fgl_secure.auditing.html import title
from fgl_secure.auditing.matrix import Cell, State
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report

LINES = 32
"""Most lines of the picture where every column has room, with two for where the files are."""

_STYLES = {
    State.VIOLATED: "bold red",
    State.DECLARED: "yellow",
    State.NOT_VIOLATED: "cyan",
    State.NOT_APPLICABLE: "",
    State.NOT_TESTED: "dim",
    State.NO_GUARANTEE: "",
}
"""Red is for violated guarantees alone."""

_USUAL = 80
"""Columns from which figures stand in a table; below it they are sentences."""

_NARROWEST = len(State.DECLARED)
"""Columns that a scheme has at least."""

_FIGURE = 23
"""Columns of a figure with its interval, `-0.004 [-0.012, -0.001]`, which is never cut."""


def print_report(report: Report, console: Console | None = None, *, verbose: bool = False) -> None:
    """Prints the report; without a terminal (a pipe, a file) no colour codes are written.

    Args:
        report: the report.
        console: where to print; standard output by default.
        verbose: print every finding, claim and note behind the tables.
    """
    console = console or Console()
    console.print(_text(title(report), "bold"))
    lines = [*_violation_lines(report), *_unmeasured_lines(report), *_summaries(report)]
    line_count = sum(-(-len(line.plain) // console.width) for line in lines)
    _print_matrix(report, console, None if verbose else LINES - 5 - line_count)
    for line in lines:
        console.print(line)
    console.print(_text(wording.controls_summary(report)))
    if verbose:
        _print_findings(report, console)
        _print_claims(report, console)
        for note in report.notes:
            console.print(_text(f"Note: {note}"))


def _print_matrix(report: Report, console: Console, room: int | None) -> None:
    """Print the rows that say something, and in one line those that don't; columns that don't fit go below.

    Args:
        report: the report.
        console: where to print.
        room: lines for it, its headings included; None prints all rows.
    """
    schemes, rows = tables.schemes(report), tables.rows(report)
    if not rows:
        for name in report.protocols:
            console.print(_text(wording.protocol_summary(report, name)))
        return
    relevant_rows = [row for row in rows if not row.is_quiet] or list(rows)
    blocks = list(_blocks(schemes, console.width))
    visible_rows: Sequence[tables.ClaimRow] = rows
    if room is not None:
        visible_rows = sorted(
            _fitting(sorted(relevant_rows, key=_weight), schemes, blocks, console, room - 2), key=rows.index
        )
    for columns in blocks:
        console.print(_matrix_table(visible_rows, schemes, columns))
    omitted_rows = [row for row in rows if row not in visible_rows]
    if omitted_rows:
        kinds = ", ".join(dict.fromkeys(row.short for row in omitted_rows))
        console.print(_text(f"{wording.plural(len(omitted_rows), 'row')} more with --verbose: {kinds}", "dim"))


def _fitting(
    rows: Sequence[tables.ClaimRow],
    schemes: Sequence[str],
    blocks: Sequence[Sequence[str]],
    console: Console,
    room: int,
) -> Sequence[tables.ClaimRow]:
    """Return the first rows that fit with all blocks, and at least one; violated guarantees are never left out."""
    least = max(1, sum(any(cell.state is State.VIOLATED for cell in row.cells) for row in rows))
    for most in range(len(rows), least, -1):
        tables = (_matrix_table(rows[:most], schemes, columns) for columns in blocks)
        if sum(len(console.render_lines(table, pad=False)) for table in tables) <= room:
            return rows[:most]
    return rows[:least]


def _weight(row: tables.ClaimRow) -> int:
    """What is kept where room is short: violated guarantees first."""
    return min(list(State).index(cell.state) for cell in row.cells)


def _blocks(schemes: Sequence[str], width: int) -> Iterator[tuple[str, ...]]:
    """Schemes side by side, as many as fit."""
    block: list[str] = []
    room_left = width - 29
    for name in schemes:
        column_width = _column(name) + 1
        if block and column_width > room_left:
            yield tuple(block)
            block, room_left = [], width - 29
        block.append(name)
        room_left -= column_width
    yield tuple(block)


def _column(name: str) -> int:
    """Width of a scheme's column, in which every state has room; a longer name takes several lines."""
    return min(max(len(name), _NARROWEST), 16)


def _matrix_table(rows: Sequence[tables.ClaimRow], schemes: Sequence[str], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    table.add_column("hidden", overflow="fold")
    table.add_column("from", overflow="fold")
    for name in columns:
        table.add_column(_text(name), overflow="fold", min_width=_NARROWEST, max_width=_column(name))
    for row in rows:
        cells = [row.cells[schemes.index(name)] for name in columns]
        table.add_row(_text(row.short), _text(row.parties), *(_cell(cell) for cell in cells))
    return table


def _cell(cell: Cell) -> Text:
    figures = "" if cell.figures is None else " {} ({})".format(*map(wording.figure, cell.figures))
    return _text(f"{cell.state}{figures}", _STYLES[cell.state])


def _violation_lines(report: Report) -> list[Text]:
    """A line for each scheme of which a promise fell: by which attacks."""
    lines = []
    fallen = [cell for cell in report.matrix if cell.state is State.VIOLATED]
    for name in dict.fromkeys(cell.scheme for cell in fallen):
        cells = [cell for cell in fallen if cell.scheme == name]
        attacks = tables.join_names(tuple(dict.fromkeys(attack for cell in cells for attack in cell.attacks)))
        text = f"{name}: {wording.plural(len(cells), 'guarantee')} violated, by {attacks}"
        lines.append(_text(text, _STYLES[State.VIOLATED]))
    return lines


def _unmeasured_lines(report: Report) -> list[Text]:
    """A line for each scheme that promises something of which no attack measured anything."""
    measured = {record.protocol for record in report.records if record.verdict.is_measured}
    silent = [name for name in tables.schemes(report) if name not in measured and report.claims.get(name)]
    return [
        _text(wording.protocol_summary(report, name))
        for name in silent
        if wording.claim_sentences(report, name, "protects")
    ]


def _summaries(report: Report) -> list[Text]:
    """A line for each scheme: how well it does, and at what price."""
    lines = []
    for name, (score, _, size, rounds, seconds) in tables.overview(report):
        text = f"{report.score} {score}, {size}, {rounds} {'round' if rounds == '1' else 'rounds'}, {seconds}"
        lines.append(Text.assemble(_text(name, "bold"), _text(f": {text}")))
    return lines


def _print_findings(report: Report, console: Console) -> None:
    """By scheme, then by attack: every figure with interval, prior and what the attack finds in plaintext."""
    for protocol in dict.fromkeys((report.audited_protocol, *report.protocols)):
        records = wording.by_severity([record for record in report.records if record.protocol == protocol])
        if not records:
            continue
        console.print()
        console.print(_text(protocol, "bold underline"))
        console.print(_text(wording.protocol_summary(report, protocol)))
        if console.width >= _USUAL:
            console.print(_figures([]))
        for attack in dict.fromkeys(record.attack for record in records):
            _print_attack([record for record in records if record.attack == attack], console)


def _print_attack(records: Sequence[Record], console: Console) -> None:
    falls = any(record.violates_guarantee for record in records)
    name = Text.assemble(_text(records[0].attack, "bold"), _text(f"  {records[0].view}", "dim"))
    console.print(name)
    if console.width >= _USUAL:
        console.print(_figures(records))
    else:
        for record in records:
            console.print(Padding(_text(_in_a_line(record)), (0, 0, 0, 2), expand=False))
    sentences = dict.fromkeys(
        _describe_record(record) for record in records
    )  # several figures of one attack share a sentence
    for sentence in sentences:
        console.print(Padding(_text(sentence), (0, 0, 0, 2), expand=False))
    if falls:
        for claim in dict.fromkeys(record.claim for record in records if record.violates_guarantee):
            console.print(Padding(_text(f"violates: {claim}", _STYLES[State.VIOLATED]), (0, 0, 0, 2)))


def _figures(records: Sequence[Record]) -> Table:
    """One line a figure, under the headings where there are none yet; only a metric's name ever wraps."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=not records)
    table.add_column("  verdict", width=14, no_wrap=True)
    table.add_column("metric", width=23, overflow="fold")
    table.add_column("value [95 %]", width=_FIGURE, no_wrap=True)
    for heading, width in (("baseline", 8), ("plain", 6)):
        table.add_column(heading, width=width, no_wrap=True, justify="right")
    for record in records:
        style = _STYLES[State.VIOLATED] if record.violates_guarantee else ""
        cells = (
            f"  {record.verdict}",
            record.metric,
            wording.with_interval(record),
            wording.figure(record.prior),
            _clear(record),
        )
        table.add_row(*(_text(cell, style) for cell in cells))
    return table


def _in_a_line(record: Record) -> str:
    figures = f"{wording.with_interval(record)}, baseline {wording.figure(record.prior)}, unprotected {_clear(record)}"
    return f"{record.verdict}: {record.metric} {figures}"


def _clear(record: Record) -> str:
    return wording.DASH if record.in_the_clear is None else wording.figure(record.in_the_clear)


def _describe_record(record: Record) -> str:
    clear = wording.in_the_clear(record)
    parts = (
        record.finding,
        wording.limits(record),
        f"Unprotected: {clear}." if clear and record.has_power else "",
        wording.knowledge(record),
        wording.control_failures(record),
    )
    return " ".join(part for part in parts if part)


def _print_claims(report: Report, console: Console) -> None:
    headings = {"protects": "guarantees", "leaks_by_design": "declares", "assumes": "assumes"}
    for protocol in report.claims:
        console.print()
        console.print(_text(f"What {protocol} says of itself", "bold"))
        for key, heading in headings.items():
            for sentence in wording.claim_sentences(report, protocol, key):
                console.print(Padding(_text(f"{heading}: {sentence}"), (0, 0, 0, 2), expand=False))


def _text(value: str, style: str = "") -> Text:
    """Text without markup, and without the control characters that could steer a terminal."""
    return Text("".join(letter if letter.isprintable() else " " for letter in value), style=style)
