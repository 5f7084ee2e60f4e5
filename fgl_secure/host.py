"""Settings of the process under which this package computes, whatever the calling program has set.

Models and codes are written for the usual settings of PyTorch and numpy: float32, the CPU, gradients, full precision,
no floating-point traps. `library_settings` sets these while a public function runs, and gives the caller's back
afterwards, also after an exception.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch


class _ProcessSetting:
    """A setting that all threads share. It has the package's value until the last call has returned.

    Args:
        read: returns the value that is set.
        write: sets a value.
        value: the package's.
    """

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None], value: Any) -> None:
        self._read, self._write, self._value = read, write, value
        self._lock, self._calls, self._before = threading.Lock(), 0, value

    @contextmanager
    def replace(self) -> Iterator[None]:
        """The package's value inside."""
        with self._lock:
            if self._calls == 0:
                self._before = self._read()
                self._write(self._value)
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                if self._calls == 0:
                    self._write(self._before)


def _read_precision() -> Any:
    """The precision of products of float32: one word for all backends, or each backend's own."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set by backend, which PyTorch 2.9 and later allow
        backends: Any = torch.backends  # older releases have no such parts
        return [(part, part.fp32_precision) for part in (backends.mkldnn.matmul, backends.cuda.matmul)]


def _write_precision(value: Any) -> None:
    if isinstance(value, str):
        torch.set_float32_matmul_precision(value)
        return
    for part, precision in value:
        part.fp32_precision = precision


def _flushes_denormals() -> bool:
    """Whether this thread takes floats below the normal ones for 0; PyTorch has no function that returns it."""
    return bool(torch.tensor(1e-310, dtype=torch.float64, device="cpu") == 0)


_SHARED = (
    _ProcessSetting(torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    _ProcessSetting(_read_precision, _write_precision, "highest"),
)


@contextmanager
def numpy_settings() -> Iterator[None]:
    """Numpy's usual answers to overflow, division by zero and invalid numbers inside; also a decorator of functions."""
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        yield


@contextmanager
def library_settings() -> Iterator[None]:
    """The package's settings inside; also a decorator of functions.

    Settings of one thread (gradients, autocast, the default device, numpy's error state) are replaced in this thread
    alone: threads that the package starts have the usual ones.
    """
    with ExitStack() as settings:
        for setting in _SHARED:
            settings.enter_context(setting.replace())
        settings.enter_context(numpy_settings())
        settings.enter_context(torch.inference_mode(mode=False))  # has gradients, too
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                settings.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":  # every call of PyTorch is slower inside
            settings.enter_context(torch.device("cpu"))
        if _flushes_denormals():
            torch.set_flush_denormal(False)
            settings.callback(torch.set_flush_denormal, True)
        yield


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
