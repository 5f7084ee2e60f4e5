"""The report as one self-contained page: no network, no script, equal bytes for an equal report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fgl_secure.auditing import tables, wording
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.records import is_number
from fgl_secure.auditing.wording import Score

if TYPE_CHECKING:
    from fgl_secure.auditing.report import Exposure, Report


_NO_SETTINGS = {"command", "options"}
"""Parts of a report's run that repeat it; they stand elsewhere on the page."""


def render_html(report: Report) -> str:
    """The whole page as text. Every value of the report is escaped; the page loads nothing from outside itself."""
    return environment().get_template("report.html.j2").render(_context(report))


def render_matrix(report: Report) -> str:
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
        slug=lambda text: str(text).replace(" ", "-"), named=tables.join_names, clear=wording.in_the_clear,
    )  # fmt: skip
    return environment


def _context(report: Report) -> dict[str, object]:
    axis = axis_down_to(min((min(item.value, item.ci95.low, item.prior) for item in report.records), default=0.0))
    groups = tables.groups(report)
    names = tuple(dict.fromkeys((*tables.schemes(report), *report.protocols)))
    entries = tuple(entry for group in groups for entry in group.told)
    return {
        "title": title(report),
        "summary": wording.summary(report),
        "subject": _subject(report.run),
        "schemes": tables.schemes(report),
        "rows": tables.rows(report),
        "states": [(state, tables.MEANING[state]) for state in State],
        "groups": groups,
        "entries": [(entry, lanes(entry, axis, names)) for entry in entries],
        "lane": LANE,
        "drawn": [(name, _shape_of(names, name)) for name in names if _is_drawn(name, entries, report)],
        "ticks": axis.ticks(),
        "scatters": scatters(report, names),
        "overview": tables.overview(report),
        "shows_data": len({(record.dataset, record.partition, record.seed) for record in report.records}) > 1,
        "sections": _sections(report),
        "accuracy": {
            "title": report.score.capitalize(),
            "scale": wording.SCALE[report.score],
            "protocols": tuple(tables.by_protocol(report, report.accuracy)),
            "rows": tables.accuracy_rows(report),
        },
        "cost": tables.cost_rows(report),
        "terms": wording.TERMS,
        "verdicts": [(verdict, wording.MEANING[verdict]) for verdict in wording.SEVERITY],
        "command": command_text(report.run.get("command")),
        "settings": [
            (key.replace("_", " "), _setting(value)) for key, value in report.run.items() if key not in _NO_SETTINGS
        ],
        "notes": report.notes,
    }


def _is_drawn(name: str, entries: Sequence[tables.AttackEntry], report: Report) -> bool:
    """Whether a plot has a mark of a scheme."""
    return name in (report.audited_protocol, *_named_runs(report)) or any(
        scheme.scheme == name for entry in entries for scheme in entry.schemes
    )


def _named_runs(report: Report) -> list[str]:
    runs = report.run.get("protocols", ())
    return [str(name) for name in runs] if isinstance(runs, list) else []


def title(report: Report) -> str:
    """The page's title, `Privacy audit of secmp on Cora`."""
    dataset = report.run.get("dataset")
    return f"Privacy audit of {report.audited_protocol}" + (f" on {dataset}" if dataset else "")


def command_text(command: object) -> str:
    """The command line as a shell reads it; arguments given as a list are quoted."""
    if isinstance(command, list):
        return shlex.join(str(part) for part in command)
    return str(command) if command else ""


_HEADINGS = (
    ("protects", "Guarantees"),
    ("tested", "Tested by an attack"),
    ("leaks_by_design", "Declared leakage"),
    ("assumes", "Assumes"),
    ("source", "Source"),
)
"""Of the parts of a claim."""


def _sections(report: Report) -> list[dict[str, object]]:
    """What the page says about each scheme beside its findings, the audited one first."""
    return [
        {
            "protocol": name,
            "summary": wording.protocol_summary(report, name),
            "exposures": _exposures_by_party(report, name),
            "claim": [
                (head, sentences)
                for key, head in _HEADINGS
                if (sentences := wording.claim_sentences(report, name, key))
            ],
        }
        for name in dict.fromkeys((report.audited_protocol, *report.protocols))
        if name in report.protocols
    ]


def _exposures_by_party(report: Report, protocol: str) -> list[tuple[str, list[Exposure]]]:
    """What each party of a protocol received, parties in order of first appearance."""
    exposures = [row for row in report.exposures if row.protocol == protocol]
    parties = dict.fromkeys(row.receiver_role for row in exposures)
    return [(party, [row for row in exposures if row.receiver_role == party]) for party in parties]


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


_FLOORS = (0.0, -0.1, -0.25, -0.5, -1.0)

_SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross", "bar")
"""Marks of schemes, in the order of the report; the last is that of all others."""

LANE = 14
"""Height of one scheme's line in the plot, in pixels."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis from `low` to 1, drawn over a width of 100 %."""

    low: float

    def place(self, value: float) -> float:
        """The position of a value in per cent of the width, two decimals."""
        share = (value - self.low) / (1 - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def ticks(self) -> tuple[tuple[str, float], ...]:
        """Labels and positions of the grid lines: quarters, or halves when the axis goes down to -1."""
        step = 0.5 if self.low < -0.5 else 0.25
        values = [step * i for i in range(ceil(self.low / step), round(1 / step) + 1)]
        return tuple((f"{value:g}", self.place(value)) for value in values)


@dataclass(frozen=True, slots=True)
class _Lane:
    """What one attack found under one scheme, as one line of the plot.

    Attributes:
        scheme: whose.
        shape: of its mark.
        tone: violated, found, quiet or context.
        text: the figure with its interval, and what it measures.
        y: middle of the line, in pixels from the top of the attack's plot.
        at: position of the figure, per cent; `low` and `high` are those of its interval, `prior` of the prior.
        low: see `at`.
        high: see `at`.
        prior: see `at`.
    """

    scheme: str
    shape: str
    tone: str
    text: str
    y: int
    at: float
    low: float
    high: float
    prior: float


def axis_down_to(lowest: float) -> Axis:
    """The shortest axis that has room for a figure."""
    return Axis(next(floor_ for floor_ in _FLOORS if floor_ <= max(lowest, -1.0)))


def _shape_of(schemes: Sequence[str], name: str) -> str:
    """The mark of a scheme."""
    return _SHAPES[min(schemes.index(name), len(_SHAPES) - 1)]


def lanes(entry: tables.AttackEntry, axis: Axis, schemes: Sequence[str]) -> tuple[_Lane, ...]:
    """The lines of one attack, one a scheme."""
    return tuple(_lane(scheme, axis, schemes, i) for i, scheme in enumerate(entry.schemes))


def _lane(item: tables.UnderScheme, axis: Axis, schemes: Sequence[str], index: int) -> _Lane:
    record = item.headline
    return _Lane(
        scheme=item.scheme,
        shape=_shape_of(schemes, item.scheme),
        tone=item.tone,
        text=f"{item.scheme}: {record.metric} {wording.with_interval(record)}, baseline {wording.figure(record.prior)}",
        y=LANE * index + LANE // 2 + 2,
        at=axis.place(record.value),
        low=axis.place(record.ci95.low),
        high=axis.place(record.ci95.high),
        prior=axis.place(record.prior),
    )


def scatters(report: Report, schemes: Sequence[str]) -> list[dict[str, Any]]:
    """Plots of the score against bytes and against seconds, where two schemes or more have both.

    Returns:
        Of each plot its title; its points, with shape, place in per cent from the left and from the top, and both
        figures in words; and the labels of the axes across and up, with their places.
    """
    scores, costs = tables.by_protocol(report, report.accuracy), tables.by_protocol(report, report.cost)
    prices: tuple[tuple[str, str, Callable[[object], str]], ...] = (
        ("bytes", "bytes sent", wording.bytes_text), ("seconds", "time of training", wording.seconds_text),
    )  # fmt: skip
    plots = []
    for key, name, says in prices:
        both = {scheme: (costs[scheme][key], scores[scheme]["test"]) for scheme in scores if scheme in costs}
        coordinates = {scheme: (x, y) for scheme, (x, y) in both.items() if is_number(x) and is_number(y)}
        if len(coordinates) < 2:
            continue
        across = _ticks(0.0, max(x for x, _ in coordinates.values()))
        up = _score_ticks(report.score, [y for _, y in coordinates.values()])
        points = [
            {
                "shape": _shape_of(schemes, scheme),
                "x": share(x, across),
                "y": round(100 - share(y, up), 2),
                "text": f"{scheme}: {wording.score_text(report.score, y)}, {says(x)}",
            }
            for scheme, (x, y) in coordinates.items()
        ]
        plots.append({
            "title": f"{report.score.capitalize()} against {name}",
            "points": points,
            "across": [(says(x), share(x, across)) for x in across],
            "up": [(wording.score_text(report.score, y), round(100 - share(y, up), 2)) for y in up],
        })  # fmt: skip
    return plots


def _score_ticks(score: Score, values: Sequence[float]) -> list[float]:
    """Ticks around all scores, with room above and below; shares stay within 0 and 1."""
    low, high = min(values), max(values)
    room = max((high - low) / 4, 0.02 if score is Score.ACCURACY else 0.02 * max(abs(high), 1e-9))
    ticks = _ticks(low - room, high + room)
    return [tick for tick in ticks if score is not Score.ACCURACY or 0 <= tick <= 1] or [0.0, 1.0]


def _ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers, of which the first is at most `low` and the last at least `high`."""
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low, low + 1]
    raw = (high - low) / 4
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * k for k in (1, 2, 2.5, 5, 10) if unit * k >= raw)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(step * i, 12) for i in range(first, last + 1)]


def share(value: float, ticks: Sequence[float]) -> float:
    """Where a value is between the first and the last tick, in per cent."""
    return round(100 * min(max((value - ticks[0]) / (ticks[-1] - ticks[0]), 0.0), 1.0), 2)
