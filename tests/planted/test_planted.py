"""Planted leaks fit the source, and games find a few of them, drawn anew each day."""

import random
import time
from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, copy_of_the_source
from tests.planted.planted import Leak, load, planted, violations

LEAKS = load()
SECONDS_OF_A_DAY = 86_400
DRAWN = random.Random(int(time.time()) // SECONDS_OF_A_DAY).sample(sorted(LEAKS), 1)  # noqa: S311


def test_there_are_enough() -> None:
    """At least fifty, each of them another one."""
    assert len({leak.change.property + leak.run for leak in LEAKS.values()}) == len(LEAKS)
    assert len(LEAKS) >= 50


@pytest.mark.parametrize("leak", [*LEAKS.values(), *load(not_found=True).values()], ids=lambda leak: leak.change.name)
def test_leaks_fit_the_source(leak: Leak) -> None:
    """The code that a leak changes is there once, and what it makes is Python."""
    for text in leak.change.texts(ROOT).values():
        compile(text, leak.change.name, "exec")


@pytest.mark.parametrize("name", DRAWN)
def test_games_find_a_leak(name: str, tmp_path: Path) -> None:
    """The right guarantee is violated in a copy of the source, and the finding names messages."""
    copy = copy_of_the_source(tmp_path)
    with planted(LEAKS[name], copy):
        found = violations(LEAKS[name], copy)
    assert LEAKS[name].game in found, found
