"""Instructions that loops name are those that the processor has and that numba compiles with."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numba
import pytest
from llvmlite import binding

from fgl_secure import processor


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor with two of three instructions, and numba as it is by default."""
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"aes": True, "avx2": True, "avx512f": False})
    for name, value in {"DISABLE_JIT": 0, "ENABLE_AVX": 1, "CPU_NAME": None, "CPU_FEATURES": None}.items():
        monkeypatch.setattr(numba.config, name, value)
    processor.has.cache_clear()
    yield
    processor.has.cache_clear()


@pytest.mark.usefixtures("_known")
def test_a_processor_has_what_it_says() -> None:
    """All of several, of which it must name each."""
    assert processor.has("aes", "avx2")
    assert not processor.has("aes", "avx512f")
    assert not processor.has("vaes")


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("name", "value"), [("DISABLE_JIT", 1), ("CPU_NAME", "generic"), ("CPU_FEATURES", "+aes"), ("ENABLE_AVX", 0)]
)
def test_what_numba_does_without_is_not_named(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM would end the process; without wide registers alone, AES's own instructions stay."""
    monkeypatch.setattr(numba.config, name, value)
    assert not processor.has("avx2")
    assert processor.has("aes") == (name == "ENABLE_AVX")


@pytest.mark.usefixtures("_known")
def test_numbers_lie_lowest_byte_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    assert not processor.has("aes")
