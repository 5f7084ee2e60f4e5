"""Threads of compiled loops are the user's: one for little work, and no more than PyTorch takes."""

from __future__ import annotations

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

from fgl_secure.threads import SERIAL_UP_TO, parallel, threads_for


@parallel
def _threads(values: NDArray[Any], out: NDArray[Any]) -> None:
    for i in numba.prange(values.size):
        out[i] = numba.get_thread_id()


@pytest.fixture
def one_thread() -> Iterator[None]:
    numba.get_num_threads()  # starts its threads, by which PyTorch's number may change
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_pytorch_keeps_the_threads_that_the_user_gave_it() -> None:
    """Numba's start tells OpenMP a number of threads, which PyTorch would take from then on."""
    program = (
        "import torch, numpy as np; from fgl_secure.algebra import elementwise_kernels as k; "
        "a = np.ones(2**19, np.int64); k.add_each(a, a, 11, a); print(torch.get_num_threads())"
    )
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, check=True)
    assert run.stdout.split() == [b"1"]


def test_little_work_takes_one_thread_and_much_as_many_as_there_are() -> None:
    """Below the size a loop is serial whatever numba may take; above it, it takes what both libraries may."""
    assert threads_for(SERIAL_UP_TO, 8) == 1
    assert threads_for(SERIAL_UP_TO + 1, 8) == min(8, torch.get_num_threads())


@pytest.mark.filterwarnings("ignore:Cannot cache compiled function")  # it asks numba for a number that changes
@pytest.mark.usefixtures("one_thread")
def test_loops_take_no_more_threads_than_torch() -> None:
    """Where PyTorch was told to take one thread, a large loop takes one; what numba may take stays as it was."""
    before, values = numba.get_num_threads(), np.zeros(SERIAL_UP_TO + 1)
    out = np.full(len(values), -1, dtype=np.int64)
    _threads(values, out)
    assert set(out.tolist()) == {0}
    assert numba.get_num_threads() == before
    assert threads_for(len(values), 8) == 1
