"""The report as one self-contained page: no network, no script, equal bytes for an equal report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from fgl_secure.auditing import wording
from fgl_secure.auditing.chart import Axis, Row, chart_rows, common_axis
from fgl_secure.auditing.schema import Exposure
from fgl_secure.auditing.tables import accuracy_table, cost_table, exposure_table

if TYPE_CHECKING:
    from fgl_secure.auditing.records import Record
    from fgl_secure.auditing.schema import Findings


@dataclass(frozen=True, slots=True)
class Finding:
    """A record with everything that the page says about it."""

    anchor: str
    record: Record
    figure: str
    rows: tuple[Row, ...]
    limits: str
    in_the_clear: str
    knowledge: str
    control_failures: str
    detectable: str

    @property
    def icon(self) -> str:
        """Name of the verdict's shape and colour."""
        return self.record.verdict.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says about one protocol."""

    protocol: str
    summary: str
    findings: tuple[Finding, ...]
    exposures: tuple[tuple[str, tuple[Exposure, ...]], ...]
    claim: tuple[tuple[str, list[str]], ...]


def render_html(report: Findings) -> str:
    """The whole page as text. Every value of the report is escaped; the page refers to nothing outside itself."""
    environment = Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=PackageLoader("fgl_secure.auditing", "templates"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(count=wording.count_text, size=wording.bytes_text)
    return environment.get_template("report.html.j2").render(_context(report))


def _context(report: Findings) -> dict[str, object]:
    axis = common_axis(report.records)
    return {
        "title": title(report),
        "summary": wording.summary(report),
        "subject": _subject(report.run),
        "tally": [
            (verdict, wording.MEANING[verdict], sum(record.verdict is verdict for record in report.records))
            for verdict in wording.SEVERITY
        ],
        "terms": wording.TERMS,
        "ticks": axis.ticks(),
        "shows_data": len({(record.dataset, record.partition, record.seed) for record in report.records}) > 1,
        "sections": _sections(report, axis),
        "accuracy": accuracy_table(report),
        "cost": cost_table(report),
        "command": command_text(report.run.get("command")),
        "settings": [(key.replace("_", " "), _setting(value)) for key, value in report.run.items() if key != "command"],
        "notes": report.notes,
    }


def title(report: Findings) -> str:
    """The page's title, `Privacy audit of secmp on Cora`."""
    dataset = report.run.get("dataset")
    return f"Privacy audit of {report.audited}" + (f" on {dataset}" if dataset else "")


def command_text(command: object) -> str:
    """The command line as a shell reads it; arguments given as a list are quoted."""
    if isinstance(command, list):
        return shlex.join(str(part) for part in command)
    return str(command) if command else ""


def _sections(report: Findings, axis: Axis) -> list[Section]:
    numbers = {id(record): index for index, record in enumerate(report.records, start=1)}
    order = [report.audited, *(name for name in report.protocols if name != report.audited)]
    return [_section(report, name, axis, numbers) for name in order if name in report.protocols]


def _section(report: Findings, protocol: str, axis: Axis, numbers: Mapping[int, int]) -> Section:
    mine = [record for record in report.records if record.protocol == protocol]
    headings = (
        ("protects", "Claims to protect"),
        ("tested", "Tested by some attack here"),
        ("leaks_by_design", "Leaks by design"),
        ("assumes", "Assumes"),
        ("source", "Source"),
    )
    claim = [(heading, wording.claimed(report, protocol, key)) for key, heading in headings]
    return Section(
        protocol=protocol,
        summary=wording.protocol_summary(report, protocol),
        findings=tuple(_finding(record, axis, numbers[id(record)]) for record in wording.by_severity(mine)),
        exposures=exposure_table(report, protocol),
        claim=tuple((heading, statements) for heading, statements in claim if statements),
    )


def _finding(record: Record, axis: Axis, number: int) -> Finding:
    return Finding(
        anchor=f"finding-{number}",
        record=record,
        figure=wording.with_interval(record),
        rows=chart_rows(record, axis),
        limits=wording.limits(record),
        in_the_clear=wording.in_the_clear(record),
        knowledge=wording.knowledge(record),
        control_failures=wording.control_failures(record),
        detectable=wording.figure(record.detectable_advantage),
    )


def _subject(run: Mapping[str, object]) -> list[tuple[str, str]]:
    keys = ("dataset", "partition", "silos", "method", "preset", "backbone", "seed", "version")
    return [(key, _setting(run[key])) for key in keys if run.get(key) is not None]


def _setting(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_setting(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_setting(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
