"""Single tensors and arrays: what kinds there are, and how they become plain numpy vectors and back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parameter import is_lazy

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
    """Return whether a value is a torch tensor or a numpy array.

    Raises:
        InputError: it is neither, or one without plain memory: sparse, quantised, masked or without data. The message
            says how it becomes one.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_meta or not _is_plain(value):
            raise InputError(f"tensor {name!r} must be dense and hold data; found {_special(value)}")
        return Kind.TORCH
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.ma.MaskedArray):
        return Kind.NUMPY
    found = f"{type(value).__name__} under {name!r}: {_array_remedy(value)}"
    raise InputError(f"values must be torch tensors or numpy arrays; found {found}")


def _is_plain(value: torch.Tensor) -> bool:
    """Return whether a tensor is one block of numbers, and no class of tensors that computes in its own way."""
    dispatch = type(value).__torch_dispatch__
    return not (value.is_nested or is_lazy(value)) and dispatch == torch.Tensor.__torch_dispatch__


def _special(value: torch.Tensor) -> str:
    """Return what kind of tensor it is that is refused, and how to make a plain one of it."""
    if value.is_nested:
        return "a nested tensor: give the list of its parts, unbind()"
    if is_lazy(value):
        return "a parameter without a shape: run the model once"
    if value.is_meta:
        return "a tensor on the meta device, which holds no numbers: give the tensors of the model that was trained"
    if value.is_quantized:
        return "a quantised tensor: call its dequantize()"
    if value.layout is not torch.strided:
        return f"{value.layout}: call its to_dense()"
    return f"{type(value).__name__}: give a plain torch.Tensor"


def _array_remedy(value: object) -> str:
    """Return how a value that is no array becomes one."""
    if isinstance(value, np.ma.MaskedArray):
        return "call its filled(0)"
    if isinstance(value, torch.nn.Module):
        return "give its state_dict()"
    if hasattr(value, "toarray"):
        return "call its toarray()"
    with suppress(Exception):  # a foreign class may raise anything
        if np.asarray(value).dtype.name in DTYPES:
            return "give numpy.asarray of it"
    return "leave it out, or give dict(pairs) where names and arrays come in pairs"


def dtype_of(value: Array, name: str) -> str:
    """Return the name of its type, one of `DTYPES`, in any byte order.

    Raises:
        InputError: another type, complex among them.
    """
    found = _name_of(value.dtype)
    if found not in DTYPES:
        convert = "float()" if isinstance(value, torch.Tensor) else "astype('float64')"
        remedy = "real and its imag as two arrays" if found.startswith("complex") else f"{convert}, or leave it out"
        raise InputError(f"dtype of {name!r} must be one of {', '.join(DTYPES)}; found {found}: give its {remedy}")
    return found


@cache
def _name_of(dtype: torch.dtype | np.dtype[Any]) -> str:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype.name


def reals_of(value: Array) -> NDArray[np.float64]:
    """All entries in row-major order, float64 [size]; exact for every float type and for integers below 2^53."""
    return np.asarray(entries_of(value), dtype=np.float64)


def entries_of(value: Array) -> NDArray[Any]:
    """Return all entries in row-major order, in their own type and the byte order of this machine, [size].

    Entries of the type of floats that numpy lacks, bfloat16, are float32.
    """
    if isinstance(value, torch.Tensor):
        here = value.detach().cpu().resolve_neg()
        value = (here.float() if here.dtype is torch.bfloat16 else here).numpy()  # torch would wake threads to convert
    flat = np.asarray(value).reshape(-1)
    # Compiled kernels take no foreign byte order, which arrays from files and networks may have.
    return flat if flat.dtype.isnative else flat.astype(flat.dtype.newbyteorder("="))


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
