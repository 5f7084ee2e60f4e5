"""The mutants can be applied to the source as it is, and running them tells those that are killed from the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, Edit, Mutant, Outcome, copy_of_the_source, failing_anyway, load, tried

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
    """A change of words is noticed by no test and survives; a broken one is killed, and both are taken back.

    All three files have one size and one time: what was compiled of one is not run for another.
    """
    source, test, bad = tmp_path / "number_of_one.py", "test_number.py::test_number", "test_number.py::test_bad"
    source.write_text('"""One."""\nNUMBER = 1\n', "utf-8")
    lines = "def test_number():\n    assert NUMBER == 1\n\n\ndef test_bad():\n    assert NUMBER == 3\n"
    (tmp_path / "test_number.py").write_text(f"from number_of_one import NUMBER\n\n\n{lines}", "utf-8")
    before = source.read_text("utf-8")
    words = Mutant("words", "", (test,), (Edit(source.name, "'One.'", "'Two.'"),))
    assert not tried(words, tmp_path).killed
    assert tried(replace(words, edits=(Edit(source.name, "(\n1)", "2"),)), tmp_path) == Outcome(1, test)
    assert source.read_text("utf-8") == before
    assert failing_anyway([test, bad], tmp_path) == {bad}


def test_a_test_that_cannot_run_kills_nothing(tmp_path: Path) -> None:
    """Where pytest ran none, nothing is known of those named with it either."""
    (tmp_path / "test_one.py").write_text("def test_good():\n    pass\n", "utf-8")
    named = {"test_one.py::test_good", "test_one.py::test_none"}
    assert failing_anyway(named, tmp_path) == named
