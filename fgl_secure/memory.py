"""Memory that is given back to the operating system."""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any


def give_back() -> None:
    """Frees what nobody can reach any more, and hands free pages back where the C library keeps them.

    glibc keeps what is freed of arrays up to 32 MB for the next ones of that size. After gigabytes of them are gone,
    whatever is larger would need as many gigabytes beside them.
    """
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """`malloc_trim` of glibc; None where there is none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # other C libraries, and systems that have none to ask
        return None
