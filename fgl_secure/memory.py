"""Memory that is given back to the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from pathlib import Path
from typing import Any

ROOM = 2**28
"""Bytes by which a process may grow before it is worth a search for what nobody can reach, which takes a fifth of a
second where PyTorch is loaded."""

_STATM = Path("/proc/self/statm")
_least = 0
"""Bytes that were resident after the last search, or the least that were since."""


def give_back() -> None:
    """Frees what nobody can reach any more, and hands free pages back where the C library keeps them.

    What refers to itself is looked for where the process has grown by more than `ROOM`, or nobody says by how much.

    glibc keeps what is freed of arrays up to 32 MB for the next ones of that size. After gigabytes of them are gone,
    whatever is larger would need as many gigabytes beside them.
    """
    global _least  # noqa: PLW0603  # of the process, as its memory is
    before = _resident()
    searched = before is None or before > _least + ROOM
    if searched:
        gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)
    after = _resident() or 0
    _least = after if searched else min(_least, after)


def _resident() -> int | None:
    """Bytes of this process that are in memory; None where the system has no such file."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


@cache
def _trim() -> Any:
    """`malloc_trim` of glibc; None where there is none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # other C libraries, and systems that have none to ask
        return None
