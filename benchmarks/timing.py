"""Times of repeated calls, and figures that are held against a bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins

Work = Callable[[], object]

NOT_DONE = "counted, not done"
"""What printed lines call work that is counted alone."""


class BoundSide(StrEnum):
    """On which side of its bound a figure should lie."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one piece of work.

    Attributes:
        name: what was done.
        device: "cpu", or "cuda" with times taken after synchronising.
        median: of the repeats, as are the next two.
        least: fastest repeat.
        most: slowest repeat.
        repeats: how many, after one that isn't counted.
        items: elements that came out; 0 where that says nothing.
        moved: bytes read and written by the caller's arrays.
        multiply_adds: products added up.
        lower: the first quartile of the repeats; 0 where it wasn't taken.
        upper: the third.
        counted: what of the work is counted and not done, in words; none if all is done.
    """

    name: str
    device: str
    median: float
    least: float
    most: float
    repeats: int
    items: int = 0
    moved: int = 0
    multiply_adds: int = 0
    lower: float = 0.0
    upper: float = 0.0
    counted: str = ""

    @classmethod
    def of(cls, name: str, seconds: Sequence[float], *, device: str = "cpu", counted: str = "") -> Timing:
        """What some repeats took."""
        lower, median, upper = np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()
        known = (median, min(seconds), max(seconds), len(seconds))
        return cls(name, device, *known, lower=lower, upper=upper, counted=counted)


@dataclass(frozen=True, slots=True)
class BoundedFigure:
    """A measured ratio and its bound.

    Attributes:
        name: what is compared with what.
        value: the ratio of medians; None where there is nothing to compare with.
        side: on which side of the bound it should lie.
        bound: what was asked for.
        note: what limits it, which is said where the bound isn't reached, or why there is no value.
        counted: what of the work is counted and not done, in words; none if all is done.
        basis: what goes into the value or was found beside it, which is said whether the bound is reached or not.
    """

    name: str
    value: float | None
    side: BoundSide
    bound: float
    note: str = ""
    counted: str = ""
    basis: str = ""

    @property
    def is_reached(self) -> bool | None:
        """Whether the bound is reached; None without a value."""
        if self.value is None:
            return None
        return self.value >= self.bound if self.side is BoundSide.AT_LEAST else self.value <= self.bound


def measure(
    work: Work,
    name: str,
    *,
    device: str = "cpu",
    repeats: int = 7,
    items: int = 0,
    moved: int = 0,
    multiply_adds: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Times `repeats` calls after one that compiles and touches the memory."""
    _seconds(work, device, clock)
    seconds = [_seconds(work, device, clock) for _ in range(repeats)]
    timing = Timing.of(name, seconds, device=device)
    return replace(timing, items=items, moved=moved, multiply_adds=multiply_adds)


def _seconds(work: Work, device: str, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def line(timing: Timing, copy_rate: float) -> str:
    """One line for people: median, quartiles and extremes, throughput, bytes a second as a share of a memory copy's."""
    parts = [f"{timing.name:<72} {timing.device:<5}{1e3 * timing.median:9.2f} ms"]
    parts.append(f"({1e3 * timing.least:.2f}-{1e3 * timing.most:.2f})")
    if timing.upper:
        parts.append(f"quartiles {1e3 * timing.lower:.2f}-{1e3 * timing.upper:.2f}")
    if timing.items:
        parts.append(f"{timing.items / timing.median / 1e6:9.1f} M elements/s")
    if timing.multiply_adds:
        parts.append(f"{timing.multiply_adds / timing.median / 1e9:6.2f} G multiply-adds/s")
    if timing.moved:
        rate = timing.moved / timing.median
        parts.append(f"{rate / 1e9:6.2f} GB/s = {rate / copy_rate:.0%} of a memory copy's")
    if timing.counted:
        parts.append(f"{NOT_DONE}: {timing.counted}")
    return "  ".join(parts)


def verdict(figure: BoundedFigure) -> str:
    """One line for people, one more on what goes into the figure, and one on what limits it if it misses its bound."""
    if figure.value is None:
        return f"{figure.name}: not measured, {figure.note} (bound: {figure.side} {figure.bound:g})"
    reached = "reached" if figure.is_reached else "NOT reached"
    text = f"{figure.name}: {figure.value:.2f} (bound: {figure.side} {figure.bound:g}, {reached})"
    text += f"; {NOT_DONE}: {figure.counted}" if figure.counted else ""
    more = (figure.basis, "" if figure.is_reached else figure.note)
    return "\n    ".join([text, *filter(None, more)])


Placed = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All that was measured.

    Attributes:
        copy_rate: bytes a second, read and written, of a memory copy in the same run.
        timings: every piece of work.
        figures: those with a bound.
    """

    copy_rate: float
    timings: tuple[Timing, ...]
    figures: tuple[BoundedFigure, ...] = ()


def random_elements(field: PrimeField, shape: tuple[int, ...]) -> NDArray[Any]:
    """Repeatable uniform elements in the field's dtype."""
    return SimulationCoins(0).uniform(field.modulus, shape).astype(field.dtype)


def copy_timing(size: int) -> Timing:
    """Copies as many bytes as make `size` bytes read and written, into memory that was written to before."""
    source, destination = (np.ones(size // 2, dtype=np.uint8) for _ in range(2))
    return measure(lambda: np.copyto(destination, source), "memory copy", moved=size)


def on_devices(array: NDArray[Any]) -> Iterator[Placed]:
    """The array for the CPU, and as a tensor on the GPU where there is one."""
    yield "cpu", array
    if torch.cuda.is_available():
        yield "cuda", torch.from_numpy(array).cuda()


def galois_field(modulus: int) -> Any:
    """Galois's field, or None where galois isn't installed."""
    return import_module("galois").GF(modulus) if find_spec("galois") else None
