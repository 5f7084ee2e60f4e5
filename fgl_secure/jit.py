"""Compiles loops with numba, and keeps them on disk where a folder can be written to."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numba

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
