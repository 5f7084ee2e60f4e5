"""Reference cycles of large processes, freed before Python's own collector runs."""

from __future__ import annotations

import gc
import os
from pathlib import Path

LARGE = 2**31
"""Resident bytes from which a collection pays: in a small process it takes longer than the work around it."""


def collect_if_large() -> None:
    """Free unreachable reference cycles, unless this process holds fewer than `LARGE` bytes."""
    if _resident_bytes() >= LARGE:
        gc.collect()


def _resident_bytes() -> int:
    """Return the resident bytes of this process, or `LARGE` where the system does not report them."""
    try:
        _, resident, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return int(resident) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return LARGE
