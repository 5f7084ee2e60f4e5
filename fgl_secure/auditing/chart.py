"""Where the marks of a finding's chart go: one axis for the whole report, one row a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from fgl_secure.auditing.records import Record
from fgl_secure.auditing.wording import figure, with_interval
from fgl_secure.statistics.intervals import Interval

_FLOORS = (0.0, -0.1, -0.25, -0.5, -1.0)


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
class Row:
    """One figure of a chart.

    Attributes:
        label: what it is.
        kind: measured, clear, prior, random, positive or null; picks the mark.
        text: the figure in digits.
        zero: position of 0 on the axis, per cent.
        at: position of the figure, per cent.
        low: position of the lower end of its interval; equals `at` without one.
        high: position of the upper end.
    """

    label: str
    kind: str
    text: str
    zero: float
    at: float
    low: float
    high: float

    @property
    def start(self) -> float:
        """Left end of the bar between 0 and the figure."""
        return min(self.zero, self.at)

    @property
    def length(self) -> float:
        """Length of that bar."""
        return round(abs(self.at - self.zero), 2)

    @property
    def span(self) -> float:
        """Length of the interval."""
        return round(self.high - self.low, 2)


def common_axis(records: Sequence[Record]) -> Axis:
    """The shortest axis on which every figure of the report fits, so that all charts compare."""
    lowest = min((_lowest(record) for record in records), default=0.0)
    return Axis(next(floor for floor in _FLOORS if floor <= max(lowest, -1.0)))


def chart_rows(record: Record, axis: Axis) -> tuple[Row, ...]:
    """The figure first, then each baseline and control that the record has."""
    measured = _row("this run", "measured", record.value, axis, record.ci95)
    rows = [replace(measured, text=with_interval(record))]
    if record.in_the_clear is not None:
        rows.append(_row("in the clear", "clear", record.in_the_clear, axis))
    rows.append(_row("prior", "prior", record.prior, axis))
    rows.append(_row("random guess", "random", record.random, axis))
    if record.positive_control is not None:
        control = _row("positive control", "positive", record.positive_control, axis)
        rows.append(replace(control, text=f"{control.text} (needs {figure(record.positive_minimum)})"))
    if record.null_control is not None:
        rows.append(_row("null control", "null", record.null_control, axis, record.null_interval))
    return tuple(rows)


def _lowest(record: Record) -> float:
    figures = [record.value, record.ci95.low, record.random, record.prior]
    if record.null_control is not None and record.null_interval is not None:
        figures += [record.null_control, record.null_interval.low]
    return min([*figures, record.positive_control or 0.0, record.in_the_clear or 0.0])


def _row(label: str, kind: str, value: float, axis: Axis, interval: Interval | None = None) -> Row:
    ends = interval or Interval(value, value)
    return Row(
        label=label,
        kind=kind,
        text=figure(value),
        zero=axis.place(0.0),
        at=axis.place(value),
        low=axis.place(ends.low),
        high=axis.place(ends.high),
    )
