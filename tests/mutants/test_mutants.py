"""The mutants can be applied to the source as it is, and running them tells those that are killed from the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.mutants import (
    ROOT,
    Edit,
    Mutant,
    Outcome,
    copy_of_the_source,
    failing_anyway,
    load,
    run_tests,
    tried,
)

MUTANTS = load()
SOUND = Mutant(
    "dead-code",
    "none: nothing changes",
    ("tests/mutants/test_mutants.py::test_there_are_enough",),
    (Edit("fgl_secure/errors.py", "LISTED = 20", "LISTED = 20"),),
)


def test_there_are_enough() -> None:
    """Each is about a promise of its own."""
    assert len(MUTANTS) >= 50
    assert len({mutant.property for mutant in MUTANTS.values()}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutants_fit_the_source(mutant: Mutant) -> None:
    """The code that a mutant changes is there once, what it makes is Python, and its tests are there."""
    for text in mutant.texts(ROOT).values():
        compile(text, mutant.name, "exec")
    for test in mutant.tests:
        path, *names = test.split("::")
        assert all(name in (ROOT / path).read_text(encoding="utf-8") for name in names)


@pytest.mark.parametrize(
    ("place", "before", "after"),
    [("", "missing", "x"), ("", "name", "x"), ("::LISTED", "20", "x"), ("", "LISTED = 20", "LISTED  = 20")],
    ids=["not there", "there twice", "no such place", "no change"],
)
def test_edits_that_fit_nothing_are_refused(place: str, before: str, after: str) -> None:
    """A mutant that changes something else than it says would be evidence of nothing."""
    with pytest.raises(ValueError, check=lambda error: str(error).startswith(SOUND.name)):
        replace(SOUND, edits=(Edit(f"fgl_secure/errors.py{place}", before, after),)).texts(ROOT)


def test_mutants_are_applied_to_a_copy_of_the_source(tmp_path: Path) -> None:
    """What they change is in it, and their tests with what these stand on."""
    copy = copy_of_the_source(tmp_path)
    for mutant in MUTANTS.values():
        assert all((copy / test.split("::")[0]).is_file() for test in mutant.tests)
        assert all((copy / edit.place.split("::")[0]).is_file() for edit in mutant.edits)
    assert (copy / "tests/conftest.py").is_file()


def test_a_mutant_that_no_test_sees_survives(tmp_path: Path) -> None:
    """A change of words is noticed by no test and survives; a broken one is killed, and both are taken back."""
    source, test = tmp_path / "squares.py", "test_squares.py::test_square"
    source.write_text('"""Squares."""\n\n\ndef square(x):\n    return x * x  # of one\n', "utf-8")
    lines = "from squares import square\n\n\ndef test_square():\n    assert square(3) == 9\n"
    (tmp_path / "test_squares.py").write_text(lines, "utf-8")
    before = source.read_text("utf-8")
    words = Mutant("words", "", (test,), (Edit(source.name, "'Squares.'", "'Powers.'"),))
    assert not tried(words, tmp_path).killed
    assert tried(replace(words, edits=(Edit(f"{source.name}::square", "(x\n*x)", "x + x"),)), tmp_path) == Outcome(
        1, test
    )
    assert source.read_text("utf-8") == before
    assert failing_anyway([test], tmp_path) == set()


def test_a_test_that_fails_anyway_kills_nothing(tmp_path: Path) -> None:
    """Of the tests that failed with a mutant those count that pass without; one that cannot even run does not."""
    (tmp_path / "test_two.py").write_text("def test_good():\n    pass\n\n\ndef test_bad():\n    assert 0\n", "utf-8")
    good, bad = "test_two.py::test_good", "test_two.py::test_bad"
    assert failing_anyway([good, bad], tmp_path) == {bad}
    assert failing_anyway([good, "test_two.py::test_none"], tmp_path) == {good, "test_two.py::test_none"}


def test_what_was_compiled_of_a_mutant_is_not_run_again(tmp_path: Path) -> None:
    """A mutant of the original's size and time is not taken for it, nor it for the mutant."""
    number = tmp_path / "number_of_one.py"
    number.write_text("NUMBER = 1\n", "utf-8")
    test = "from number_of_one import NUMBER\n\n\ndef test_number():\n    assert NUMBER == 1\n"
    (tmp_path / "test_number.py").write_text(test, "utf-8")
    mutant = Mutant("two", "", ("test_number.py::test_number",), (Edit(number.name, "1", "2"),))
    assert run_tests(mutant.tests, tmp_path).passed
    assert tried(mutant, tmp_path).killed
    assert run_tests(mutant.tests, tmp_path).passed
