"""Reference cycles of large processes."""

import weakref

import pytest

from fgl_secure import host


class _Cycle:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("large", [True, False])
def test_only_large_processes_are_searched_for_cycles(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection in each of an audit's runs would double the time of a small audit."""
    monkeypatch.setattr(host, "LARGE", 0 if large else 2**62)
    cycle = weakref.ref(_Cycle())
    host.collect_if_large()
    assert (cycle() is None) == large
