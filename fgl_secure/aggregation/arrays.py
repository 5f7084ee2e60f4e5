"""Single tensors and arrays: what kinds there are, and how they become plain numpy vectors and back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError

Array = Any
"""A torch tensor or a numpy array."""


class Kind(StrEnum):
    """Whose array it is."""

    TORCH = "torch"
    NUMPY = "numpy"


FLOATS: Mapping[str, int] = MappingProxyType({"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53})
"""Names of the float types, and the bits of their significands."""
SMALLEST: Mapping[str, int] = MappingProxyType({"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074})
"""Binary exponents of their smallest positive numbers."""
LARGEST: Mapping[str, int] = MappingProxyType({"float16": 16, "bfloat16": 128, "float32": 128, "float64": 1024})
"""Binary exponents that all their numbers stay below."""
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = "bool"
DTYPES = (*FLOATS, *INTEGERS, BOOL)


def kind_of(value: object, name: str) -> Kind:
    """Whether a value is a torch tensor or a numpy array.

    Raises:
        InputError: it is neither, or one without plain memory: sparse, quantised, masked or without data.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            raise InputError(f"tensor {name!r} must be dense and hold data; found {value.layout} on {value.device}")
        return Kind.TORCH
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.ma.MaskedArray):
        return Kind.NUMPY
    raise InputError(f"values must be torch tensors or numpy arrays; found {type(value).__name__} under {name!r}")


def dtype_of(value: Array, name: str) -> str:
    """The name of its type, one of `DTYPES`.

    Raises:
        InputError: another type, complex among them.
    """
    found = _name_of(value.dtype)
    if found not in DTYPES:
        raise InputError(f"dtype of {name!r} must be one of {', '.join(DTYPES)}; found {found}")
    return found


@cache
def _name_of(dtype: torch.dtype | np.dtype[Any]) -> str:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype.name


def reals_of(value: Array) -> NDArray[np.float64]:
    """All entries in row-major order, float64 [size]; exact for every float type and for integers below 2^53."""
    return np.asarray(entries_of(value), dtype=np.float64)


def entries_of(value: Array) -> NDArray[Any]:
    """All entries in row-major order, in their own type; float32 for the type of floats that numpy lacks."""
    if isinstance(value, torch.Tensor):
        here = value.detach().cpu().resolve_neg()
        value = (here.float() if here.dtype is torch.bfloat16 else here).numpy()  # torch would wake threads to convert
    return np.asarray(value).reshape(-1)


@torch.inference_mode(mode=False)
def array_from(values: NDArray[Any], shape: tuple[int, ...], dtype: str, kind: Kind, device: str) -> Array:
    """An array of that type and place, in memory of its own; a value rounded to a float type stays finite.

    Rounding to a narrower type may step over its largest number, beside which every mean of its numbers lies.
    """
    if kind is Kind.NUMPY:
        if dtype in FLOATS:
            most = float(np.finfo(dtype).max)
            values = values.clip(-most, most)
        return values.astype(dtype).reshape(shape)
    if dtype == "bfloat16":
        most = torch.finfo(torch.bfloat16).max
        return torch.from_numpy(values.clip(-most, most).reshape(shape)).to(device=device, dtype=torch.bfloat16)
    return torch.from_numpy(array_from(values, shape, dtype, Kind.NUMPY, device)).to(device)
