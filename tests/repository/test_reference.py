"""Examples in docstrings run, and the reference has what readers are told to import."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import warnings
from pathlib import Path

import pytest

from tests.repository.blocks import blocks

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
LISTED = frozenset(
    name
    for page in (ROOT / "docs" / "api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)


SUPPORTED = frozenset(
    (module, name)
    for line in (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for module, *names in [re.findall(r"`([\w.]+)`", line)]
    for name in names
)


def modules_with_examples() -> list[str]:
    found = []
    for folder in ("fgl_secure", "protocols", "attacks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            if not any(parent.is_symlink() for parent in path.parents) and ">>> " in path.read_text(encoding="utf-8"):
                found.append(inside if folder == "fgl_secure" else f"fgl_secure.{inside}")
    return found


def imported() -> list[tuple[str, str, str]]:
    """Where and what Python on pages, and the examples to copy from, import of this package."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [(page, code) for page in pages for language, code in blocks(page.read_text(encoding="utf-8"))
             if language == "python"]  # fmt: skip
    texts += [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "examples" / "own").glob("*.py"))]
    return sorted({
        (str(where.relative_to(ROOT)), node.module, alias.name)
        for where, code in texts
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fgl_secure"
        for alias in node.names
    })  # fmt: skip


def is_listed(module: str, name: str) -> bool:
    """Whether the reference has it, by itself or with the module that it is written in."""
    with warnings.catch_warnings():  # of libraries, when they are first imported
        warnings.simplefilter("ignore", DeprecationWarning)
        found = getattr(importlib.import_module(module), name)
    home = getattr(found, "__module__", f"{module}.{name}")
    return not LISTED.isdisjoint({module, home, f"{module}.{name}", f"{home}.{name}"})


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name: str) -> None:
    """They give what they show."""
    found = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(("where", "module", "name"), imported())
def test_the_reference_has_what_readers_import(where: str, module: str, name: str) -> None:
    """A page that says `from fgl_secure.x import y` can rely on the reference for it."""
    assert is_listed(module, name), f"{where} imports {name} of {module}: list its module in docs/api"



def test_pages_and_examples_use_supported_names() -> None:
    """At most sixty, each with a docstring; what readers are told to import is among them."""
    assert 0 < len(SUPPORTED) <= 60
    assert {(module, name) for _, module, name in imported()} <= SUPPORTED
    assert all(getattr(importlib.import_module(module), name).__doc__ for module, name in SUPPORTED)
