import json
import os
from pathlib import Path

import pytest

from fgl_secure.auditing import report as report_module
from fgl_secure.auditing.junit import render_junit
from fgl_secure.auditing.markdown import render_markdown
from fgl_secure.auditing.report import Report, render_html, write_report
from fgl_secure.errors import InputError
from tests.auditing.samples import REPORT
from tests.error_codes import about


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILES = ["report.html", "report.json", "report.md", "report.xml"]


def test_all_files_are_written(tmp_path: Path) -> None:
    """A missing folder is made, and the files hold what the renderers give, with nothing left beside them."""
    folder = tmp_path / "a" / "b"
    assert write_report(REPORT, folder) == tuple(folder / name for name in FILES)
    assert names(folder) == FILES
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == REPORT.to_json()
    assert (folder / "report.html").read_text(encoding="utf-8") == render_html(REPORT)
    assert (folder / "report.md").read_text(encoding="utf-8") == render_markdown(REPORT)
    assert (folder / "report.xml").read_text(encoding="utf-8") == render_junit(REPORT)


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    """Writing again into the same folder replaces all files, and equal reports give equal bytes."""
    write_report(REPORT, tmp_path)
    first = (tmp_path / "report.html").read_bytes()
    write_report(REPORT, tmp_path)
    assert (tmp_path / "report.html").read_bytes() == first
    assert names(tmp_path) == FILES


def test_a_render_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the page cannot be rendered, no folder is made and no file is written."""

    def fail(report: Report) -> str:
        raise RuntimeError(f"no page for {len(report.records)} records")

    monkeypatch.setattr(report_module, "render_html", fail)
    with pytest.raises(RuntimeError, match="no page"):
        write_report(REPORT, tmp_path / "new")
    assert names(tmp_path) == []


def test_a_failed_move_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the files cannot be moved into place, the old ones stay and no temporary file remains."""
    (tmp_path / "report.json").write_text("old", encoding="utf-8")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(f"{source.name} may not become {target.name}")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, check=about("folder")):
        write_report(REPORT, tmp_path)
    assert names(tmp_path) == ["report.json"]
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, below: str) -> None:
    """A path that is a file, or lies below one, raises an InputError that names it."""
    taken = tmp_path / "taken"
    taken.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, check=about("folder")):
        write_report(REPORT, taken / below if below else taken)
    assert taken.read_text(encoding="utf-8") == "mine"
