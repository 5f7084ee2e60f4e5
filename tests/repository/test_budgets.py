"""Budgets of weight: they only go down."""

from __future__ import annotations

import pytest

from tests.walks import files_entered

MOST_FILES = {"mean": 46, "neighbour sum": 41, "audit": 182}
"""Files that one call enters at most; the aim is 25, 25 and 110."""


@pytest.mark.parametrize("call", MOST_FILES)
def test_a_call_enters_few_files(call: str) -> None:
    """A reader who follows one call has to open no more files than these."""
    entered = files_entered(call)
    assert len(entered) <= MOST_FILES[call], "\n".join(entered)
