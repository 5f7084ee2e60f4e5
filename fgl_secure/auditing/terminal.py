"""The report in a terminal: verdicts first, then accuracy or error and cost, then what contradicts a claim."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fgl_secure.auditing import wording
from fgl_secure.auditing.html import title
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import Findings, contradictions
from fgl_secure.auditing.tables import by_protocol
from fgl_secure.auditing.verdict import Verdict

WIDE = 140
"""Columns from which the table has room for the findings in words."""

USUAL = 80
"""Columns from which the names of attacks stay whole."""

ATTACK_WIDTH = 23

STYLES = {
    Verdict.BROKEN: "bold red",
    Verdict.LEAKS: "bold yellow",
    Verdict.NOT_DETECTED: "bold cyan",
    Verdict.PROVED: "bold green",
    Verdict.CONTEXT: "dim",
}


def print_report(report: Findings, console: Console | None = None) -> None:
    """Print the report; without a terminal (a pipe, a file) no colour codes are written.

    Args:
        report: the report.
        console: where to print; standard output by default.
    """
    console = console or Console()
    console.print(_text(title(report), "bold"))
    console.print(_text(wording.summary(report)))
    if report.records:
        console.print()
        _print_verdicts(report, console)
    _print_figures(report, console)
    _print_contradictions(report, console)
    for note in report.notes:
        console.print(_text(f"Note: {note}"))


def _print_verdicts(report: Findings, console: Console) -> None:
    for protocol in dict.fromkeys((report.audited, *report.protocols)):
        records = wording.by_severity([record for record in report.records if record.protocol == protocol])
        if records:
            console.print(_text(protocol, "bold"))
            console.print(_verdict_table(records, findings=console.width >= WIDE, roomy=console.width >= USUAL))
            console.print()


def _verdict_table(records: list[Record], *, findings: bool, roomy: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    narrow = roomy and not findings
    table.add_column(
        "attack", overflow="fold", width=ATTACK_WIDTH if narrow else None, min_width=ATTACK_WIDTH if roomy else None
    )
    table.add_column("metric", overflow="fold")
    table.add_column("value [95 %]", overflow="fold")
    for heading in ("prior", *(("clear",) if roomy else ())):
        table.add_column(heading, overflow="fold", justify="right", no_wrap=roomy)
    if findings:
        table.add_column("finding", overflow="fold")
    for record in records:
        table.add_row(
            _text(record.verdict, STYLES[record.verdict]),
            _text(record.attack),
            _text(record.metric),
            _text(wording.with_interval(record)),
            _text(wording.figure(record.prior)),
            *([_text(_clear(record))] if roomy else []),
            *([_text(_said(record))] if findings else []),
        )
    return table


def _clear(record: Record) -> str:
    return wording.DASH if record.in_the_clear is None else wording.figure(record.in_the_clear)


def _said(record: Record) -> str:
    clear = wording.in_the_clear(record)
    parts = (
        record.finding,
        wording.limits(record),
        f"In the clear on this subject: {clear}." if clear and record.has_power else "",
        wording.knowledge(record),
        wording.control_failures(record),
    )
    return " ".join(part for part in parts if part)


def _print_figures(report: Findings, console: Console) -> None:
    accuracy, cost = by_protocol(report, report.accuracy), by_protocol(report, report.cost)
    for protocol in dict.fromkeys((*accuracy, *cost)):
        parts = []
        if protocol in accuracy:
            part = accuracy[protocol]
            test, validation = (wording.score_text(report.score, part[key]) for key in ("test", "validation"))
            parts.append(f"{report.score} {test} test, {validation} validation")
        if protocol in cost:
            part = cost[protocol]
            parts.append(
                f"{wording.count_text(part['messages'])} messages, {wording.bytes_text(part['bytes'])}, "
                f"{wording.count_text(part['rounds'])} rounds, {wording.seconds_text(part['seconds'])}"
            )
        console.print(Text.assemble(_text(protocol, "bold"), _text(f": {'; '.join(parts)}")))


def _print_contradictions(report: Findings, console: Console) -> None:
    found = contradictions(report)
    if not found:
        return
    console.print()
    console.print(_text("Contradicted claims", "bold red"))
    for protocol, claim in dict.fromkeys((record.protocol, record.claim) for record in found):
        console.print(_text(f"{protocol} claims: {claim}"))
        said = [
            f"{record.attack} ({record.verdict}): {record.finding}"
            for record in found
            if (record.protocol, record.claim) == (protocol, claim)
        ]
        for sentence in dict.fromkeys(said):  # several figures of one attack share a sentence
            console.print(Padding(_text(sentence), (0, 0, 0, 2), expand=False))


def _text(value: str, style: str = "") -> Text:
    """Text without markup, and without the control characters that could steer a terminal."""
    return Text("".join(letter if letter.isprintable() else " " for letter in value), style=style)
