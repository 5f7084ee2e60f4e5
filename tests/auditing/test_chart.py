from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.auditing.chart import Axis, chart_rows, common_axis
from fgl_secure.statistics.intervals import Interval
from tests.auditing.samples import QUIET, RECORD


@given(st.floats(-1, 1), st.sampled_from([0.0, -0.1, -0.25, -0.5, -1.0]))
def test_positions_stay_on_the_axis(value: float, low: float) -> None:
    """Every figure has a place between 0 and 100 per cent, and larger figures are not further left."""
    axis = Axis(low)
    assert 0 <= axis.place(value) <= 100
    assert axis.place(value) <= axis.place(min(value + 0.1, 1.0))


@pytest.mark.parametrize(
    ("lowest", "axis", "labels"),
    [
        (0.0, 0.0, ["0", "0.25", "0.5", "0.75", "1"]),
        (-0.05, -0.1, ["0", "0.25", "0.5", "0.75", "1"]),
        (-0.2, -0.25, ["-0.25", "0", "0.25", "0.5", "0.75", "1"]),
        (-0.7, -1.0, ["-1", "-0.5", "0", "0.5", "1"]),
    ],
)
def test_one_axis_fits_every_finding(lowest: float, axis: float, labels: list[str]) -> None:
    """The shared axis reaches just below the smallest figure of the report, with labels at round values."""
    found = common_axis([RECORD, replace(RECORD, ci95=Interval(lowest, 1.0))])
    assert found.low == axis
    assert [label for label, _ in found.ticks()] == labels


def test_rows_carry_each_figure_once() -> None:
    """The measured figure comes first with its interval, and controls that do not apply have no row."""
    rows = chart_rows(QUIET, Axis(-0.1))
    assert [row.kind for row in rows] == ["measured", "clear", "prior", "random", "positive", "null"]
    assert rows[0].low < rows[0].at < rows[0].high
    assert rows[0].start == rows[0].zero
    assert rows[0].length == pytest.approx(rows[0].at - rows[0].zero, abs=0.01)
    assert rows[4].text == "1.000 (needs 0.900)"
    assert [row.kind for row in chart_rows(replace(QUIET, positive_control=None), Axis(-0.1))][-1] == "null"
