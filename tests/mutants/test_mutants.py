"""The mutants can be applied to the source as it is, and running them tells those that are killed from the others."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, Edit, Mutant, Outcome, copy_of_the_source, load, tried

MUTANTS = load()
SOUND = Mutant(
    "dead-code",
    "none: nothing changes",
    ("tests/mutants/test_mutants.py::test_there_are_enough",),
    (Edit("fgl_secure/errors.py", '"""', '"""'),),
)


def test_there_are_enough() -> None:
    """Each is about a promise of its own."""
    assert len(MUTANTS) >= 50
    assert len({mutant.property for mutant in MUTANTS.values()}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mutants_fit_the_source(mutant: Mutant) -> None:
    """The text that a mutant changes is there once, what it makes is Python, and its tests are there."""
    for text in mutant.texts(ROOT).values():
        ast.parse(text)
    for test in mutant.tests:
        path, *names = test.split("::")
        assert (ROOT / path).exists()
        assert all(name in (ROOT / path).read_text(encoding="utf-8") for name in names)


def test_edits_that_fit_nothing_are_refused() -> None:
    """A text that is not there, or there twice, or that does not change."""
    for before, after in (("not in the file", "x"), ("Error", "x"), ("class FglSecureError", "class FglSecureError")):
        with pytest.raises(ValueError, match="once"):
            replace(SOUND, edits=(Edit("fgl_secure/errors.py", before, after),)).texts(ROOT)


def test_a_mutant_that_no_test_sees_survives(tmp_path: Path) -> None:
    """A change of words is noticed by no test and survives; a broken one is killed, and both are taken back."""
    copy = copy_of_the_source(tmp_path)
    path = copy / "fgl_secure" / "algebra" / "quantization.py"
    before = path.read_text(encoding="utf-8")
    first = before.splitlines()[0]
    tests = ("tests/mutants/test_mutants.py::test_there_are_enough",)
    words = Mutant("words", "", tests, (Edit("fgl_secure/algebra/quantization.py", first, f"{first}\n"),))
    assert not tried(words, copy).killed
    fewer = Edit("tests/mutants/test_mutants.py", "MUTANTS = " + "load()", "MUTANTS = dict(list(load().items())[:3])")
    found = tried(replace(words, edits=(fewer,)), copy)
    assert found == Outcome(1, tests[0])
    assert path.read_text(encoding="utf-8") == before
    assert (copy / fewer.file).read_text(encoding="utf-8").count("[:3]") == Path(__file__).read_text().count("[:3]")
