"""Machines whose process ends after every message: what is left of them is their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import Messages, Step

Array = NDArray[Any]


class Restarting(SumMachine):
    """A machine that is made anew before each call, and restored from what it left behind.

    Args:
        make: a machine as it is in the beginning.
    """

    def __init__(self, make: Callable[[], SumMachine]) -> None:
        self._make = make
        first = make()
        super().__init__(first.parties)
        self._state = _copied(first.state())

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._kept(lambda machine: machine.begin(step, rows))

    def take(self, messages: Messages) -> None:
        self._kept(lambda machine: machine.take(messages))

    def turn(self) -> Iterable[Messages]:
        said: list[Messages] = []
        self._kept(lambda machine: said.extend(machine.turn()))
        return said

    @property
    def sums(self) -> Array | None:
        return self._woken().sums

    @property
    def included(self) -> NDArray[np.int64] | None:
        return self._woken().included

    def state(self) -> Mapping[str, Array]:
        return self._state

    def restore(self, state: Mapping[str, Array]) -> None:
        self._state = _copied(state)

    def _woken(self) -> SumMachine:
        machine = self._make()
        machine.restore(self._state)
        return machine

    def _kept(self, act: Callable[[SumMachine], None]) -> None:
        machine = self._woken()
        try:
            act(machine)
        finally:
            self.remarks.extend(machine.remarks)
        self._state = _copied(machine.state())


def _copied(state: Mapping[str, Array]) -> dict[str, Array]:
    """As it would be read from a file: nothing is shared with the machine."""
    return {name: np.array(value) for name, value in state.items()}
