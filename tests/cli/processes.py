"""The command line as processes that begin with the libraries loaded, for what only a process shows: signals, limits.

Loading torch takes seconds, and tests of signals and of full disks need a dozen processes. A server loads the libraries
once, runs nothing, and forks a process for each command.
"""

import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from fgl_secure import progress
from fgl_secure.cli.main import main

PATIENCE = 240.0
LOADED = (
    "fgl_secure.cli.commands",
    "fgl_secure.auditing.audit",
    "fgl_secure.auditing.html",
    "fgl_secure.methods.hifgl.audit_target",
    "fgl_secure.methods.hifgl.controls",
    "fgl_secure.graph.datasets",
    "tests.cli.processes",
)
"""Modules that the server loads; what a command needs besides it loads itself."""

_SERVER = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Started:
    """A command that runs.

    Attributes:
        process: its process.
        streams: what it prints, and what it says on the error stream, once it has ended.
    """

    process: ForkServerProcess
    streams: tuple[Future[str], Future[str]]

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def ended(self) -> tuple[int | None, str, str]:
        """Exit status and both streams."""
        self.process.join(PATIENCE)
        out, err = (stream.result(PATIENCE) for stream in self.streams)
        return self.process.exitcode, out, err


def started(
    folder: Path, words: Sequence[str], *, out: Path | None = None, heard: bool = True, most: int | None = None
) -> Started:
    """Starts `fgl-secure` with these words.

    Args:
        folder: where it runs.
        words: behind the program's name.
        out: what it prints into; a pipe unless given.
        heard: whether the pipe that it prints into has a reader.
        most: bytes that a file may have; as many as fit unless given.
    """
    _SERVER.set_forkserver_preload(list(LOADED))
    ends = [multiprocessing.Pipe(duplex=False) for _ in range(2)]
    writing = [end for _, end in ends]
    if not heard:
        ends[0][0].close()
    process = _SERVER.Process(target=_run, args=(folder, words, dict(os.environ), writing, out, most))
    process.start()
    for end in writing:
        end.close()
    readers = ThreadPoolExecutor(len(ends))
    streams = [readers.submit(_read, end) for end, _ in ends]
    readers.shutdown(wait=False)
    return Started(process, (streams[0], streams[1]))


def _read(end: Connection) -> str:
    if end.closed:
        return ""
    with end, os.fdopen(os.dup(end.fileno()), encoding="utf-8") as stream:
        return stream.read()


def _run(
    folder: Path, words: Sequence[str], variables: Mapping[str, str], ends: Sequence[Connection], out: Path | None,
    most: int | None,
) -> None:  # fmt: skip
    """In the fork: what a process has of its own, then the command."""
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(out, os.O_WRONLY) if out else ends[0].fileno(), 1)
    os.dup2(ends[1].fileno(), 2)
    for end in ends:
        end.close()
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8") for number in (1, 2))  # noqa: SIM115  # to the end
    if most is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    warnings.simplefilter("error")
    progress.EVERY = 3600.0  # no line of progress, however slow the machine
    sys.exit(main(words))
