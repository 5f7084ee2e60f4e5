"""Memory that is given back to the operating system."""

from __future__ import annotations

import resource
import sys
import weakref
from pathlib import Path

import pytest
import torch

from fgl_secure import memory


class _Circle:
    """Something that only a search for circles frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("trims", [True, False])
def test_circles_are_freed_whether_pages_can_be_given_back_or_not(trims: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the C library has a call for it, it is called once."""
    calls: list[int] = []
    monkeypatch.setattr(memory, "_held", lambda: memory.LITTLE)
    monkeypatch.setattr(memory, "_trim", lambda: calls.append if trims else None)
    gone = weakref.ref(_Circle())
    memory.give_back()
    assert gone() is None
    assert calls == [0] * trims


def test_a_process_that_has_little_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through all objects takes a second, and an audit would do it for each of its runs."""
    monkeypatch.setattr(memory, "_held", lambda: memory.LITTLE - 1)
    there = weakref.ref(_Circle())
    memory.give_back()
    assert there() is not None


def test_what_gpus_hold_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors there are in no memory of the process."""
    monkeypatch.setattr(memory, "_held", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: memory.LITTLE)
    gone = weakref.ref(_Circle())
    memory.give_back()
    assert gone() is None
    monkeypatch.delitem(sys.modules, "torch")
    assert memory._held_by_gpus() == 0


def test_what_is_held_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within what the peak allows, and a lot where it says nothing."""
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "linux":
        assert 2**20 < memory._held() <= peak + 2**20
    monkeypatch.setattr(memory, "Path", lambda _: Path("/missing"))
    assert memory._held() == memory.LITTLE


def test_the_c_library_is_asked() -> None:
    """It says whether pages were given back; others have no such call."""
    trim = memory._trim()
    assert trim is None or trim(0) in (0, 1)
