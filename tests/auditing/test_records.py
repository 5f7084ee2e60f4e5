from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import InputError
from fgl_secure.statistics.metrics import Interval
from tests.auditing.samples import QUIET, RECORD
from tests.error_codes import about


def test_json_holds_the_agreed_keys() -> None:
    """The keys of the JSON form are those of the report schema, with intervals as pairs."""
    data = RECORD.to_json()
    agreed = "attack view coalition protocol dataset partition metric value ci95 random prior n seed positive_control"
    assert {*agreed.split(), "null_control", "verdict", "violates_guarantee"} <= set(data)
    assert data["ci95"] == [0.994, 1.0]
    assert data["verdict"] == "broken"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value", nan),
        ("value", 1.5),
        ("random", -inf),
        ("prior", "0.1"),
        ("positive_control", 2.0),
        ("null_control", nan),
        ("ci95", Interval(0.0, 0.5)),
        ("finding", ""),
    ],
)
def test_a_bad_figure_is_refused_by_name(field: str, value: object) -> None:
    """A figure or text of an attack that breaks its rule raises an InputError that names it."""
    changes: dict[str, Any] = {field: value}
    with pytest.raises(InputError, check=about(field)):
        replace(RECORD, **changes)


def test_a_contradiction_is_an_exposure_with_its_claim() -> None:
    """Only a figure that shows something violates a guarantee, and names it."""
    for changes in ({"verdict": Verdict.NOT_DETECTED}, {"claim": " "}):
        with pytest.raises(InputError, check=about("violates_guarantee")):
            replace(RECORD, **changes)


def test_measured_verdicts_need_a_null_control() -> None:
    """Without a null control only context stands."""
    with pytest.raises(InputError, check=about("null_control")):
        replace(QUIET, null_control=None, null_interval=None)
    context = replace(QUIET, null_control=None, null_interval=None, verdict=Verdict.CONTEXT)
    assert context.controls_hold


def test_a_value_may_miss_its_interval_by_rounding_only() -> None:
    assert replace(RECORD, value=0.5, ci95=Interval(0.5 + 1e-10, 0.6)).value == 0.5
    with pytest.raises(InputError, check=about("ci95")):
        replace(RECORD, value=0.5, ci95=Interval(0.5 + 1e-8, 0.6))


@pytest.mark.parametrize(
    ("positive", "null_low", "prior", "holds"),
    [
        (0.9, 0.05, 0.0, True),
        (0.899, 0.0, 0.0, False),
        (None, 0.0, 0.0, True),
        (1.0, 0.051, 0.0, False),
        (1.0, 0.34, 0.3, True),
        (1.0, 0.36, 0.3, False),
    ],
)
def test_controls_hold_at_their_limits(positive: float | None, null_low: float, prior: float, holds: bool) -> None:
    """The positive control reaches its floor, and the null control is at most .05 above chance and prior."""
    null = Interval(null_low, 0.5)
    record = replace(RECORD, positive_control=positive, null_control=0.5, null_interval=null, prior=prior)
    assert record.controls_hold is holds


def test_numpy_floats_become_plain_numbers() -> None:
    """Figures computed by numpy are written as plain JSON numbers."""
    assert type(replace(RECORD, value=np.float64(0.998)).to_json()["value"]) is float
