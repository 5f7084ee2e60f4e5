"""What a benchmark leaves, and what it compares with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.cli.bench.timing import Figure, Timing, measure
from fgl_secure.coins import SimulationCoins

Placed = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured.

    Attributes:
        copy_rate: bytes a second, read and written, of a memory copy in the same run.
        timings: every piece of work.
        figures: those with a bound.
    """

    copy_rate: float
    timings: tuple[Timing, ...]
    figures: tuple[Figure, ...] = ()


def random_elements(field: PrimeField, shape: tuple[int, ...]) -> NDArray[Any]:
    """Repeatable uniform elements in the field's dtype."""
    return SimulationCoins(0).uniform(field.modulus, shape).astype(field.dtype)


def copy_timing(size: int) -> Timing:
    """Copies as many bytes as make `size` bytes read and written, into fresh memory as our results are."""
    source = np.ones(size // 2, dtype=np.uint8)
    return measure(source.copy, "memory copy", moved=size)


def on_devices(array: NDArray[Any]) -> Iterator[Placed]:
    """The array for the CPU, and as a tensor on the GPU where there is one."""
    yield "cpu", array
    if torch.cuda.is_available():
        yield "cuda", torch.from_numpy(array).cuda()


def galois_field(modulus: int) -> Any:
    """Galois's field, or None where galois isn't installed."""
    return import_module("galois").GF(modulus) if find_spec("galois") else None
