"""The scripts of `make tests` and `make wheel` reject what they are there to reject."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.repository import floor, wheel_contents

IN_THE_TREE = {
    "fgl_secure/__init__.py": "",
    "fgl_secure/auditing/templates/page.html": "<p>",
    "protocols/secmp.py": "a",
}
IN_THE_WHEEL = {
    "fgl_secure/__init__.py": "",
    "fgl_secure/auditing/templates/page.html": "<p>",
    "fgl_secure/protocols/secmp.py": "a",
    "fgl_secure-1.dist-info/licenses/LICENSE": "",
}


def tree(folder: Path) -> Path:
    for name, text in IN_THE_TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "fgl_secure" / "protocols").symlink_to("../protocols")
    return folder


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "fgl_secure-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def report(folder: Path, tests: int, skipped: int) -> Path:
    path = folder / "report.xml"
    path.write_text(f'<testsuites><testsuite tests="{tests}" skipped="{skipped}" failures="0"/></testsuites>')
    return path


def test_wheel_equal_to_the_tree_has_no_faults(tmp_path: Path) -> None:
    """A wheel with each file of the tree under its qualified name, and the licence, passes."""
    assert wheel_contents.faults(wheel(tmp_path, IN_THE_WHEEL), tree(tmp_path / "tree")) == []


@pytest.mark.parametrize("name", IN_THE_WHEEL)
def test_missing_file_is_a_fault(name: str, tmp_path: Path) -> None:
    """A wheel that lacks any one of its files is rejected."""
    files = {other: text for other, text in IN_THE_WHEEL.items() if other != name}
    assert len(wheel_contents.faults(wheel(tmp_path, files), tree(tmp_path / "tree"))) == 1


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("protocols/secmp.py", "protocols/secmp.py is in the wheel, not in the tree"),
        ("fgl_secure/stale.py", "fgl_secure/stale.py is in the wheel, not in the tree"),
        ("fgl_secure/protocols/secmp.py", "fgl_secure/protocols/secmp.py differs from the tree"),
    ],
)
def test_other_content_is_a_fault(name: str, fault: str, tmp_path: Path) -> None:
    """A wheel with a top-level `protocols`, a stale module or a changed file is rejected."""
    path = wheel(tmp_path, {**IN_THE_WHEEL, name: "b"})
    assert wheel_contents.faults(path, tree(tmp_path / "tree")) == [fault]


@pytest.mark.parametrize(("tests", "skipped"), [(floor.FLOOR - 1, 0), (floor.FLOOR + 5, 6)])
def test_fewer_tests_than_the_floor_stop_the_run(tests: int, skipped: int, tmp_path: Path) -> None:
    """A run below the floor fails, and skipped tests don't count."""
    with pytest.raises(SystemExit, match=rf"{floor.FLOOR - 1} tests ran; expected {floor.FLOOR} or more"):
        floor.main(str(report(tmp_path, tests, skipped)))


def test_as_many_tests_as_the_floor_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run at the floor passes and says how many tests ran."""
    floor.main(str(report(tmp_path, floor.FLOOR + 2, 2)))
    assert capsys.readouterr().out.startswith(f"{floor.FLOOR} tests ran")
