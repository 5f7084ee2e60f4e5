"""The scripts of `make docs` and `make wheel` reject what they are there to reject."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.repository import site_contents, wheel_contents

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


HARMLESS = '<link rel="stylesheet" href="a.css"><script src="b.js"></script><a href="https://example.org">away</a>'


@pytest.mark.parametrize(
    "loading",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="preconnect" href="https://example.org">',
        '<link href="//example.org/a.css" rel="stylesheet">',
        '<img src="http://example.org/a.png">',
    ],
)
def test_a_page_that_loads_from_elsewhere_is_a_fault(loading: str, tmp_path: Path) -> None:
    """A site loads its own files alone, at every depth; links to follow are none of its loads."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "page.html").write_text(HARMLESS)
    assert site_contents.faults(tmp_path) == []
    (tmp_path / "deep" / "page.html").write_text(HARMLESS + loading)
    (fault,) = site_contents.faults(tmp_path)
    assert fault.startswith("deep/page.html loads ")


def test_a_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    """A build that wrote elsewhere does not pass."""
    assert len(site_contents.faults(tmp_path)) == 1


def test_the_newest_flower_without_an_index_is_skipped(tmp_path: Path) -> None:
    """No index answers: the step says so and ends well, and PYTHON's own environment is as it was."""
    pytest.importorskip("flwr")
    quiet = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    script = Path(__file__).parents[2] / ".ci" / "newest"
    done = subprocess.run(
        [script, sys.executable], env=os.environ | quiet, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "skipped" in done.stdout
