"""What is built is what is in the tree, under one name."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository import site_contents, wheel_contents

ROOT = Path(__file__).parents[2]
LINKED = ("protocols", "attacks")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def packages_in_tree() -> list[str]:
    """Every folder with an __init__.py below the three roots, by the name under which it is imported."""
    found = []
    for folder, name in (("fgl_secure", "fgl_secure"), *((linked, f"fgl_secure.{linked}") for linked in LINKED)):
        for init in (ROOT / folder).rglob("__init__.py"):
            below = init.parent.relative_to(ROOT / folder)
            if not any(parent.is_symlink() for parent in init.parents):
                found.append(".".join([name, *below.parts]))
    return sorted(found)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code at the root of the repository, where both names of a linked folder can be found."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_listed_packages_are_those_of_the_tree() -> None:
    """A package that is forgotten in pyproject.toml would vanish from the wheel; one that is gone would break it."""
    assert sorted(SETTINGS["packages"]) == packages_in_tree()


def test_package_folders_are_mapped() -> None:
    """The build finds the linked packages in their real folders."""
    expected = {"fgl_secure": "fgl_secure", **{f"fgl_secure.{linked}": linked for linked in LINKED}}
    assert SETTINGS["package-dir"] == expected


@pytest.mark.parametrize("linked", LINKED)
def test_links_are_relative(linked: str) -> None:
    """The tree holds links that work wherever it is cloned."""
    link = ROOT / "fgl_secure" / linked
    assert link.is_symlink()
    assert os.readlink(link) == f"../{linked}"
    assert link.resolve() == ROOT / linked


@pytest.mark.parametrize("linked", LINKED)
def test_qualified_name_is_the_one_copy(linked: str) -> None:
    """A bare import raises and names the qualified one, before that was imported and afterwards."""
    bare = f"try:\n    import {linked}\nexcept ImportError as error:\n    print(error)\n"
    imported = run_python(f"{bare}import fgl_secure.{linked}\n{bare}")
    assert imported.returncode == 0, imported.stderr
    refusals = imported.stdout.splitlines()
    assert len(refusals) == 2
    assert all(f"import this package as 'fgl_secure.{linked}'" in line for line in refusals)


HEAVY = ("absl", "dp_accounting", "galois", "jinja2", "networkx", "sklearn", "sympy", "tenseal", "torch_geometric")
"""What the aggregator under its default scheme does without: of graphs, CKKS, noise and reports."""


def test_the_aggregator_alone_loads_nothing_heavy() -> None:
    """Not when it is imported, and not in a round of any scheme; what does load such a package is told."""
    told = f"import sys; print([name for name in {HEAVY} if name in sys.modules])\n"
    lines = """
import torch
from fgl_secure import SecureAggregator
for scheme in ("pairwise-masking", "lightsecagg", "plaintext"):
    SecureAggregator.for_clients(3, scheme).mean([{"w": torch.ones(2)}] * 3)
"""
    keys = """
from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.ckks_parameters import CHAINS, Parameters
ReceiverKey.generate(Parameters(CHAINS[1], 3, 1000, 1))
"""
    done = run_python(lines + told + keys + told)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "['tenseal']"]  # the second is the control


def sections() -> dict[str, dict[str, list[str]]]:
    """The hashes of each distribution, by section of constraints.txt and by "name==version"."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# -- "):
            found[line.removeprefix("# -- ")] = {}
        elif not line.startswith("#"):
            pin, *hashes = line.split(" ")
            list(found.values())[-1][pin] = hashes
    return found


def test_every_pin_has_hashes() -> None:
    """Each line is one release and the SHA-256 of its files; pip checks what it installs against them."""
    for section in sections().values():
        for pin, hashes in section.items():
            assert re.fullmatch(r"[a-z0-9-]+==[\w.!]+", pin), pin
            assert hashes, pin
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), pin


def needed(names: list[str]) -> set[str]:
    """Distributions that requirements bring in here, with what these need, as installed."""
    seen, left = set[tuple[str, str]](), [Requirement(each) for each in names]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += _requirements(name, extra)
    return {name for name, _ in seen}


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    try:
        texts = requires(name) or ()
    except PackageNotFoundError:
        return
    for each in map(Requirement, texts):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield each


def test_the_runtime_section_has_what_the_package_requires() -> None:
    """What pyproject.toml requires and what that requires, and nothing else: GPU libraries are left to torch."""
    listed = {pin.partition("==")[0] for pin in sections()["runtime"]} - {"setuptools"}
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    closure = needed(required) - {"setuptools"}
    assert listed - closure == set()
    assert {name for name in closure - listed if not name.startswith(("nvidia-", "cuda-", "triton"))} == set()


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
