"""Attacks are kept away from secrets by what they import and by what their inference names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fgl_secure.attacks

FOLDER = Path(fgl_secure.attacks.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
FORBIDDEN = ("fgl_secure.protocols", "fgl_secure.learning", "fgl_secure.commands", "fgl_secure.graph")


def imported(source: str) -> Iterator[str]:
    """Full names of all that a module imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(source: str) -> list[str]:
    """Imports that reach schemes, models or graphs."""
    return [name for name in imported(source) if any(f"{name}.".startswith(f"{top}.") for top in FORBIDDEN)]


def names_of_truth(source: str) -> list[str]:
    """Names in the bodies of functions called `infer` that speak of the truth."""
    inferring = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "infer"]
    words = [
        node.id if isinstance(node, ast.Name) else node.attr
        for function in inferring
        for node in ast.walk(function)
        if isinstance(node, ast.Name | ast.Attribute)
    ]
    return [word for word in words if "truth" in word.casefold()]


@pytest.mark.parametrize("module", [m for m in MODULES if m.name != "truth.py"], ids=lambda module: module.name)
def test_only_the_truth_knows_graphs_and_nobody_knows_schemes(module: Path) -> None:
    """No module of the attacks but the truth imports protocols, learning, commands or graphs."""
    assert not forbidden_imports(module.read_text(encoding="utf-8"))


def test_truth_knows_graphs_but_no_scheme() -> None:
    """The truth is gathered from transcript and graph, and imports neither schemes nor models."""
    found = forbidden_imports((FOLDER / "truth.py").read_text(encoding="utf-8"))
    assert all(name.startswith("fgl_secure.graph.") for name in found)
    assert found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_inference_never_speaks_of_the_truth(module: Path) -> None:
    """The body of no `infer` names a truth."""
    assert not names_of_truth(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "import fgl_secure.learning.loop",
        "from fgl_secure import protocols",
        "from fgl_secure.protocols.secmp import Mu",
        "def infer(self, view, public):\n    from fgl_secure.graph import load",
    ],
)
def test_forbidden_imports_are_noticed(source: str) -> None:
    """The check of imports rejects a module that breaks it."""
    assert forbidden_imports(source)


def test_truth_in_inference_is_noticed() -> None:
    """The check of names rejects an inference that looks at the truth, and leaves scoring alone."""
    assert names_of_truth("def infer(self, view, public):\n    return self.truth.edges")
    assert not names_of_truth("def score(self, guess, truth):\n    return truth.edges")
