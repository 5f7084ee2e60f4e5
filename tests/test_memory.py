"""Memory that is given back to the operating system."""

from __future__ import annotations

import weakref

import pytest

from fgl_secure import memory


class _Circle:
    """Something that only a search for circles frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("trims", [True, False])
def test_circles_are_freed_whether_pages_can_be_given_back_or_not(trims: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the C library has a call for it, it is called once."""
    calls: list[int] = []
    monkeypatch.setattr(memory, "_trim", lambda: calls.append if trims else None)
    gone = weakref.ref(_Circle())
    memory.give_back()
    assert gone() is None
    assert calls == [0] * trims


def test_the_c_library_is_asked() -> None:
    """It says whether pages were given back; others have no such call."""
    trim = memory._trim()
    assert trim is None or trim(0) in (0, 1)
