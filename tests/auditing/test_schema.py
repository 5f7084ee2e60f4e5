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
from tests.error_codes import about


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
        ("run", {"x": {"y": [1.0, nan]}}, "run.x.y[1]"),
        ("run", {3: "x"}, "run"),
        ("run", {"x": object()}, "run.x"),
        ("run", {"score": "charm"}, "run.score"),
        ("run", [1], "run"),
        ("accuracy", {"test": 0.5}, "accuracy"),
        ("accuracy", {**ACCURACY, "per_silo": 0.5}, "accuracy.per_silo"),
        ("accuracy", {**ACCURACY, "test": "high"}, "accuracy.test"),
        ("cost", {**COST, "protocols": {"secmp": {}}}, "cost.protocols.secmp"),
        ("cost", {**COST, "protocols": 3}, "cost.protocols"),
        ("claims", {"secmp": {"protects": "one sentence"}}, "claims.secmp.protects"),
        ("claims", {"secmp": {"promises": []}}, "claims.secmp"),
        ("records", [RECORD], "records"),
        ("notes", (3,), "notes"),
    ],
)
def test_a_malformed_report_is_refused(field: str, value: object, message: str) -> None:
    """Each part that breaks its rule raises an InputError that names the place."""
    changes: dict[str, Any] = {field: value}
    with pytest.raises(InputError, check=about(message)):
        replace(REPORT, **changes)


def test_an_exposure_counts_whole_messages() -> None:
    """Messages and bytes are whole and not negative, and the roles are text."""
    changes: list[dict[str, Any]] = [{"messages": -1}, {"bytes": 1.5}, {"phase": None}]
    for change in changes:
        with pytest.raises(InputError, check=about(next(iter(change)))):
            replace(EXPOSURE, **change)


def test_protocols_come_in_the_order_of_the_run() -> None:
    """The protocols of the run come first, then any that only findings or claims name."""
    report: Report = replace(REPORT, claims={"other": {}})
    assert report.protocols == ("plaintext", "secmp", "other")
    assert report.audited == "secmp"
