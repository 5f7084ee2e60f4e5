"""Loops that numba compiles and keeps on disk, and how many threads they and models take."""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from fgl_secure.errors import InputError

CACHE_VARIABLE = "FGL_SECURE_CACHE"

kept: list[bool] = []
"""Of each loop, whether it is kept on disk."""


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the function is compiled when it is first called.

    Args:
        cache: whether machine code is kept on disk: where numba keeps it, or else in the folder that FGL_SECURE_CACHE
            names. Without a folder that can be written to, every process compiles it anew, which a log entry says.
        options: of `numba.njit`.

    Raises:
        InputError: NUMBA_DISABLE_JIT is set, under which numba compiles nothing.
    """
    if numba.config.DISABLE_JIT:
        raise InputError(
            "NUMBA_DISABLE_JIT must be unset or 0: loops count modulo 2^64, as integers of Python do not; found "
            f"{numba.config.DISABLE_JIT}"
        )

    def decorate(function: Callable[..., Any]) -> Any:
        loop = _on_disk(function, options) if cache else None
        return numba.njit(**options)(function) if loop is None else loop

    return decorate


def _on_disk(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The function, if it can be kept on disk; else None."""
    for folder in (numba.config.CACHE_DIR, _folder()):
        with suppress(RuntimeError), _cache_folder(folder):  # numba has no folder that can be written to
            loop = numba.njit(cache=True, **options)(function)
            _spare_full_disks(loop)
            kept.append(True)
            return loop
    if not kept or all(kept):
        logging.getLogger("fgl_secure").warning(
            "compiled loops are not kept on disk, and every process compiles them anew: no folder for them can be "
            "written to; NUMBA_CACHE_DIR or %s may name one",
            CACHE_VARIABLE,
        )
    kept.append(False)
    return None


def _folder() -> str:
    """The folder of loops under FGL_SECURE_CACHE; empty if it is not set."""
    named = os.environ.get(CACHE_VARIABLE)
    return os.path.join(os.path.expanduser(named), "loops") if named else ""


def _spare_full_disks(loop: Any) -> None:
    """A loop that a full disk doesn't take is compiled anew by the next process."""
    save = loop._cache.save_overload  # numba lets the error through to the caller of the loop

    def save_overload(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    loop._cache.save_overload = save_overload  # as above


@contextmanager
def _cache_folder(folder: str) -> Iterator[None]:
    """Numba's first choice of a folder inside."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


SERIAL_UP_TO = 2**18
"""Loops over arrays of at most so many numbers take one thread: they take less than a millisecond, and two pools of
threads, PyTorch's and these, that wake for every call take turns at waiting for each other."""

_MOST: ContextVar[int] = ContextVar("_MOST", default=sys.maxsize)


Thread = tuple[int, int]
"""Which of how many threads: (0, 1) is alone."""


@njit(cache=False)
def slice_of(count: int, thread: Thread) -> Any:
    """The slice of `count` elements that one thread goes over; for compiled loops, which have it inlined.

    Loops over a slice take wide steps, which loops over a range don't that might begin below 0 as far as numba knows.
    """
    number, threads = thread
    return slice(number * count // threads, (number + 1) * count // threads)


@njit(cache=False)
def range_of(count: int, thread: Thread) -> Any:
    """Those of range(count) that one thread goes over; for compiled loops, which have it inlined."""
    span = slice_of(count, thread)
    return range(span.start, span.stop)


def parallel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop that is compiled when first called, kept on disk, and shared by as many threads as it needs.

    It goes over `range_of(count, thread)` instead of `range(count)`, or over a `slice_of` its arrays; `thread` is its
    last argument, which callers leave out. So it is compiled once for any number of threads: numba's own `parallel` is
    a second form of every loop, and takes three times as long to compile. A loop that goes over its arrays many times
    is also told `work`, the numbers that it takes in hand. What it returns, None or a number, is added up over the
    threads.

    Args:
        function: of arrays, tuples of arrays and numbers, and of `thread`.
    """
    kernel = njit(nogil=True, boundscheck=False)(function)

    @functools.wraps(function)
    def run(*arguments: Any, work: int = 0) -> Any:
        threads = threads_for(max(work, _size(arguments)), most())
        if threads == 1:
            return kernel(*arguments, (0, 1))
        others = [_pool().submit(lambda thread: kernel(*arguments, thread), (i, threads)) for i in range(1, threads)]
        try:
            first = kernel(*arguments, (0, threads))
        finally:
            wait(others)  # they write into the arguments
        result = [other.result() for other in others]
        return None if first is None else sum(result, first)

    return run


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads beside the one that calls; they start when they are first needed."""
    return ThreadPoolExecutor(max(numba.config.NUMBA_NUM_THREADS - 1, 1), thread_name_prefix="fgl-secure-loop")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads don't come along


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Loops take no more threads than that inside."""
    token = _MOST.set(threads)
    try:
        yield
    finally:
        _MOST.reset(token)


class _OneThread:
    """Calls inside `one_thread`, and what the first of them replaced."""

    def __init__(self) -> None:
        self.lock, self.own = threading.RLock(), threading.local()
        self.calls, self.before = 0, 0
        self.blas: Any = None

    def enter(self) -> None:
        """One more thread is inside."""
        import torch  # noqa: PLC0415  # loops alone do without

        with self.lock:
            if self.calls == 0:
                self.before = torch.get_num_threads()
                self.blas = ThreadpoolController().limit(limits=1, user_api="blas")
            self.calls += 1
            torch.set_num_threads(1)

    def leave(self) -> None:
        """One thread fewer is inside."""
        import torch  # noqa: PLC0415  # as above

        with self.lock:
            self.calls -= 1
            torch.set_num_threads(self.before)
            if self.calls == 0:
                self.blas.restore_original_limits()
                return
            later = threading.Thread(target=torch.set_num_threads, args=(1,))  # not this thread's any more
            later.start()
            later.join()


_ONE = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch and BLAS compute with one thread inside; also a decorator of functions.

    Matrices of small models gain little from a second thread. On busy cores threads wait for each other, which takes
    many times as long. Compiled loops, which wait without spinning, keep the caller's number of threads.

    PyTorch has a number of threads for each thread that has called it, and one for those that call it later. Both are
    the caller's again afterwards; the second stays 1 until calls in all threads have returned, as that of BLAS does.
    """
    if getattr(_ONE.own, "inside", False):
        yield
        return
    _ONE.enter()
    _ONE.own.inside = True
    try:
        yield
    finally:
        _ONE.own.inside = False
        _ONE.leave()


def most() -> int:
    """The threads that a large loop takes: no more than NUMBA_NUM_THREADS, than PyTorch, and than `at_most` says.

    Inside `one_thread` PyTorch's are those of the caller.
    """
    torch = sys.modules.get("torch")  # who has not loaded it has set no number of threads there
    allowed = min(_MOST.get(), int(numba.config.NUMBA_NUM_THREADS))
    if _ONE.calls:
        return min(allowed, _ONE.before)
    return allowed if torch is None else min(allowed, torch.get_num_threads())


def threads_for(size: int, allowed: int) -> int:
    """How many threads a loop over so many numbers takes, of those that it may take."""
    return 1 if size <= SERIAL_UP_TO else allowed


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to: loops are compiled once more for arrays that can, and that they only read."""
    view = array.view()
    view.flags.writeable = False
    return view


def _size(arguments: tuple[Any, ...]) -> int:
    """Numbers of the largest array."""
    largest = 0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            largest = max(largest, argument.size)
        elif isinstance(argument, tuple):
            largest = max(largest, _size(argument))
    return largest
