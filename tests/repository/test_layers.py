"""Imports point downward only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_LOW = {"errors", "choices", "crypto", "coins", "algebra"}
_MIDDLE = _LOW | {"runtime", "dp", "graph"}
_HIGH = _MIDDLE | {"protocols", "aggregation", "training", "statistics", "attacks"}

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "choices": {"errors"},
    "crypto": {"errors"},
    "coins": {"errors", "crypto"},
    "algebra": {"errors", "crypto", "coins"},
    "runtime": _LOW,
    "dp": _LOW,
    "graph": _LOW,
    "statistics": _LOW,
    "attacks": _MIDDLE - {"dp", "crypto"} | {"statistics"},
    "protocols": _LOW | {"runtime", "dp"},
    "aggregation": _LOW | {"runtime", "dp", "protocols"},
    "training": _MIDDLE | {"protocols", "aggregation"},
    "tables": _MIDDLE | {"protocols", "training"},
    "auditing": _HIGH | {"tables"},
    "methods": _HIGH | {"testing", "auditing", "tables"},
    "flower": _MIDDLE | {"protocols", "aggregation", "training", "methods"},
    "testing": _LOW | {"runtime", "statistics", "protocols"},
    "cli": _HIGH | {"auditing", "methods", "tables", "testing"},
    "__init__": {"aggregation", "auditing", "attacks", "graph", "methods", "protocols"},
}

FILES = sorted(
    path
    for folder in ("fgl_secure", "protocols", "attacks")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    inside = path.relative_to(ROOT).parts
    return (inside[1] if inside[0] == "fgl_secure" else inside[0]).removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name.split(".")[1] for name in names if name.startswith("fgl_secure.")}
    return ours - {"__version__"}  # the package's own attribute, not a part


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path: Path) -> None:
    """A file imports its own part and those below it, and every part has its place in the table."""
    part = part_of(path)
    assert imported_parts(path) - {part} <= ALLOWED[part]


def test_the_table_has_no_cycle() -> None:
    """What a part may import may not import it in turn."""
    assert not [(a, b) for a, below in ALLOWED.items() for b in below if a in ALLOWED[b]]
