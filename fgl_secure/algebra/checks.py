"""Checks of real numbers before they are encoded, summed or perturbed; no message shows a value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError


def largest_magnitude(values: NDArray[Any]) -> float:
    """The largest magnitude; 0 for no values, NaN where there is one."""
    if not values.size:
        return 0.0
    return float(max(-float(values.min()), float(values.max())))  # a NaN is both


def check_bits(values: NDArray[np.floating[Any]], bits: int, name: str) -> None:
    """Refuses numbers that have more bits behind the binary point than every party is told.

    Raises:
        InputError: one is no multiple of 2^-bits; says what they are.
    """
    shifted = values * 2.0**bits
    if not (np.rint(shifted) == shifted).all() or not np.isfinite(shifted).all():
        raise InputError(f"{name} must be multiples of 2^-{bits}, as all parties know; at least one is not")


def as_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Numbers of any form, a tensor with gradients among them, as float64.

    Raises:
        InputError: they are no real numbers, or rows of different lengths.
    """
    if isinstance(values, torch.Tensor):
        values = (values if values.layout is torch.strided else values.to_dense()).detach().cpu().to(torch.float64)
    elif hasattr(values, "toarray"):  # a sparse matrix of SciPy
        values = values.toarray()
    try:
        floats = np.asarray(values)
        return floats.astype(np.float64, casting="same_kind" if floats.dtype.kind == "f" else "safe")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be real numbers in rows of one length; they are not") from error


def check_finite(values: NDArray[np.floating[Any]], name: str = "numbers", remedy: str = "") -> float:
    """The largest magnitude of values that must be numbers.

    Raises:
        InputError: NaN or infinity is among them; says what they are and what to do.
    """
    return finite(largest_magnitude(values), name, remedy)


def finite(largest: float, name: str = "numbers", remedy: str = "") -> float:
    """The largest magnitude of numbers, if it is one; see `check_finite`."""
    if not math.isfinite(largest):
        raise InputError(f"{name} must be finite; found NaN or infinity" + (f": {remedy}" if remedy else ""))
    return largest
