"""What machines of sums have in common: they count their turns in a step, and all that changes are arrays by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.hosting import Due
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.runtime import Direction, Messages, Step

Array = NDArray[Any]

_WORDS = 6


def step_array(step: Step) -> Array:
    """Round, layer, direction, evaluation, part and whether it is final: int64 [6]."""
    backward = step.direction is Direction.BACKWARD
    return np.array([step.round, step.layer, backward, step.evaluation, step.part, step.final], dtype=np.int64)


def step_of(array: Array) -> Step:
    """The step of such an array.

    Raises:
        MalformedMessageError: it is none.
    """
    if array.shape != (_WORDS,):
        raise MalformedMessageError(f"step must be {_WORDS} numbers; found shape {list(array.shape)}")
    number, layer, backward, evaluation, part, final = array.tolist()
    direction = Direction.BACKWARD if backward else Direction.FORWARD
    return Step(number, layer, direction, bool(evaluation), part, bool(final))


def done_array(steps: Iterable[Step]) -> Array:
    """Steps in any order, int64 [k, 6]."""
    return np.array([step_array(step) for step in steps], dtype=np.int64).reshape(-1, _WORDS)


def done_steps(array: Array) -> set[Step]:
    """The steps of such an array."""
    return {step_of(row) for row in array}


Ids = NDArray[np.int64]

PROGRESS = "progress"
"""The name of the step and the turn in a state."""
_IDLE, _BUSY = 0, 7


class StepwiseMachine(SumMachine):
    """A machine whose memory is a step, the number of turns in it, and arrays by name.

    Attributes:
        keeps: names of arrays that last for a step.
        lasting: names of arrays that last longer.
    """

    keeps: ClassVar[frozenset[str]] = frozenset()
    lasting: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, parties: Ids) -> None:
        super().__init__(parties)
        self._step: Step | None = None
        self._turns = 0
        self._kept: dict[str, Array] = {}

    def state(self) -> Mapping[str, Array]:
        """Step, turn, and all arrays; none of them changes any more."""
        return MappingProxyType({PROGRESS: _progress(self._step, self._turns), **self._kept})

    def restore(self, state: Mapping[str, Array]) -> None:
        """See `Machine.restore`."""
        if not {*state} <= {PROGRESS} | self.keeps | self.lasting or PROGRESS not in state:
            raise MalformedMessageError("state must be one of such a machine; its arrays have other names")
        self._step, self._turns = _read(state[PROGRESS])
        self._kept = {name: value for name, value in state.items() if name != PROGRESS}

    @property
    def now(self) -> Step:
        """The step at hand.

        Raises:
            ProtocolError: none was begun.
        """
        if self._step is None:
            raise ProtocolError("a step must have begun before anybody talks; none has")
        return self._step

    def _start(self, step: Step, rows: Array | None, count: int, width: int) -> None:
        """Forgets the step before, and keeps the rows, if there have to be any."""
        if rows is None and count:
            raise InputError(f"rows must be given for {count} hosted owners; found none")
        if rows is not None and (rows.ndim != 2 or len(rows) != count or rows.shape[1] > width):
            raise InputError(f"rows must be [{count}, d] with d <= {width}; found {list(rows.shape)}")
        self._step, self._turns = step, 0
        self._kept = {name: value for name, value in self._kept.items() if name in self.lasting}
        if rows is not None:
            self._kept["rows"] = rows

    def _next(self) -> int:
        """Counts a turn, from 1."""
        self._turns += 1
        return self._turns

    def _current(self, messages: Messages) -> Messages:
        """The messages, if they are of the step at hand.

        Raises:
            StaleMessageError: they are of another one.
        """
        if messages.step != self._step:
            raise StaleMessageError("messages must be of the step at hand; found some of another")
        return messages

    def _placed(self, due: Due, messages: Messages) -> tuple[Messages, Ids]:
        """The messages that were due, and the place of each among them; leaves a remark where others came."""
        rows, places = due.found(self._current(messages))
        if rows is None:
            return messages, places
        for sender in np.unique(np.delete(messages.senders, rows)).tolist():
            what = f"messages ({messages.phase.label}) that were not due, or that nobody can tell apart, are dropped"
            self.remark(self.now, sender, what)
        return messages.rows(rows), places

    def _gather(self, name: str, places: Ids, values: Array, axis: int) -> None:
        """Keeps values [*tapes, m, ...] under a name, and the place of each.

        Raises:
            ProtocolError: something is in one of the places, or earlier values have another shape or type.
        """
        at = f"{name} at"
        if name in self._kept:
            before = self._kept[name]
            if np.isin(places, self._kept[at]).any():
                raise ProtocolError("messages must arrive once; at least one has arrived before")
            if before.dtype != values.dtype or before.shape[axis + 1 :] != values.shape[axis + 1 :]:
                raise MalformedMessageError("messages of one phase must be of one shape and type; they are not")
            values, places = np.concatenate([before, values], axis=axis), np.concatenate([self._kept[at], places])
            order = np.argsort(places)
            values, places = np.take(values, order, axis=axis), places[order]
        self._kept[name], self._kept[at] = values, places


def _progress(step: Step | None, turns: int) -> Array:
    if step is None:
        return np.empty(_IDLE, dtype=np.int64)
    back = step.direction is Direction.BACKWARD
    return np.array([step.round, step.layer, back, step.evaluation, step.part, step.final, turns], dtype=np.int64)


def _read(progress: Array) -> tuple[Step | None, int]:
    if progress.dtype != np.int64 or progress.shape not in ((_IDLE,), (_BUSY,)):
        raise MalformedMessageError("state must say where its machine was; it does not")
    if not len(progress):
        return None, 0
    number, layer, back, evaluation, part, final, turns = progress.tolist()
    direction = Direction.BACKWARD if back else Direction.FORWARD
    return Step(number, layer, direction, bool(evaluation), part, bool(final)), turns
