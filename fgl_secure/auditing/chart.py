"""Where the marks of a report's plots go: what was recovered, on one axis, and accuracy against bytes and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from fgl_secure.auditing.findings import AttackEntry, UnderScheme
from fgl_secure.auditing.plain import is_number
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import Findings, Score
from fgl_secure.auditing.tables import by_protocol
from fgl_secure.auditing.wording import bytes_text, figure, score_text, seconds_text, with_interval

_FLOORS = (0.0, -0.1, -0.25, -0.5, -1.0)

SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross", "bar")
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
class Lane:
    """What one attack found under one scheme, as one line of the plot.

    Attributes:
        scheme: whose.
        shape: of its mark.
        tone: contradicted, found, quiet or context.
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


def common_axis(records: Sequence[Record]) -> Axis:
    """The shortest axis on which every figure of the report fits, so that all compare."""
    return axis_down_to(min((min(each.value, each.ci95.low, each.prior) for each in records), default=0.0))


def axis_down_to(lowest: float) -> Axis:
    """The shortest axis that has room for a figure."""
    return Axis(next(floor_ for floor_ in _FLOORS if floor_ <= max(lowest, -1.0)))


def shape_of(schemes: Sequence[str], name: str) -> str:
    """The mark of a scheme."""
    return SHAPES[min(schemes.index(name), len(SHAPES) - 1)]


def lanes(entry: AttackEntry, axis: Axis, schemes: Sequence[str]) -> tuple[Lane, ...]:
    """The lines of one attack, one a scheme."""
    return tuple(_lane(each, axis, schemes, i) for i, each in enumerate(entry.schemes))


def _lane(each: UnderScheme, axis: Axis, schemes: Sequence[str], index: int) -> Lane:
    record = each.headline
    return Lane(
        scheme=each.scheme,
        shape=shape_of(schemes, each.scheme),
        tone=each.tone,
        text=f"{each.scheme}: {record.metric} {with_interval(record)}, prior {figure(record.prior)}",
        y=LANE * index + LANE // 2 + 2,
        at=axis.place(record.value),
        low=axis.place(record.ci95.low),
        high=axis.place(record.ci95.high),
        prior=axis.place(record.prior),
    )


@dataclass(frozen=True, slots=True)
class Point:
    """One scheme in a plot of accuracy against a price.

    Attributes:
        scheme: whose.
        shape: of its mark.
        x: per cent of the width, from the left.
        y: per cent of the height, from the top.
        text: both figures in words.
    """

    scheme: str
    shape: str
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """A plot of accuracy, or error, against a price.

    Attributes:
        title: what against what.
        points: one a scheme that has both figures.
        across: labels of the lower axis and their positions in per cent.
        up: labels of the left axis and their positions in per cent, from the top.
    """

    title: str
    points: tuple[Point, ...]
    across: tuple[tuple[str, float], ...]
    up: tuple[tuple[str, float], ...]


def scatters(report: Findings, schemes: Sequence[str]) -> tuple[Scatter, ...]:
    """Accuracy against bytes and against seconds, where two schemes or more have both."""
    prices: tuple[tuple[str, str, Callable[[object], str]], ...] = (
        ("bytes", "bytes sent", bytes_text), ("seconds", "time of training", seconds_text),
    )  # fmt: skip
    found = (_scatter(report, schemes, *price) for price in prices)
    return tuple(each for each in found if each is not None)


def _scatter(
    report: Findings, schemes: Sequence[str], key: str, name: str, says: Callable[[object], str]
) -> Scatter | None:
    scores, costs = by_protocol(report, report.accuracy), by_protocol(report, report.cost)
    read = {
        scheme: (float(str(costs[scheme][key])), float(str(scores[scheme]["test"])))
        for scheme in scores
        if scheme in costs and is_number(costs[scheme][key]) and is_number(scores[scheme]["test"])
    }
    if len(read) < 2:
        return None
    across, up = (
        _ticks(0.0, max(x for x, _ in read.values())),
        score_ticks(report.score, [y for _, y in read.values()]),
    )
    points = tuple(
        Point(
            scheme,
            shape_of(schemes, scheme),
            share(x, across),
            round(100 - share(y, up), 2),
            f"{scheme}: {score_text(report.score, y)}, {says(x)}",
        )
        for scheme, (x, y) in read.items()
    )
    return Scatter(
        f"{report.score.capitalize()} against {name}",
        points,
        tuple((says(x), share(x, across)) for x in across),
        tuple((score_text(report.score, y), round(100 - share(y, up), 2)) for y in up),
    )


def score_ticks(score: Score, values: Sequence[float]) -> list[float]:
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
