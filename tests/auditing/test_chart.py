from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.auditing.html import Axis, axis_down_to, lanes, scatters
from fgl_secure.auditing.tables import groups
from fgl_secure.statistics.metrics import Interval
from tests.auditing.samples import ACCURACY, COST, RECORD, REPORT


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
    found = axis_down_to(lowest)
    assert found.low == axis
    assert [label for label, _ in found.ticks()] == labels


def test_a_lane_is_the_figure_that_exceeds_its_prior_most() -> None:
    """Each scheme has one line, with the interval around its figure, the prior, and its own mark."""
    weak = replace(RECORD, metric="advantage", value=0.3, ci95=Interval(0.2, 0.4), violates_guarantee=False, claim="")
    report = replace(REPORT, records=(weak, RECORD, replace(weak, protocol="plaintext")))
    ((entry,),) = (group.told for group in groups(report))
    first, second = lanes(entry, Axis(0.0), ("plaintext", "secmp"))
    assert (first.scheme, first.shape, first.tone) == ("plaintext", "circle", "found")
    assert (second.scheme, second.shape, second.tone) == ("secmp", "square", "violated")
    assert "exact recovery 0.998" in second.text
    assert first.low < first.at < first.high
    assert first.y < second.y


def test_figures_without_both_coordinates_are_left_out() -> None:
    """A plot of accuracy against a price needs two schemes that have both figures; others are not drawn."""
    assert [len(plot["points"]) for plot in scatters(REPORT, REPORT.protocols)] == [2, 2]
    none = {**COST, "bytes": None}
    half = replace(REPORT, cost={**COST, "protocols": {"plaintext": none, "secmp": COST}})
    assert [plot["title"] for plot in scatters(half, half.protocols)] == ["Accuracy against time of training"]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5), st.floats(1, 1e12))
def test_points_lie_inside_their_plot(scores: list[float], most: float) -> None:
    """Whatever the figures are, each has its place between the first and the last label of both axes."""
    names = [f"scheme-{i}" for i in range(len(scores))]
    accuracy = {name: {**ACCURACY, "test": score} for name, score in zip(names, scores, strict=True)}
    cost = {name: {**COST, "bytes": most / (i + 1)} for i, name in enumerate(names)}
    report = replace(
        REPORT,
        accuracy={**ACCURACY, "protocols": accuracy},
        cost={**COST, "protocols": cost},
        run={"protocol": names[0]},
    )
    for plot in scatters(report, names):
        assert all(0 <= point["x"] <= 100 and 0 <= point["y"] <= 100 for point in plot["points"])
        assert 2 <= len(plot["across"]) <= 8
        assert 2 <= len(plot["up"]) <= 8
