"""How many threads a compiled loop takes: none of its own for little work, and never more than PyTorch does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import numpy as np

SERIAL_UP_TO = 2**18
"""Loops over arrays of at most so many numbers take one thread: they take less than a millisecond, and two pools of
threads, PyTorch's and numba's, that wake for every call take turns at waiting for each other."""


def parallel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over `numba.prange`, compiled when first called and kept on disk, that takes as many threads as it needs.

    There are two of it: one for a thread alone, which starts none, and one for several. It is called as the function
    is; a loop that goes over its arrays many times is also told `work`, the numbers that it takes in hand.

    Args:
        function: of arrays, tuples of arrays and numbers.
    """
    kernel = numba.njit(parallel=True, cache=True, boundscheck=False)(function)
    alone = numba.njit(cache=True, boundscheck=False)(_copy(function))

    @functools.wraps(function)
    def run(*arguments: Any, work: int = 0) -> Any:
        size = max(work, _size(arguments))
        if size <= SERIAL_UP_TO:
            return alone(*arguments)
        _start()
        before = numba.get_num_threads()
        threads = threads_for(size, before)
        if threads == 1:
            return alone(*arguments)
        numba.set_num_threads(threads)
        try:
            return kernel(*arguments)
        finally:
            numba.set_num_threads(before)

    return run


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function under another name, by which numba keeps on disk what it compiled."""
    assert isinstance(function, FunctionType), "loops are functions"
    code = function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    copy = FunctionType(*code)
    copy.__module__, copy.__qualname__ = function.__module__, f"{function.__qualname__}_alone"
    return copy


@functools.cache
def _start() -> None:
    """Starts numba's threads, once.

    By that it tells OpenMP how many threads to take from then on, and PyTorch, if it is loaded and shares OpenMP with
    numba, would take as many: so it is told again how many the user wants.
    """
    torch = sys.modules.get("torch")
    wanted = 0 if torch is None else torch.get_num_threads()
    numba.get_num_threads()
    if torch is not None:
        torch.set_num_threads(wanted)


def threads_for(size: int, most: int) -> int:
    """How many threads a loop over so many numbers takes, of `most` that numba may take."""
    torch = sys.modules.get("torch")  # who has not loaded it has set no number of threads there
    return 1 if size <= SERIAL_UP_TO else min(most, most if torch is None else torch.get_num_threads())


def _size(arguments: tuple[Any, ...]) -> int:
    """Numbers of the largest array."""
    largest = 0
    for each in arguments:
        if isinstance(each, np.ndarray):
            largest = max(largest, each.size)
        elif isinstance(each, tuple):
            largest = max(largest, _size(each))
    return largest
