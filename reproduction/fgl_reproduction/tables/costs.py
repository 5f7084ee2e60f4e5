"""What a run takes: memory, in a process of its own, and traffic."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from fgl_secure.coins import SimulationCoins
from fgl_secure.runtime import Role
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult

T = TypeVar("T")

STATUS = Path("/proc/self/status")


def run_alone(task: Callable[[], T]) -> tuple[T, float]:
    """Runs a task in a fresh interpreter that does nothing else.

    Args:
        task: can be pickled, as can what it returns.

    Returns:
        What the task returned, and the most memory that its process held in RAM at one time (peak resident set size)
        in GB of 10^9 bytes: interpreter, libraries and data included.

    Raises:
        MemoryError: the process was killed, which is what happens to one that takes too much.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_quietly_when_interrupted) as pool:
        try:
            return pool.submit(_measure_memory, task).result()
        except BrokenProcessPool as error:
            raise MemoryError from error


def _end_quietly_when_interrupted() -> None:
    """An interrupt from the keyboard reaches both processes; one of them has enough to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _measure_memory(task: Callable[[], T]) -> tuple[T, float]:
    return task(), _peak_resident() / 1e9


def _peak_resident() -> int:
    """Bytes. Linux hands ru_maxrss on from the parent, so its own high-water mark is read where there is one."""
    if STATUS.exists():
        fields = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines())
        if "VmHWM" in fields:
            return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


MEGA = 1e6
"""Bytes of a megabyte."""


@dataclass(frozen=True, slots=True)
class SentTraffic:
    """What one run sent.

    Attributes:
        before: bytes of all messages before the first round.
        among: those of `before` that neither go to a server nor come from one.
        training: bytes since.
        result: of the run.
    """

    before: int
    among: int
    training: int
    result: TrainingResult


def count_sent(job: Job, seed: int) -> SentTraffic:
    """Trains once, and counts the payload bytes of all messages between parties.

    Args:
        job: what is trained.
        seed: of the simulation's coins.
    """
    channel, seen = job.channel(SimulationCoins(seed)), list[tuple[int, int]]()

    def count(_: object) -> None:
        traffic = channel.transcript.traffic()
        among = sum(item.bytes for item in traffic if Role.SERVER not in (item.sender_role, item.receiver_role))
        seen.append((sum(item.bytes for item in traffic), among))

    result = replace(job, shown=count).train(channel)
    return SentTraffic(*seen[0], seen[-1][0] - seen[0][0], result)
