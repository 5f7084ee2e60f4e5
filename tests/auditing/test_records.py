import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.auditing.records import Record, Verdict
from fgl_secure.errors import InputError
from fgl_secure.statistics.intervals import Interval
from tests.auditing.samples import QUIET, RECORD
from tests.error_codes import about

texts = st.text(min_size=1).filter(str.strip)
figures = st.floats(-1, 1)


def around(value: float, width: float) -> Interval:
    return Interval(value - width, value + width)


@st.composite
def records(draw: st.DrawFn) -> Record:
    value, null, width = draw(figures), draw(figures), draw(st.floats(0, 0.5))
    verdict = draw(st.sampled_from(Verdict))
    return replace(
        RECORD,
        attack=draw(texts),
        finding=draw(texts),
        value=value,
        ci95=around(value, width),
        prior=draw(figures),
        n=draw(st.integers(0, 10**9)),
        positive_control=draw(st.none() | figures),
        null_control=null,
        null_interval=around(null, width),
        verdict=verdict,
        contradicts_claim=verdict.is_exposure and draw(st.booleans()),
    )


@given(records())
def test_a_record_survives_json(record: Record) -> None:
    """Written as JSON text and read again, a record equals itself."""
    assert Record.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False))) == record


def test_json_holds_the_agreed_keys() -> None:
    """The keys of the JSON form are those of the report schema, with intervals as pairs."""
    data = RECORD.to_json()
    agreed = "attack view coalition protocol dataset partition metric value ci95 random prior n seed positive_control"
    assert {*agreed.split(), "null_control", "verdict", "contradicts_claim"} <= set(data)
    assert data["ci95"] == [0.994, 1.0]
    assert data["verdict"] == "broken"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("value", nan, "value"),
        ("value", 1.5, "value"),
        ("random", -inf, "random"),
        ("prior", "0.1", "prior"),
        ("positive_control", 2.0, "positive_control"),
        ("null_control", nan, "null_control"),
        ("positive_minimum", None, "positive_minimum"),
        ("ci95", Interval(0.0, 0.5), "ci95"),
        ("ci95", (0.9, 1.0), "ci95"),
        ("null_interval", Interval(0.5, 0.6), "null_interval"),
        ("null_interval", None, "null_control and null_interval"),
        ("n", -1, "n"),
        ("n", True, "n"),
        ("seed", 1.5, "seed"),
        ("detectable_advantage", inf, "detectable_advantage"),
        ("verdict", "broken", "verdict"),
        ("verdict", Verdict.NOT_DETECTED, ""),
        ("claim", " ", ""),
        ("finding", "", "finding"),
        ("attack", 3, "attack"),
    ],
)
def test_a_bad_field_is_refused_by_name(field: str, value: object, message: str) -> None:
    """A field that breaks its rule raises an InputError that names it."""
    changes: dict[str, Any] = {field: value}
    with pytest.raises(InputError, check=about(message)):
        replace(RECORD, **changes)


def test_measured_verdicts_need_a_null_control() -> None:
    """Without a null control only context stands."""
    with pytest.raises(InputError, check=about("null_control")):
        replace(QUIET, null_control=None, null_interval=None)
    context = replace(QUIET, null_control=None, null_interval=None, verdict=Verdict.CONTEXT)
    assert context.controls_hold


def test_a_value_may_miss_its_interval_by_rounding_only() -> None:
    """The interval contains the value within 1e-9."""
    assert replace(RECORD, value=0.5, ci95=Interval(0.5 + 1e-10, 0.6)).value == 0.5
    with pytest.raises(InputError):
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


def test_unknown_and_missing_keys_are_refused() -> None:
    """A record is read only when its keys are exactly those of the schema, and its verdict is known."""
    data = RECORD.to_json()
    with pytest.raises(InputError, check=about("a record")):
        Record.from_json({**data, "extra": 1})
    with pytest.raises(InputError, check=about("a record")):
        Record.from_json({key: item for key, item in data.items() if key != "value"})
    with pytest.raises(InputError, check=about("verdict")):
        Record.from_json({**data, "verdict": "fine"})
    with pytest.raises(InputError, check=about("ci95")):
        Record.from_json({**data, "ci95": [0.1]})
