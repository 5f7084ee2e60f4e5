"""The report as Markdown, for a pull request or a wiki: the matrix, then a table of figures by scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgl_secure.auditing import picture, wording
from fgl_secure.auditing.html import command_text, title
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import Findings
from fgl_secure.auditing.tables import overview

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_{}[]<>#|~"})


def render_markdown(report: Findings) -> str:
    """The report as Markdown; names and sentences of others are escaped, and stay on their line."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Findings) -> Iterator[str]:
    yield f"# {_plain(title(report))}"
    yield ""
    yield _plain(wording.summary(report))
    if report.matrix:
        yield ""
        yield from _matrix(report)
    yield ""
    yield f"## {_plain(report.score.capitalize())} and cost"
    yield ""
    yield from _table(
        ("scheme", "test", "messages", "size", "rounds", "time"), [(name, *cells) for name, cells in overview(report)]
    )
    for protocol in report.protocols:
        records = wording.by_severity([record for record in report.records if record.protocol == protocol])
        if records:
            yield ""
            yield f"## {_plain(protocol)}"
            yield ""
            yield _plain(wording.protocol_summary(report, protocol))
            yield ""
            yield from _table(_HEADINGS, [_figures(record) for record in records])
    command = command_text(report.run.get("command"))
    if command:
        yield ""
        yield "## Repeat it"
        yield ""
        yield f"    {_one_line(command)}"
    if report.notes:
        yield ""
        yield from (f"- {_plain(note)}" for note in report.notes)


def _matrix(report: Findings) -> Iterator[str]:
    rows = []
    for row in picture.rows(report):
        cells = []
        for cell in row.cells:
            if cell.state is State.CONTRADICTED:
                cells.append(f"contradicted by {picture.named(cell.attacks)}")
            else:
                cells.append(picture.cell_text(cell))
        rows.append((row.short, row.parties, *cells))
    yield from _table(("hidden", "from", *picture.schemes(report)), rows)


_HEADINGS = ("attack", "metric", "verdict", "value [95 %]", "prior", "in the clear", "claim")


def _figures(record: Record) -> tuple[str, ...]:
    return (
        record.attack,
        record.metric,
        str(record.verdict),
        wording.with_interval(record),
        wording.figure(record.prior),
        wording.in_the_clear(record) or wording.DASH,
        "contradicted" if record.contradicts_claim else "",
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_plain, headings))} |"
    yield f"|{' --- |' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    return _one_line(text).translate(_SPECIAL)


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
