"""What instructions the processor has that compiled loops name themselves."""

from __future__ import annotations

import sys
from functools import cache

import numba
from llvmlite import binding


@cache
def has(*features: str) -> bool:
    """Whether loops may name instructions of some features, named as LLVM does: `aes`, `avx2`.

    The processor must have them, and numba compile for this processor; numbers lie lowest byte first.
    """
    chosen = numba.config.CPU_NAME or numba.config.CPU_FEATURES
    found = binding.get_host_cpu_features()
    return sys.byteorder == "little" and not chosen and all(found.get(feature, False) for feature in features)
