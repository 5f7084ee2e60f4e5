import json
import os
import sys
from dataclasses import replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fgl_secure.auditing import report as report_module
from fgl_secure.auditing.html import render_html
from fgl_secure.auditing.report import Report, render_json
from fgl_secure.auditing.texts import render_junit, render_markdown
from fgl_secure.errors import InputError
from tests.auditing.samples import RECORD, REPORT
from tests.error_codes import about


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILES = ["report.html", "report.json", "report.md", "report.xml"]


def test_all_files_are_written(tmp_path: Path) -> None:
    """A missing folder is made, and the files hold what the renderers give, with nothing left beside them."""
    folder = tmp_path / "a" / "b"
    assert REPORT.write(folder) == tuple(folder / name for name in FILES)
    assert names(folder) == FILES
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == REPORT.to_json()
    assert (folder / "report.html").read_text(encoding="utf-8") == render_html(REPORT)
    assert (folder / "report.md").read_text(encoding="utf-8") == render_markdown(REPORT)
    assert (folder / "report.xml").read_text(encoding="utf-8") == render_junit(REPORT)


def test_a_report_is_read_again(tmp_path: Path) -> None:
    REPORT.write(tmp_path)
    assert Report.read(tmp_path) == Report.read(str(tmp_path / "report.json")) == REPORT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 3}', '{"schema": 4}', "\xff", "[" * 100_000])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, check=about("path")):
        Report.read(tmp_path)


@pytest.mark.parametrize("path", [3, "absent"])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    with pytest.raises(InputError, check=about("path")):
        Report.read(path)
    if path == 3:
        with pytest.raises(InputError, check=about("folder")):
            REPORT.write(path)


def test_findings_become_a_data_frame_where_pandas_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows, **_: rows))
    (row, *_), low = REPORT.to_dataframe(), REPORT.records[0].ci95.low
    assert (row["attack"], row["ci95_low"], "ci95" in row) == (REPORT.records[0].attack, low, False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, check=about("pandas")):
        REPORT.to_dataframe()


def test_findings_are_plotted_beside_their_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = REPORT.plot().axes[0]
    measured = [record for record in REPORT.records if record.verdict.is_measured]
    assert [value for line in axes.get_lines() for value in line.get_xdata()] == [record.value for record in measured]
    assert [bar.get_width() for bar in axes.patches] == [record.prior for record in measured]
    with pytest.raises(InputError, check=about("records")):
        replace(REPORT, records=()).plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, check=about("matplotlib")):
        REPORT.plot()


def test_a_finding_prints_on_one_line_with_its_baseline() -> None:
    assert len(repr(RECORD)) < 160
    assert f"prior {RECORD.prior:.3f}" in repr(RECORD)


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    """Writing again into the same folder replaces all files, and equal reports give equal bytes."""
    REPORT.write(tmp_path)
    first = (tmp_path / "report.html").read_bytes()
    REPORT.write(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == first
    assert names(tmp_path) == FILES


def test_a_render_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the page cannot be rendered, no folder is made and no file is written."""

    def fail(report: Report) -> str:
        raise RuntimeError(f"no page for {len(report.records)} records")

    monkeypatch.setattr(report_module, "render_html", fail)
    with pytest.raises(RuntimeError, match="no page"):
        REPORT.write(tmp_path / "new")
    assert names(tmp_path) == []


def test_a_failed_move_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the files cannot be moved into place, the old ones stay and no temporary file remains."""
    (tmp_path / "report.json").write_text("old", encoding="utf-8")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(f"{source.name} may not become {target.name}")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, check=about("folder")):
        REPORT.write(tmp_path)
    assert names(tmp_path) == ["report.json"]
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, below: str) -> None:
    """A path that is a file, or lies below one, raises an InputError that names it."""
    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, check=about("folder")):
        REPORT.write(taken / below if below else taken)
    assert taken.read_text(encoding="utf-8") == "mine"


def test_json_has_the_agreed_shape() -> None:
    """The JSON form has schema 3, the agreed top level, and every record in full."""
    data = json.loads(render_json(REPORT))
    assert list(data) == [
        "schema", "run", "matrix", "accuracy", "cost", "records", "attacks", "exposures", "claims", "notes",
    ]  # fmt: skip
    assert data["schema"] == 4
    assert data["records"] == [record.to_json() for record in REPORT.records]
    assert data["accuracy"]["protocols"]["secmp"]["per_silo"] == [0.84, None, 0.79]


def test_a_report_does_not_follow_later_changes() -> None:
    """Mappings are copied on construction, with numpy values made plain."""
    run: dict[str, Any] = {"dataset": "Cora", "rates": np.array([0.5])}
    report = replace(REPORT, run=run)
    run["dataset"] = "other"
    assert report.run == {"dataset": "Cora", "rates": [0.5]}


@pytest.mark.parametrize("value", [{"x": {"y": [1.0, nan]}}, {3: "x"}, {"x": object()}, [1]])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """NaN, keys that are no text, and objects are refused."""
    with pytest.raises(InputError):
        replace(REPORT, run=value)


def test_protocols_come_in_the_order_of_the_run() -> None:
    """The protocols of the run come first, then any that only findings or claims name."""
    report: Report = replace(REPORT, claims={"other": {}})
    assert report.protocols == ("plaintext", "secmp", "other")
    assert report.audited_protocol == "secmp"
    assert report.violations == (RECORD,)


@pytest.mark.parametrize(("name", "value"), [("attack", 5), ("prior", None), ("value", "0.5"), ("contradicts", True)])
def test_values_of_other_types_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    values = REPORT.to_json()
    record = cast(dict[str, Any], cast(list[Any], values["records"])[0])
    record[name] = value
    (tmp_path / "report.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, check=about("path")):
        Report.read(tmp_path)


def test_addresses_that_run_code_are_no_links() -> None:
    papers = {"papers": {"a paper": "javascript:alert(1)"}}
    told = {name: {**cast(dict[str, Any], card), **papers} for name, card in REPORT.attacks.items()}
    assert "javascript:" not in render_html(replace(REPORT, attacks=told))


def test_no_findings_are_a_data_frame_with_columns() -> None:
    frame = replace(REPORT, records=()).to_dataframe()
    assert {"method", "verdict", "ci95_low"} <= set(frame.columns)
