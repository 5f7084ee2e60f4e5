"""The report as one self-contained page: no network, no script, equal bytes for an equal report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from fgl_secure.auditing import chart, findings, picture, wording
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.tables import accuracy_table, cost_table, exposure_table, overview

if TYPE_CHECKING:
    from fgl_secure.auditing.schema import Exposure, Findings


@dataclass(frozen=True, slots=True)
class Section:
    """What the page says about one scheme beside its findings."""

    protocol: str
    summary: str
    exposures: tuple[tuple[str, tuple[Exposure, ...]], ...]
    claim: tuple[tuple[str, list[str]], ...]


def render_html(report: Findings) -> str:
    """The whole page as text. Every value of the report is escaped; the page loads nothing from outside itself."""
    return environment().get_template("report.html.j2").render(_context(report))


def render_matrix(report: Findings) -> str:
    """The matrix alone, as a piece of a page such as a notebook's, with its own style."""
    return environment().get_template("matrix.html.j2").render(_context(report))


def environment() -> Environment:
    """What renders the templates of reports, with their filters."""
    environment = Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=PackageLoader("fgl_secure.auditing", "templates"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        count=wording.count_text, size=wording.bytes_text, figure=wording.figure, interval=wording.with_interval,
        slug=lambda text: str(text).replace(" ", "-"), named=picture.named, clear=wording.in_the_clear,
    )  # fmt: skip
    return environment


def _context(report: Findings) -> dict[str, object]:
    axis = chart.common_axis(report.records)
    groups = findings.groups(report)
    names = tuple(dict.fromkeys((*picture.schemes(report), *report.protocols)))
    entries = findings.drawn(groups)
    return {
        "title": title(report),
        "summary": wording.summary(report),
        "subject": _subject(report.run),
        "schemes": picture.schemes(report),
        "rows": picture.rows(report),
        "states": [(state, picture.MEANING[state]) for state in State],
        "groups": groups,
        "entries": [(entry, chart.lanes(entry, axis, names)) for entry in entries],
        "lane": chart.LANE,
        "drawn": [(name, chart.shape_of(names, name)) for name in names if _is_drawn(name, entries, report)],
        "ticks": axis.ticks(),
        "scatters": chart.scatters(report, names),
        "overview": overview(report),
        "shows_data": len({(record.dataset, record.partition, record.seed) for record in report.records}) > 1,
        "sections": _sections(report),
        "accuracy": accuracy_table(report),
        "cost": cost_table(report),
        "terms": wording.TERMS,
        "verdicts": [(verdict, wording.MEANING[verdict]) for verdict in wording.SEVERITY],
        "command": command_text(report.run.get("command")),
        "settings": [(key.replace("_", " "), _setting(value)) for key, value in report.run.items() if key != "command"],
        "notes": report.notes,
    }


def _is_drawn(name: str, entries: Sequence[findings.AttackEntry], report: Findings) -> bool:
    """Whether a plot has a mark of a scheme."""
    return name in (report.audited, *_named_runs(report)) or any(
        each.scheme == name for entry in entries for each in entry.schemes
    )


def _named_runs(report: Findings) -> list[str]:
    runs = report.run.get("protocols", ())
    return [str(name) for name in runs] if isinstance(runs, list) else []


def title(report: Findings) -> str:
    """The page's title, `Privacy audit of secmp on Cora`."""
    dataset = report.run.get("dataset")
    return f"Privacy audit of {report.audited}" + (f" on {dataset}" if dataset else "")


def command_text(command: object) -> str:
    """The command line as a shell reads it; arguments given as a list are quoted."""
    if isinstance(command, list):
        return shlex.join(str(part) for part in command)
    return str(command) if command else ""


def _sections(report: Findings) -> list[Section]:
    order = [report.audited, *(name for name in report.protocols if name != report.audited)]
    return [_section(report, name) for name in order if name in report.protocols]


def _section(report: Findings, protocol: str) -> Section:
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
        exposures=exposure_table(report, protocol),
        claim=tuple((heading, statements) for heading, statements in claim if statements),
    )


def _subject(run: Mapping[str, object]) -> list[tuple[str, str]]:
    keys = ("dataset", "partition", "silos", "method", "preset", "backbone", "seed", "version")
    return [(key, _setting(run[key])) for key in keys if run.get(key) not in (None, "")]


def _setting(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_setting(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_setting(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
