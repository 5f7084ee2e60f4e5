"""Two roles of the same parties as one machine: clients that are their own silos, for example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import Messages, Phase, Step
from fgl_secure.typing import Array


class Together(SumMachine):
    """Machines of which some host the same parties; a message goes to the one that its phase is for.

    Args:
        first: the machine that has rows and sums, and the phases that it takes.
        second: the other one, and its phases.
    """

    def __init__(
        self, first: tuple[SumMachine, tuple[Phase, ...]], second: tuple[SumMachine, tuple[Phase, ...]]
    ) -> None:
        super().__init__(np.union1d(first[0].parties, second[0].parties))
        self._parts = (first[0], second[0])
        self._host = {phase: machine for machine, phases in (first, second) for phase in phases}
        for machine in self._parts:
            machine.remarks = self.remarks

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """Rows are those of the first machine."""
        self._parts[0].begin(step, rows)
        self._parts[1].begin(step)

    def take(self, messages: Messages) -> None:
        """See `Machine.take`."""
        if messages.phase not in self._host:
            raise MalformedMessageError(f"messages must be due; found {messages.phase.label}")
        self._host[messages.phase].take(messages)

    def turn(self) -> Iterable[Messages]:
        """What either has to say."""
        return chain(*[machine.turn() for machine in self._parts])

    def state(self) -> Mapping[str, Array]:
        """Both states, under numbered names."""
        return {
            f"{place} {name}": value
            for place, machine in enumerate(self._parts)
            for name, value in machine.state().items()
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """See `Machine.restore`."""
        leads = [f"{place} " for place in range(len(self._parts))]
        if not all(name.startswith(tuple(leads)) for name in state):
            raise MalformedMessageError("state must be that of two machines together; its arrays have other names")
        first, second = (
            {name.removeprefix(lead): value for name, value in state.items() if name.startswith(lead)} for lead in leads
        )
        before = self._parts[0].state()
        self._parts[0].restore(first)
        try:
            self._parts[1].restore(second)
        except MalformedMessageError:
            self._parts[0].restore(before)
            raise

    @property
    def sums(self) -> Array | None:
        """Those of the first machine."""
        return self._parts[0].sums
