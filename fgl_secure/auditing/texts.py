"""The report as Markdown, for a pull request or a wiki, and as JUnit's XML, which CI servers show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

from fgl_secure.auditing import tables, wording
from fgl_secure.auditing.html import command_text, title
from fgl_secure.auditing.matrix import Cell, State

if TYPE_CHECKING:
    from fgl_secure.auditing.records import Record
    from fgl_secure.auditing.report import Report

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_{}[]<>#|~"})


def render_markdown(report: Report) -> str:
    """The report as Markdown; names and sentences of others are escaped, and stay on their line."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
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
        ("scheme", "test", "messages", "size", "rounds", "time"),
        [(name, *cells) for name, cells in tables.overview(report)],
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


def _matrix(report: Report) -> Iterator[str]:
    rows = []
    for row in tables.rows(report):
        cells = []
        for cell in row.cells:
            if cell.state is State.VIOLATED:
                cells.append(f"violated by {tables.join_names(cell.attacks)}")
            else:
                cells.append(tables.cell_text(cell))
        rows.append((row.short, row.parties, *cells))
    yield from _table(("hidden", "from", *tables.schemes(report)), rows)


_HEADINGS = ("attack", "metric", "verdict", "value [95 %]", "baseline", "unprotected", "guarantee")


def _figures(record: Record) -> tuple[str, ...]:
    return (
        record.attack,
        record.metric,
        str(record.verdict),
        wording.with_interval(record),
        wording.figure(record.prior),
        wording.in_the_clear(record) or wording.DASH,
        "violated" if record.violates_guarantee else "",
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


def render_junit(report: Report) -> str:
    """The promises as tests: a violated one fails, one that is admitted or not tested is skipped.

    What a scheme doesn't promise is no test.
    """
    suites = Element("testsuites", name=_legal(title(report)))
    for scheme in tables.schemes(report):
        promised = [cell for cell in report.matrix if cell.scheme == scheme and cell.state is not State.NO_GUARANTEE]
        _suite(suites, scheme, promised)
    if report.above_ceilings:
        _ceilings(suites, report.above_ceilings, report.run.get("ceilings"))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _ceilings(suites: Element, above: Mapping[str, tuple[str, ...]], ceilings: object) -> None:
    """A test for each ceiling on what finished models reveal."""
    failures = sum(bool(findings) for findings in above.values())
    suite = SubElement(suites, "testsuite", name="ceilings", tests=str(len(above)), failures=str(failures),
                       errors="0", skipped="0")  # fmt: skip
    for metric, findings in above.items():
        most = ceilings[metric] if isinstance(ceilings, Mapping) else ""
        case = SubElement(suite, "testcase", classname="ceilings", name=f"{metric} at most {most}")
        if findings:
            SubElement(case, "failure", message=_legal("; ".join(findings)))


def _suite(suites: Element, scheme: str, cells: list[Cell]) -> None:
    states = [cell.state for cell in cells]
    suite = SubElement(
        suites,
        "testsuite",
        name=_legal(scheme),
        tests=str(len(cells)),
        failures=str(states.count(State.VIOLATED)),
        errors="0",
        skipped=str(states.count(State.NOT_TESTED) + states.count(State.DECLARED)),
    )
    for cell in cells:
        name = _legal(f"{cell.secret}, from {cell.role}s")
        case = SubElement(suite, "testcase", classname=_legal(scheme), name=name)
        if cell.state is State.VIOLATED:
            failure = SubElement(case, "failure", message=_legal(f"violated by {', '.join(cell.attacks)}"))
            failure.text = _legal("\n".join(cell.promises))
        elif cell.state not in (State.NOT_VIOLATED, State.NOT_APPLICABLE):
            SubElement(case, "skipped", message=_legal(f"{tables.cell_text(cell)}: {tables.MEANING[cell.state]}"))


def _legal(text: str) -> str:
    """Without what XML has no way to write."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else " " for letter in text)
