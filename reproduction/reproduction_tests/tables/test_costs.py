"""Tasks in a process of their own: what they return, what they raise, and how much memory they held."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest

from fgl_reproduction.tables.costs import run_alone
from fgl_secure.errors import InputError
from tests.error_codes import about

LARGE = 150_000_000
"""Bytes, well above what interpreter and imports vary by."""


def hold(count: int) -> int:
    """Writes to that many bytes at one time, and lets go of them."""
    return int(np.ones(count, dtype=np.uint8).sum())


def process() -> int:
    return os.getpid()


def refuse() -> None:
    raise InputError("count must be even; found 3")


def vanish() -> None:
    os._exit(9)


def test_memory_is_that_of_the_task_alone() -> None:
    """A task that holds 150 MB more is measured at about 150 MB more, whatever this process holds."""
    held_here = np.ones(4 * LARGE, dtype=np.uint8)
    (_, small), (counted, large) = (run_alone(partial(hold, count)) for count in (1, LARGE))
    assert counted == LARGE
    assert large - small == pytest.approx(LARGE / 1e9, rel=0.1)
    assert small < held_here.nbytes / 1e9


def test_the_process_is_another_one_each_time() -> None:
    """No task meets what an earlier one left in memory."""
    assert len({os.getpid(), run_alone(process)[0], run_alone(process)[0]}) == 3


def test_errors_arrive_as_they_were_raised() -> None:
    """A rule that was broken there is reported here, in the same words."""
    with pytest.raises(InputError, check=about("count")):
        run_alone(refuse)


def test_a_killed_process_ran_out_of_memory() -> None:
    """A process that vanished without a word is reported as out of memory, not waited for."""
    with pytest.raises(MemoryError):
        run_alone(vanish)
