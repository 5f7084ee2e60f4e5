from __future__ import annotations

import json
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report, contradictions, render_json
from fgl_secure.errors import InputError
from tests.auditing.samples import ACCURACY, COST, EXPOSURE, RECORD, REPORT


def test_json_has_the_agreed_shape() -> None:
    """The JSON form has schema 3, the agreed top level, and every record in full."""
    data = json.loads(render_json(REPORT))
    assert list(data) == [
        "schema", "run", "matrix", "accuracy", "cost", "records", "attacks", "exposures", "claims", "notes",
    ]  # fmt: skip
    assert data["schema"] == 3
    assert tuple(Record.from_json(item) for item in data["records"]) == REPORT.records
    assert data["accuracy"]["protocols"]["secmp"]["per_silo"] == [0.84, None, 0.79]


def test_contradictions_are_the_records_that_say_so() -> None:
    """Only findings that contradict a claim are returned, in order."""
    assert contradictions(REPORT) == (RECORD,)


def test_a_report_does_not_follow_later_changes() -> None:
    """Mappings are copied on construction, with numpy values made plain."""
    run: dict[str, Any] = {"dataset": "Cora", "rates": np.array([0.5])}
    report = replace(REPORT, run=run)
    run["dataset"] = "other"
    assert report.run == {"dataset": "Cora", "rates": [0.5]}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("run", {"x": {"y": [1.0, nan]}}, r"run\.x\.y\[1\] must be text, a finite number"),
        ("run", {3: "x"}, "run must have text keys"),
        ("run", {"x": object()}, r"run\.x must be"),
        ("run", {"score": "charm"}, r"run\.score must be one of accuracy, mean absolute error; found 'charm'"),
        ("run", [1], "run must be a mapping"),
        ("accuracy", {"test": 0.5}, "accuracy must have the keys .*missing validation, per_silo"),
        ("accuracy", {**ACCURACY, "per_silo": 0.5}, r"accuracy\.per_silo must be a list"),
        ("accuracy", {**ACCURACY, "test": "high"}, r"accuracy\.test must hold numbers"),
        ("cost", {**COST, "protocols": {"secmp": {}}}, r"cost\.protocols\.secmp must have the keys"),
        ("cost", {**COST, "protocols": 3}, r"cost\.protocols must be a mapping"),
        ("claims", {"secmp": {"protects": "one sentence"}}, r"claims\.secmp\.protects must be a list"),
        ("claims", {"secmp": {"promises": []}}, "keys among protects"),
        ("records", [RECORD], "records must be a tuple of Record"),
        ("notes", (3,), "notes must be a tuple of str"),
    ],
)
def test_a_malformed_report_is_refused(field: str, value: object, message: str) -> None:
    """Each part that breaks its rule raises an InputError that names the place."""
    changes: dict[str, Any] = {field: value}
    with pytest.raises(InputError, match=message):
        replace(REPORT, **changes)


def test_an_exposure_counts_whole_messages() -> None:
    """Messages and bytes are whole and not negative, and the roles are text."""
    changes: list[dict[str, Any]] = [{"messages": -1}, {"bytes": 1.5}, {"phase": None}]
    for change in changes:
        with pytest.raises(InputError, match=f"{next(iter(change))} must be"):
            replace(EXPOSURE, **change)


def test_protocols_come_in_the_order_of_the_run() -> None:
    """The protocols of the run come first, then any that only findings or claims name."""
    report: Report = replace(REPORT, claims={"other": {}})
    assert report.protocols == ("plaintext", "secmp", "other")
    assert report.audited == "secmp"
