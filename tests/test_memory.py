"""Memory that is given back to the operating system."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest

from fgl_secure import memory

GIB = 2**30


class _Circle:
    """Something that only a search for circles frees."""

    def __init__(self) -> None:
        self.itself = self


def _resident(monkeypatch: pytest.MonkeyPatch, least: int, *readings: int | None) -> None:
    """Has a process with so many bytes, one reading after the other."""
    told = iter(readings)
    monkeypatch.setattr(memory, "_least", least)
    monkeypatch.setattr(memory, "_resident", lambda: next(told))


@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize("resident", [(2 * GIB, GIB), (None, None)])
def test_circles_are_freed_whether_pages_can_be_given_back_or_not(
    trims: bool, resident: Sequence[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a process has grown, or nobody knows. Where the C library has a call for it, it is called once."""
    calls: list[int] = []
    monkeypatch.setattr(memory, "_trim", lambda: calls.append if trims else None)
    _resident(monkeypatch, GIB, *resident)
    gone = weakref.ref(_Circle())
    memory.give_back()
    assert gone() is None
    assert calls == [0] * trims
    assert memory._least == (resident[1] or 0)


@pytest.mark.parametrize(("before", "after"), [(GIB + memory.ROOM, GIB + memory.ROOM), (GIB, GIB // 2)])
def test_a_process_that_has_hardly_grown_is_not_searched(
    before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free pages are given back all the same, and from what is left then the next growth counts."""
    calls: list[int] = []
    monkeypatch.setattr(memory, "_trim", lambda: calls.append)
    monkeypatch.setattr("gc.collect", lambda: pytest.fail("it was searched"))
    _resident(monkeypatch, GIB, before, after)
    memory.give_back()
    assert calls == [0]
    assert memory._least == min(GIB, after)


def test_resident_bytes_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Linux, where Python alone takes megabytes; elsewhere nobody knows."""
    found = memory._resident()
    assert (found is not None) == memory._STATM.exists()
    assert found is None or 2**20 < found < 2**50
    monkeypatch.setattr(memory, "_STATM", tmp_path / "statm")
    assert memory._resident() is None


def test_the_c_library_is_asked() -> None:
    """It says whether pages were given back; others have no such call."""
    trim = memory._trim()
    assert trim is None or trim(0) in (0, 1)
