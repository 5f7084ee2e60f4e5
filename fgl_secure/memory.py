"""Memory that is given back to the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

LITTLE = 2**31
"""Bytes of a process that nobody misses: to look through its objects takes longer than small runs do."""


def give_back() -> None:
    """Frees what nobody can reach any more, and hands free pages back where the C library keeps them.

    glibc keeps what is freed of arrays up to 32 MB for the next ones of that size. After gigabytes of them are gone,
    whatever is larger would need as many gigabytes beside them. A process that has little is left as it is.
    """
    if _held() + _held_by_gpus() < LITTLE:
        return
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


def _held() -> int:
    """Bytes that this process has in memory, or as many as matter where the system does not say."""
    try:
        _, resident, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return int(resident) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return LITTLE


def _held_by_gpus() -> int:
    """Bytes of this process' tensors on the GPU that it computes on."""
    torch = sys.modules.get("torch")  # who has not loaded it has none
    return int(torch.cuda.memory_allocated()) if torch is not None and torch.cuda.is_initialized() else 0


@cache
def _trim() -> Any:
    """`malloc_trim` of glibc; None where there is none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # other C libraries, and systems that have none to ask
        return None
