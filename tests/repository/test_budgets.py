"""Budgets of weight: they only go down."""

import ast

from tests.repository.test_layers import FILES, ROOT, tree_of
from tests.walks import files_entered

MOST_LINES, MOST_MODULES, MOST_PUBLIC_NAMES = 83_695, 332, 1_567
"""In the three packages; the aim is 60,000, 400 and 900."""

MOST_TEST_LINES = 69_061
"""In tests/ and reproduction/reproduction_tests/; the aim is 50,000."""

MOST_FILES = {"mean": 40, "neighbour sum": 29, "audit": 88}
"""Files that one call enters at most; the aim is 25, 25 and 110."""


def test_the_packages_stay_within_their_size() -> None:
    """Lines, modules, and classes and functions at module level without an underscore."""
    trees = [tree_of(path).body for path in FILES]
    named = [node for body in trees for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES) <= MOST_LINES
    assert len(FILES) <= MOST_MODULES
    assert sum(not node.name.startswith("_") for node in named) <= MOST_PUBLIC_NAMES


def test_the_tests_stay_within_their_size() -> None:
    files = [path for name in ("tests", "reproduction/reproduction_tests") for path in (ROOT / name).rglob("*.py")]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= MOST_TEST_LINES


def test_a_call_enters_few_files() -> None:
    """A reader who follows one call has to open no more files than these."""
    entered = files_entered()
    assert entered.keys() == MOST_FILES.keys()
    for call, most in MOST_FILES.items():
        assert 0 < len(entered[call]) <= most, "\n".join([call, *entered[call]])
