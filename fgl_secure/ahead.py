"""Loops compiled ahead of their first call, by processes beside this one.

A loop is compiled when it is first called, and kept on disk: only a fresh installation waits for that, but its first
epoch of HiFGL for some fifteen seconds. `start` shares these loops out among processes, which compile them onto the
disk while this one loads libraries and data; threads would not do, for numba compiles one loop at a time in a process.
A loop that is called while one of them has it in hand is waited for. Whatever goes wrong there costs time alone: a loop
that is not on disk is compiled where it is called.
"""

from __future__ import annotations

import gc
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

SWITCH = "FGL_SECURE_COMPILE_AHEAD"
"""The environment variable that is 0 where nothing shall be compiled ahead."""
LIST = Path(__file__).with_name("first_loops.txt")
"""What the first epoch calls: a line for each loop and kind of arguments, by module in the order of first calls.

Seconds that it takes to compile, module, loop, and the types of the arguments as numba spells them.
"""
PATIENCE = 60.0
"""Seconds that a process may take for one loop until it is given up."""

_FOLDER = "compiled"
_PROGRAM = "import sys; from fgl_secure.ahead import compile_listed; compile_listed(sys.argv[1], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class Listed:
    """A loop and one kind of arguments."""

    seconds: float
    module: str
    loop: str
    types: str

    @property
    def name(self) -> str:
        """Of the loop, as it is waited for."""
        return f"{self.module}.{self.loop}"


@dataclass(slots=True)
class _Worker:
    """A process, and the loops that it has in hand."""

    process: subprocess.Popen[bytes]
    loops: set[str]
    told: bytes = field(default=b"")


in_hand: dict[str, _Worker] = {}
"""The process that has a loop in hand, by the loop's name."""
_workers: list[_Worker] = []
_mark: list[Path] = []
_lock = threading.Lock()


def listed(path: Path) -> list[Listed]:
    """The loops of a list, in its order."""
    lines = (line.split(maxsplit=3) for line in path.read_text(encoding="utf-8").splitlines())
    return [Listed(float(seconds), module, loop, types) for seconds, module, loop, types in lines]


def start(folder: Path, path: Path = LIST) -> None:
    """Begins to compile what is listed, unless that was done, or `SWITCH` is 0, or no core is idle beside this one.

    Args:
        folder: the cache, where an empty file says of which files all was compiled; it is done without where it can't
            be written.
        path: of the list.
    """
    cores = _cores()
    possible = os.name == "posix" and bool(sys.executable) and not _workers  # by pipes that can be waited for
    if not possible or os.environ.get(SWITCH) == "0" or cores == 1 or _busy(cores):
        return
    with suppress(OSError, ValueError):
        loops = listed(path)
        mark = folder / _FOLDER / _key(loops)
        if mark.exists():
            return
        _mark[:] = [mark]
        for modules in _shares(loops, cores):
            worker = _Worker(_process(path, modules), {each.name for each in loops if each.module in modules})
            _workers.append(worker)
            in_hand.update(dict.fromkeys(worker.loops, worker))


def wait_for(name: str) -> None:
    """Returns when a loop is on disk, or never will be; where no process has it in hand, at once."""
    with _lock:
        while (worker := in_hand.get(name)) is not None:
            _read(worker)


def stop() -> None:
    """Ends the processes, done or not; where all were, the cache is told."""
    with _lock:
        done = bool(_workers) and all(not worker.loops or worker.process.poll() is not None for worker in _workers)
        for worker in _workers:
            _end(worker)
        _workers.clear()
    if done:
        with suppress(OSError):
            _mark[0].parent.mkdir(parents=True, exist_ok=True)
            _mark[0].touch()


def compile_listed(path: str, modules: Sequence[str]) -> None:
    """Compiles the loops of some modules onto the disk, and prints the name of each that is done.

    Those of modules whose loops are not called here are left out.
    """
    from fgl_secure.jit import kept  # noqa: PLC0415  # processes that compile alone take numba at once

    gc.disable()  # for seconds, in a process that then ends
    ours = [each for each in listed(Path(path)) if each.module in modules]
    for name in dict.fromkeys(each.name for each in ours):
        for each in ours:
            if each.name == name:
                with suppress(Exception):  # it is then compiled, or fails, where it is called
                    _compile(each)
                if not all(kept):  # others could not find it
                    return
        print(name, flush=True)


def _compile(loop: Listed) -> None:
    if is_called(loop.module):
        kinds, _ = import_module("numba.core.sigutils").normalize_signature(f"({loop.types},)")
        kernel = getattr(import_module(loop.module), loop.loop).kernel
        kernel.compile(kinds)  # on disk under types: one compiled for text is not found


def is_called(module: str) -> bool:
    """Whether a module's loops are called on this processor: where it has an `available`, that says so."""
    available = getattr(import_module(module), "available", None)
    return available is None or bool(available())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _busy(cores: int) -> bool:
    """Whether others keep all cores busy: processes then take as much from each other as they do."""
    return os.getloadavg()[0] >= cores


def _shares(loops: Sequence[Listed], most: int) -> list[list[str]]:
    """Modules for each of at most so many processes, which take about as long.

    What a module's loops have in common is compiled with the first of them, so that a module is not divided.
    """
    seconds: dict[str, float] = {}
    for each in loops:
        seconds[each.module] = seconds.get(each.module, 0.0) + each.seconds
    shares: list[list[str]] = [[] for _ in range(min(most, len(seconds)))]
    for module in sorted(seconds, key=lambda each: -seconds[each]):
        min(shares, key=lambda share: sum(seconds[each] for each in share)).append(module)
    return shares


def _process(path: Path, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    """A Python that finds its modules where this one does, and not in the working directory unless this one does."""
    return subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-P", "-c", _PROGRAM, str(path), *modules],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _read(worker: _Worker) -> None:
    """Takes what a process has told, after waiting for it; one that is gone, or too slow, has nothing in hand."""
    pipe = worker.process.stdout
    assert pipe is not None, "it tells by a pipe"
    ready, _, _ = select.select([pipe], [], [], PATIENCE)
    told = os.read(pipe.fileno(), 2**16) if ready else b""
    if not told:
        _end(worker)
    *lines, worker.told = (worker.told + told).split(b"\n")
    for line in lines:
        _forget(worker, line.decode())


def _forget(worker: _Worker, name: str) -> None:
    worker.loops.discard(name)
    in_hand.pop(name, None)


def _end(worker: _Worker) -> None:
    """A process that is gone, and has nothing in hand."""
    for name in list(worker.loops):
        _forget(worker, name)
    worker.process.kill()
    worker.process.wait()
    if worker.process.stdout is not None:
        worker.process.stdout.close()


def _key(loops: Sequence[Listed]) -> str:
    """What changes with the package, with the source of a listed loop, and with what numba keeps loops by."""
    package = Path(__file__).parent
    state = [sys.version, version("numba"), os.environ.get("NUMBA_CACHE_DIR", ""), str(package), *map(repr, loops)]
    for module in dict.fromkeys(each.module for each in loops):
        seen = package.joinpath(*module.split(".")[1:]).with_suffix(".py").stat()
        state.append(f"{module} {seen.st_mtime_ns} {seen.st_size}")
    return sha256("\n".join(state).encode()).hexdigest()[:24]


def _in_child() -> None:
    """Processes are those of who started them."""
    in_hand.clear()
    _workers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
