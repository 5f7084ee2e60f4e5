"""Loops are compiled wherever they can be kept, and where they can't."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numba.core.caching import IndexDataCacheFile
from numpy.typing import NDArray

from fgl_secure import jit
from fgl_secure.errors import InputError
from fgl_secure.threads import SERIAL_UP_TO, Thread, at_most, most, parallel, range_of, threads_for
from tests.error_codes import about

READ_ONLY = """
import os, sys, tempfile
open_file = tempfile.TemporaryFile
def refuse(*arguments, dir=None, **options):
    if not os.path.realpath(dir).startswith(os.path.realpath(sys.argv[1])):
        raise OSError(30, "Read-only file system")
    return open_file(*arguments, dir=dir, **options)
tempfile.TemporaryFile = refuse  # by which numba finds out whether it can write to a folder
import numpy as np
from fgl_secure.crypto.aes_instructions import add_words
print(add_words(np.zeros(5, np.int64), np.arange(5), np.int64(7), 3, False))
"""


def double(values: Any) -> Any:
    """A loop."""
    return 2 * values


def read_only(tmp_path: Path, **variables: str) -> tuple[str, str, list[str]]:
    """What a program prints where loops can be kept in one folder alone: both streams, and what is in the folder."""
    folder = tmp_path / "cache"
    folder.mkdir(exist_ok=True)
    unset = ("NUMBA_CACHE_DIR", "FGL_SECURE_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    command = [sys.executable, "-W", "error", "-c", READ_ONLY, str(folder)]
    run = subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=True, timeout=120
    )
    return run.stdout, run.stderr, sorted(path.name for path in folder.rglob("*.nbi"))


def test_a_read_only_installation_compiles_in_memory_and_says_so(tmp_path: Path) -> None:
    """The result is printed, and what to set."""
    out, err, kept = read_only(tmp_path)
    assert (out, kept) == ("2\n", [])
    assert len(err.splitlines()) == 1
    assert "NUMBA_CACHE_DIR" in err


def test_a_read_only_installation_keeps_loops_in_the_cache(tmp_path: Path) -> None:
    """Of this package, if numba has no folder of its own."""
    out, err, kept = read_only(tmp_path, FGL_SECURE_CACHE=str(tmp_path / "cache"))
    assert (out, err) == ("2\n", "")
    assert kept


def test_a_full_disk_costs_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that cannot be kept is compiled all the same."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    assert jit.njit()(double)(np.arange(3)).tolist() == [0, 2, 4]


def test_a_loop_without_a_source_file_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    """As in a frozen program."""
    found: dict[str, Any] = {}
    exec(compile("def triple(values):\n    return 3 * values", "<frozen>", "exec"), found)  # noqa: S102
    with caplog.at_level(logging.WARNING, "fgl_secure"):
        assert jit.njit()(found["triple"])(np.arange(3)).tolist() == [0, 3, 6]
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_numbas_switch_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's integers do not wrap around: loops that are not compiled would give other results."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(InputError, check=about("NUMBA_DISABLE_JIT")):
        jit.njit()


@parallel
def _threads(values: NDArray[Any], out: NDArray[Any], thread: Thread) -> int:
    for i in range_of(values.size, thread):
        out[i] += 1 + thread[0]
    return thread[1]


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That loops and PyTorch may take."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def shared(size: int) -> tuple[list[int], int]:
    """How many numbers each thread of a loop went over, and the sum of what they returned."""
    out = np.zeros(size, dtype=np.int64)
    returned: int = _threads(np.zeros(size), out)
    return np.bincount(out)[1:].tolist(), returned


def test_pytorch_keeps_the_threads_that_the_user_gave_it() -> None:
    """Whatever number numba may take."""
    program = (
        "import torch, numpy as np; from fgl_secure.algebra import PrimeField; "
        "a = np.ones((2, 2**19), np.int64); PrimeField(11).combine([[1, 1]], a); print(torch.get_num_threads())"
    )
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, check=True)
    assert run.stdout.split() == [b"1"]


@pytest.mark.usefixtures("three_threads")
def test_little_work_takes_one_thread_and_much_as_many_as_there_are() -> None:
    """Every number is gone over once, and what threads return is added up."""
    assert shared(SERIAL_UP_TO) == ([SERIAL_UP_TO], 1)
    third = (SERIAL_UP_TO + 2) // 3
    assert shared(SERIAL_UP_TO + 2) == ([third] * 3, 9)
    assert threads_for(SERIAL_UP_TO, 8) == 1
    assert threads_for(SERIAL_UP_TO + 1, 8) == 8


@pytest.mark.usefixtures("three_threads")
def test_loops_take_no_more_threads_than_torch_and_than_they_are_told() -> None:
    """The smallest number counts, and what was told is forgotten behind it."""
    with at_most(2):
        assert most() == 2
        assert len(shared(SERIAL_UP_TO + 1)[0]) == 2
    assert most() == 3
    torch.set_num_threads(1)
    assert most() == 1
    assert len(shared(SERIAL_UP_TO + 1)[0]) == 1


def test_a_child_of_a_process_with_threads_starts_its_own() -> None:
    """Threads don't come along when a process is forked: a loop that waited for them would wait for ever."""
    program = (
        "import os, numpy as np; from fgl_secure.algebra import PrimeField; "
        "a, add = np.ones((2, 2**19), np.int64), lambda: PrimeField(11).combine([[1, 1]], a); add(); "
        "child = os.fork(); child or os._exit(int(add().sum() != 2 * 2**19)); print(os.waitpid(child, 0)[1])"
    )
    settings = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    run = subprocess.run(command, env=settings, capture_output=True, check=True, timeout=300)
    assert run.stdout.split() == [b"0"]
