"""What a long run is doing: bars on a terminal, in a pipe a line now and then, with --quiet nothing.

The logger `fgl_secure` gets all of it at level INFO. If a program has a handler for that level, lines for a pipe go
there and not to the standard error stream.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from fgl_secure.ledger import LedgerEntry, Watch, clock_text

if TYPE_CHECKING:
    from fgl_secure.training.loop import Progress as Steps

EVERY = 30.0
"""Seconds between two lines in a pipe."""
LOGGER = logging.getLogger("fgl_secure")


class Phases:
    """Logs what is being done, and shows nothing of it."""

    def __call__(self, name: str) -> Steps:
        """Log that a phase begins; return what is called after each of its steps, with steps done and most of them."""
        LOGGER.info("%s", name)
        return lambda _done, _most: None

    def say(self, text: str) -> None:
        """Log a line that stays, such as one about a run that is done."""
        LOGGER.info("%s", text)


class Runs(Watch):
    """Shows runs as they are done.

    Args:
        phases: where they are shown.
        describe: what came of a run, in words.
    """

    def __init__(self, phases: Phases, describe: Callable[[LedgerEntry], str]) -> None:
        self._phases, self._describe = phases, describe

    def note(self, text: str) -> None:
        """A line about the file."""
        self._phases.say(text)

    def on_start(self, done: int, total: int, name: str) -> None:
        """A phase each."""
        self._phases(name)(done, total)

    def on_finish(self, entry: LedgerEntry, name: str, rest: str) -> None:
        """A line each."""
        self._phases.say(f"{name}: {self._describe(entry)}; {clock_text(entry.seconds)}; {rest}")


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Phases]:
    """Gives what is told of phases and their steps, and shows them on the standard error stream."""
    if quiet or sys.stderr is None or sys.stderr.closed:
        yield Phases()
    elif sys.stderr.isatty():
        with _bars() as phases:
            yield phases
    else:
        with _lines() as phases:
            yield phases


@contextmanager
def _bars() -> Iterator[Phases]:
    from rich.console import Console  # noqa: PLC0415  # not needed for --help
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    class Bars(Phases):
        def __call__(self, name: str) -> Steps:
            super().__call__(name)
            for before in bars.task_ids:
                bars.update(before, visible=False)
            task = bars.add_task(name, total=None)
            return lambda done, most: bars.update(task, completed=done, total=most)

        def say(self, text: str) -> None:
            super().say(text)
            bars.console.print(text, markup=False, highlight=False)

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Bars()


class Lines(Phases):
    """Lines about what is being done now.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._start = clock()
        self._name, self._since, self._done, self._total = "", self._start, 0, 0

    def __call__(self, name: str) -> Steps:
        """A phase begins, and is named in the next line."""
        super().__call__(name)
        with self._lock:
            self._name, self._since, self._done, self._total = name, self._clock(), 0, 0
        return lambda done, most: self._step(name, done, most)

    def _step(self, name: str, done: int, most: int) -> None:
        with self._lock:
            if name != self._name:
                self._name, self._since = name, self._clock()
            self._done, self._total = done, most

    def say(self, text: str) -> None:
        """A line at once."""
        self._write(text)

    def report(self) -> None:
        """Write the line about the phase."""
        self._write(self.line())

    def _write(self, text: str) -> None:
        if LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers():
            LOGGER.info("%s", text)
        else:
            complain(f"fgl-secure: {text}")

    def line(self) -> str:
        """What is done of the phase, how long all took so far, and how long the phase takes yet at its pace."""
        with self._lock:
            now = self._clock()
            parts = [self._name or "getting ready"]
            if self._total:
                parts.append(f"{self._done:,} of {self._total:,}")
            parts.append(f"{clock_text(now - self._start)} so far")
            if 0 < self._done < self._total:
                left = (now - self._since) / self._done * (self._total - self._done)
                parts.append(f"about {clock_text(left)} left of this")
        return ", ".join(parts)


@contextmanager
def _lines() -> Iterator[Phases]:
    lines, over = Lines(), Event()

    def report_regularly() -> None:
        while not over.wait(EVERY):
            lines.report()

    teller = Thread(target=report_regularly, name="progress", daemon=True)
    teller.start()
    try:
        yield lines
    finally:
        over.set()
        teller.join()


def complain(text: str) -> None:
    """Print one line on the standard error stream, whatever the text holds; a stream that takes none is left alone."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    with suppress(OSError, ValueError, AttributeError):  # closed, broken, or none at all
        print(line, file=sys.stderr, flush=True)


def close_quietly(stream: TextIO) -> None:
    """Let the interpreter flush into nothing when it ends, instead of complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
