"""What all machines of one sum have in common: which step is at hand, and what of a message is looked at first."""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.one_sum.terms import OneSum, step_bytes
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import Direction, Messages, Phase, Step

Array = NDArray[Any]

DIGEST = "digest"
NO_STEP: NDArray[np.int64] = np.zeros((0, 6), dtype=np.int64)


def sealed_state(owner: bytes, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Copies of arrays, and their digest.

    Args:
        owner: what parties agree on, and which machine of which parties it is.
        arrays: all that changes.
    """
    kept = {name: value.copy() for name, value in arrays.items()}
    kept[DIGEST] = np.frombuffer(_digest(owner, kept), dtype=np.uint8)
    return kept


def opened_state(owner: bytes, state: Mapping[str, Array], like: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a state, as copies.

    Args:
        owner: as it was sealed with.
        state: to be read.
        like: arrays of the same names and types, and, but for those of length 0 on an axis, of the same shapes.

    Raises:
        MalformedMessageError: it is no state of this machine, or not whole.
    """
    arrays = {name: value for name, value in state.items() if name != DIGEST}
    whole = DIGEST in state and all(isinstance(value, np.ndarray) for value in state.values())
    if not whole or not hmac.compare_digest(state[DIGEST].tobytes(), _digest(owner, arrays)):
        raise MalformedMessageError("state must be that of this machine in a sum under these terms, whole; it is not")
    if {name: (a.dtype, a.ndim) for name, a in arrays.items()} != {name: (a.dtype, a.ndim) for name, a in like.items()}:
        raise MalformedMessageError("state must have the arrays of such a machine; it has not")
    return {name: value.copy() for name, value in arrays.items()}


def step_rows(steps: Iterable[Step]) -> NDArray[np.int64]:
    """Steps as int64 [k, 6]."""
    rows = [
        (s.round, s.layer, s.direction is Direction.BACKWARD, s.evaluation, s.part, s.final)
        for s in steps
    ]  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(-1, NO_STEP.shape[1])


def steps_of(rows: NDArray[np.int64]) -> list[Step]:
    """The inverse of `step_rows`."""
    ways = (Direction.FORWARD, Direction.BACKWARD)
    return [
        Step(r, layer, ways[back], bool(ev), part, bool(final)) for r, layer, back, ev, part, final in rows.tolist()
    ]


def _digest(owner: bytes, arrays: Mapping[str, Array]) -> bytes:
    found = hashlib.sha256(b"fgl-secure machine state 1" + hashlib.sha256(owner).digest())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        found.update(f"{name}|{value.dtype.str}|{value.shape}|".encode())
        found.update(value.data if value.size else b"")
    return found.digest()


Ids = NDArray[np.int64]


class OneSumMachine(SumMachine, ABC):
    """A role in sums of one topology.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.
        owner: what names the scheme, its parameters and the role, in states.
        tape_axes: of all fields.
    """

    def __init__(self, parties: Ids, terms: OneSum, owner: bytes, tape_axes: int) -> None:
        super().__init__(parties)
        self.terms, self._tape_axes = terms, tape_axes
        names = parties.astype("<i8").tobytes()
        self._owner = owner + terms.digest + hashlib.sha256(names).digest() + type(self).__name__.encode()
        self._step: Step | None = None
        self._done: set[Step] = set()
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
        """Goes to a step.

        Raises:
            InputError: a number of it is too large.
            ProtocolError: it was used up before; see `_used_up`.
        """
        step_bytes(step)
        if step in self._done:
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")
        self._step, self._sums = step, None

    def _used_up(self) -> None:
        """Notes that masks of the step at hand leave now, so that it cannot be begun again."""
        self._done.add(self.step)

    def _unexpected_rows(self, rows: Array | None) -> None:
        if rows is not None:
            raise InputError("rows must be those of hosted clients, of whom there are none; found some")

    def _check_head(self, messages: Messages, phases: Mapping[Phase, Any], due: Phase | None) -> None:
        """Raises unless messages are of the step and phase that is due, for parties hosted here.

        Args:
            messages: as they arrived.
            phases: that this role hears at all.
            due: which of them; None where none is.
        """
        if messages.tape_axes != self._tape_axes:
            raise MalformedMessageError(f"messages must have {self._tape_axes} tape axes; found {messages.tape_axes}")
        if not np.isin(messages.receivers, self.parties).all():
            raise MalformedMessageError("messages must be for parties hosted here; at least one is not")
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
        arrays = opened_state(self._owner, state, self._everything())
        now, self._done = steps_of(arrays["step"]), set(steps_of(arrays["done"]))
        self._step = now[0] if now else None
        self._sums = arrays["sums"] if arrays["sums"].size else None
        self._take_arrays(arrays)

    def _everything(self) -> dict[str, Array]:
        empty = np.zeros((1,) * self._tape_axes + (0, 0), dtype=np.int64)
        return {
            "step": NO_STEP if self._step is None else step_rows([self._step]),
            "done": step_rows(sorted(self._done, key=step_bytes)),
            "sums": empty if self._sums is None else self._sums,
            **self._arrays(),
        }
