import logging
import sys
import time
from collections.abc import Callable

import pytest

from fgl_secure import progress
from fgl_secure.progress import Lines, show_progress


def ticking(*times: float) -> Callable[[], float]:
    """A clock that reads these seconds, one at each look."""
    left = iter(times)
    return lambda: next(left)


def test_a_line_says_what_how_far_and_how_long_yet() -> None:
    """The phase, its steps, all time so far, and what the phase takes yet at its pace."""
    state = Lines(ticking(0, 60, 90, 3720))
    steps = state("training under secmp")
    steps(2, 10)
    assert state.line() == ("training under secmp, 2 of 10, 1:30 so far, about 2:00 left of this")
    steps(10, 10)
    assert state.line() == "training under secmp, 10 of 10, 1:02:00 so far"


def test_a_phase_without_steps_has_no_rest() -> None:
    """Before the first step nothing is said of how long it takes."""
    state = Lines(ticking(0, 5, 30))
    state("attacking relay-coded")
    assert state.line() == "attacking relay-coded, 0:30 so far"


def test_a_phase_that_goes_on_is_named_again() -> None:
    """Steps of an earlier phase bring its name back."""
    state = Lines(ticking(0, 1, 2, 3, 4, 5))
    first = state("first")
    state("second")
    first(1, 2)
    assert "first, 1 of 2" in state.line()


@pytest.mark.parametrize("quiet", [False, True])
def test_a_pipe_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    """Lines come on the error stream although nothing happens; with --quiet there is none."""
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with show_progress(quiet=quiet) as phases:
        phases("waiting")(1, 4)
        deadline = time.monotonic() + (0.1 if quiet else 20)
        told = ""
        while time.monotonic() < deadline and not told:
            time.sleep(0.01)
            said = capsys.readouterr()
            assert said.out == ""
            told += said.err
    assert ("fgl-secure: waiting, 1 of 4" in told) is not quiet


def test_nothing_is_said_after_the_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends soon says nothing, and its teller has ended with it."""
    monkeypatch.setattr(progress, "EVERY", 60)
    start = time.monotonic()
    with show_progress() as phases:
        phases("short")
    assert time.monotonic() - start < 30
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_bars(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar names the phase."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress() as phases:
        phases("training under secmp")(1, 4)
        phases("attacking secmp")(2, 4)
    assert "attacking secmp" in capsys.readouterr().err


def test_a_program_that_logs_gets_the_lines_instead(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the logger's name at level INFO; phases are logged also with --quiet, which shows nothing."""
    monkeypatch.setattr(progress, "EVERY", 0.01)
    caplog.set_level(logging.INFO, "fgl_secure")
    for quiet in (True, False):
        with show_progress(quiet=quiet) as phases:
            phases("waiting")(1, 4)
            deadline = time.monotonic() + 20
            while not quiet and time.monotonic() < deadline and "waiting, 1 of 4" not in caplog.text:
                time.sleep(0.01)
    assert [record.message for record in caplog.records][:2] == ["waiting", "waiting"]
    assert "waiting, 1 of 4" in caplog.text
    assert capsys.readouterr().err == ""
