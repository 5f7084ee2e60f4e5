"""The figures of an audit: what an attack recovered, and how sure that is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fgl_secure.errors import InputError
from fgl_secure.statistics.bootstrap import (
    clustered_advantage,
    clustered_proportion,
    node_block_proportion,
    pair_advantage,
)
from fgl_secure.statistics.intervals import (
    Interval,
    Proportion,
    advantage,
    exact_proportion,
    smallest_detectable,
    units_per_arm,
    wilson_interval,
)

__all__ = [
    "Interval",
    "Proportion",
    "advantage",
    "clustered_advantage",
    "clustered_proportion",
    "exact_proportion",
    "exact_rows_recovered",
    "node_block_proportion",
    "pair_advantage",
    "smallest_detectable",
    "units_per_arm",
    "wilson_interval",
]


def exact_rows_recovered(guess: npt.NDArray[np.generic], truth: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Whether each row of the guess equals the secret bit for bit.

    Bits, not values: -0.0 is not 0.0, and a NaN equals a NaN of the same bits.

    Args:
        guess: [m, d], integers, floats or bools of at most 8 bytes an element.
        truth: [m, d], of the same dtype.

    Returns:
        bool [m].

    Raises:
        InputError: for different shapes or dtypes, or a dtype without a plain bit pattern.
    """
    if guess.ndim != 2 or guess.shape != truth.shape:
        raise InputError(f"guess and truth must share one shape [m, d]; found {guess.shape} and {truth.shape}")
    if guess.dtype != truth.dtype or guess.dtype.kind not in "biuf" or guess.dtype.itemsize > 8:
        raise InputError(
            f"guess and truth must share one integer, float or bool dtype; found {guess.dtype} and {truth.dtype}"
        )
    bits = np.dtype(f"u{guess.dtype.itemsize}")
    same = np.ascontiguousarray(guess).view(bits) == np.ascontiguousarray(truth).view(bits)
    return np.asarray(same.all(axis=1), dtype=np.bool_)
