"""What a long run is doing: bars on a terminal; in a pipe a line now and then; with --quiet nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgl_secure.training.loop import Progress as Steps

Phases = Callable[[str], "Steps"]
"""From what is being done to what is called after each step of it, with steps done and most of them."""

EVERY = 30.0
"""Seconds between two lines in a pipe."""


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Phases]:
    """Gives what is told of phases and their steps, and shows them on the standard error stream."""
    if quiet:
        yield lambda _name: lambda _done, _most: None
    elif sys.stderr.isatty():
        with _bars() as phases:
            yield phases
    else:
        with _lines() as phases:
            yield phases


@contextmanager
def _bars() -> Iterator[Phases]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def phase(name: str) -> Steps:
            for before in bars.task_ids:
                bars.update(before, visible=False)
            task = bars.add_task(name, total=None)
            return lambda done, most: bars.update(task, completed=done, total=most)

        yield phase


class State:
    """What is being done now, for a line about it.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._start = clock()
        self._name, self._since, self._done, self._most = "", self._start, 0, 0

    def phase(self, name: str) -> Steps:
        """A phase begins; gives what is called after each of its steps."""
        with self._lock:
            self._name, self._since, self._done, self._most = name, self._clock(), 0, 0
        return lambda done, most: self._step(name, done, most)

    def _step(self, name: str, done: int, most: int) -> None:
        with self._lock:
            if name != self._name:
                self._name, self._since = name, self._clock()
            self._done, self._most = done, most

    def line(self) -> str:
        """What is done of the phase, how long all took so far, and how long the phase takes yet at its pace."""
        with self._lock:
            now = self._clock()
            parts = [self._name or "getting ready"]
            if self._most:
                parts.append(f"{self._done:,} of {self._most:,}")
            parts.append(f"{_clock_text(now - self._start)} so far")
            if 0 < self._done < self._most:
                left = (now - self._since) / self._done * (self._most - self._done)
                parts.append(f"about {_clock_text(left)} left of this")
        return f"fgl-secure: {', '.join(parts)}"


@contextmanager
def _lines() -> Iterator[Phases]:
    state, over = State(), Event()

    def tell() -> None:
        while not over.wait(EVERY):
            print(state.line(), file=sys.stderr, flush=True)

    teller = Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield state.phase
    finally:
        over.set()
        teller.join()


def _clock_text(seconds: float) -> str:
    """Minutes and seconds, `2:05`, or hours too."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
