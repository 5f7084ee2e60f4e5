"""Threads of compiled loops are the user's: one for little work, and no more than PyTorch takes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.threads import SERIAL_UP_TO, Thread, at_most, most, parallel, range_of, threads_for


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
    """Threads don't come along when a process is forked: a loop that waited for them would wait for ever.

    And PyTorch keeps those that the user gave it, whatever number numba may take.
    """
    program = (
        "import os, torch, numpy as np; from fgl_secure.algebra import PrimeField; "
        "a, add = np.ones((2, 2**19), np.int64), lambda: PrimeField(11).combine([[1, 1]], a); add(); "
        "child = os.fork(); child or os._exit(int(add().sum() != 2 * 2**19)); "
        "print(os.waitpid(child, 0)[1], torch.get_num_threads())"
    )
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    run = subprocess.run(command, env=settings, capture_output=True, check=True, timeout=300)
    assert run.stdout.split() == [b"0", b"1"]
