"""What all machines of one sum have in common: which step is at hand, and what of a message is looked at first."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, StaleMessageError
from fgl_secure.protocols.one_sum.terms import OneSum
from fgl_secure.protocols.stepwise import SteppedMachine, check_arrays, opened_state, sealed_state
from fgl_secure.runtime import MessageKind, Messages, Step

Array = NDArray[Any]

Ids = NDArray[np.int64]


class OneSumMachine(SteppedMachine, ABC):
    """A role in sums of one topology.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.
        owner: what names the scheme, its parameters and the role, in states.
        tape_axes: of all fields.
    """

    def __init__(self, parties: Ids, terms: OneSum, owner: bytes, tape_axes: int) -> None:
        super().__init__(parties, tape_axes)
        self.terms = terms
        names = parties.astype("<i8").tobytes()
        self._owner = owner + terms.digest + hashlib.sha256(names).digest() + type(self).__name__.encode()
        self._sums: Array | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(parties={self.parties.tolist()}, step={self._step}, <secrets>)"

    @property
    def step(self) -> Step:
        """The step at hand.

        Raises:
            StaleMessageError: none is.
        """
        if self._step is None:
            raise StaleMessageError("a sum must be at hand; there is none, or it is over")
        return self._step

    @property
    def sums(self) -> Array | None:
        """See `SumMachine.sums`."""
        return None if self._sums is None else self._sums.copy()

    def _started(self, step: Step) -> None:
        """Goes to a step; see `_check_new`."""
        self._check_new(step)
        self._step, self._sums = step, None

    def _unexpected_rows(self, rows: Array | None) -> None:
        if rows is not None:
            raise InputError("rows must be those of hosted clients, of whom there are none; found some")

    def _check_head(self, messages: Messages, phases: Mapping[MessageKind, Any], due: MessageKind | None) -> None:
        """Raises unless messages are of the step and phase that is due, for parties hosted here.

        Args:
            messages: as they arrived.
            phases: that this role hears at all.
            due: which of them; None where none is.
        """
        self._check_ends(messages)
        if messages.phase not in phases:
            known = ", ".join(phase.label for phase in phases)
            raise MalformedMessageError(f"messages must be {known}; found {messages.phase.label}")
        if messages.step != self.step:
            raise StaleMessageError(f"messages must be of {self.step}; found some of {messages.step}")
        if messages.phase is not due:
            what = "nothing" if due is None else due.label
            raise StaleMessageError(f"messages must be of the stage that is due, {what}; found {messages.phase.label}")

    def _check_from(self, messages: Messages, sender: int) -> None:
        if not (messages.senders == sender).all():
            raise MalformedMessageError(f"messages must be from party {sender}; at least one is not")

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """All that changes but for the step, what was summed before, and the sum."""

    @abstractmethod
    def _take_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from arrays of the right names and types."""

    def state(self) -> Mapping[str, Array]:
        """See `Machine.state`. It is good for one machine at a time.

        Two that go on from one state could be asked two different things, and would open together what neither opens
        alone.
        """
        return sealed_state(self._owner, self._everything())

    def restore(self, state: Mapping[str, Array]) -> None:
        """See `Machine.restore`."""
        arrays = opened_state(self._owner, state)
        check_arrays(arrays, self._everything())
        self._take_steps(arrays)
        self._sums = arrays["sums"] if arrays["sums"].size else None
        self._take_arrays(arrays)

    def _everything(self) -> dict[str, Array]:
        empty = np.zeros((1,) * self._tape_axes + (0, 0), dtype=np.int64)
        return {
            **self._steps(),
            "sums": empty if self._sums is None else self._sums,
            **self._arrays(),
        }
