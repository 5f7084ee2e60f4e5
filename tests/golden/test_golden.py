"""Today's figures are those of the golden files.

When one differs and is meant to, `python -m tests.golden.regenerate NAME` writes it anew. Some figures differ between
processors, and have a tolerance in tests/golden/commands.py; who compares two states of the code on one machine sets
FGL_SECURE_GOLDEN=exact, and it is left out.
"""

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import CASES, figures_of
from tests.golden.figures import FOLDER, Figures, Loose, differences, read

GOLDEN: Any = {
    "findings": [
        {"scheme": "s", "attack": "a", "metric": "m", "observer": "o", "value": 0.5, "interval": [0.4, 0.6], "n": 7},
        {"scheme": "s", "attack": "b", "metric": "m", "observer": "o", "value": 0.0, "verdict": "broken", "n": 7},
    ],
    "training": [{"case": "c", "messages": 10**8, "bytes by phase": {"keys": 3}}],
}


@pytest.fixture(scope="session")
def public_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The raw public data, parsed into a cache of its own."""
    if not os.environ.get("FGL_SECURE_DATA"):
        pytest.skip("needs the raw public data sets: set FGL_SECURE_DATA to their folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FGL_SECURE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def golden_of(name: str) -> Figures:
    """What the golden file says of a case."""
    figures = read(CASES[name].file)
    if "training" in figures:
        return {"training": [row for row in figures["training"] if row["case"] == name]}
    return figures


def loose_in(name: str) -> tuple[Loose, ...]:
    """What may differ in a case here."""
    return () if os.environ.get("FGL_SECURE_GOLDEN") == "exact" else CASES[name].loose


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.public])
def test_figures_are_those_of_the_golden_file(name: str, tmp_path: Path) -> None:
    """On data that comes with the package: findings, claims, traffic, accuracy and costs."""
    assert differences(golden_of(name), figures_of(name, tmp_path), loose_in(name)) == []


@pytest.mark.usefixtures("public_data")
@pytest.mark.skipif("FGL_SECURE_GOLDEN" not in os.environ, reason="four minutes; make tests with FGL_SECURE_GOLDEN=all")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.public])
def test_figures_of_the_readme_are_those_of_the_golden_file(name: str, tmp_path: Path) -> None:
    """On Cora: what the tables of the README say."""
    assert differences(golden_of(name), figures_of(name, tmp_path), loose_in(name)) == []


def test_files_and_cases_are_the_same() -> None:
    """No file and no row is left of a case that is gone."""
    assert {path.stem for path in FOLDER.iterdir()} == {case.file for case in CASES.values()}
    rows = {row["case"] for file in {case.file for case in CASES.values()} for row in read(file).get("training", ())}
    assert rows == {name for name, case in CASES.items() if case.words[0] == "train"}


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (0, "value", 0.500001),
        (0, "interval", [0.4, 0.61]),
        (0, "interval", [0.4]),
        (0, "n", 8),
        (1, "value", 1e-6),
        (1, "verdict", "leaks"),
        (1, "verdict", None),
    ],
)
def test_another_figure_is_a_difference(row: int, column: str, value: object) -> None:
    """The one column of the one row is named, with both figures."""
    found = deepcopy(GOLDEN)
    found["findings"][row][column] = value
    (said,) = differences(GOLDEN, found)
    assert said == (f"findings: s | {'ab'[row]} | m | o: {column} was {GOLDEN['findings'][row][column]}, is {value}")


def test_loose_figures_may_differ_up_to_their_tolerance() -> None:
    """In the named columns of the named rows alone; absolutely for shares, relatively for counts."""
    share, count = Loose("findings: s | a", ("value",), 0.1, "-"), Loose("training", ("messages",), 0.1, "-")
    found = deepcopy(GOLDEN)
    found["findings"][0]["value"], found["training"][0]["messages"] = 0.59, int(1.09e8)
    assert differences(GOLDEN, found, [share, count]) == []
    assert len(differences(GOLDEN, found, [share])) == len(differences(GOLDEN, found, [count])) == 1
    found["findings"][0]["n"], found["findings"][1]["value"] = 8, 0.05
    assert len(differences(GOLDEN, found, [share, count])) == 2
    found["findings"][0]["value"], found["training"][0]["messages"] = 0.61, int(1.12e8)
    assert len(differences(GOLDEN, found, [share, count])) == 4


def test_rows_that_are_gone_or_new_are_differences() -> None:
    """A row under another name is both; so is a whole table."""
    found = deepcopy(GOLDEN)
    found["findings"][0]["observer"] = "someone else"
    del found["training"]
    assert differences(GOLDEN, found) == [
        "findings: s | a | m | o: is gone",
        "findings: s | a | m | someone else: is new",
        "training: c: is gone",
    ]
