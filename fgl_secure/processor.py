"""What instructions the processor has that compiled loops name themselves."""

from __future__ import annotations

import sys
from functools import cache

import numba
from llvmlite import binding

WIDE = ("avx", "vaes")
"""How instructions begin whose registers numba leaves alone where NUMBA_ENABLE_AVX is 0."""


@cache
def has(*features: str) -> bool:
    """Whether loops may name instructions of some features, named as LLVM does: `aes`, `avx2`.

    The processor must have them, and numba compile, for this processor and with them: LLVM ends the process where it
    meets one that it was told to do without. Numbers lie lowest byte first.
    """
    settings = numba.config
    if sys.byteorder != "little" or settings.DISABLE_JIT or settings.CPU_NAME or settings.CPU_FEATURES:
        return False
    if not settings.ENABLE_AVX and any(feature.startswith(WIDE) for feature in features):
        return False
    found = binding.get_host_cpu_features()
    return all(found.get(feature, False) for feature in features)
