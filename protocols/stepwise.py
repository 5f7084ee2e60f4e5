"""What machines of sums have in common: each step once, and states of arrays that say whose they are."""

from __future__ import annotations

import hashlib
import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, Protocol

import numpy as np

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.hosting import Due
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Direction, Messages, Phase, Step
from fgl_secure.typing import Array, Ids

DIGEST = "digest"
"""The name of what says whose a state is."""
STEP, DONE_STEPS, TURNS = "step", "done", "turns"
"""Names in every state: the current step, those that are used up, and the turns in the current step."""

_WORDS = 6
_WHEN = struct.Struct(">IHIBBI")


def step_bytes(step: Step) -> bytes:
    """16 bytes that name a step, different for different ones.

    Raises:
        InputError: a number of the step is negative or too large.
    """
    kind = 4 * step.final + 2 * (step.direction is Direction.BACKWARD) + step.evaluation
    try:
        return _WHEN.pack(step.round, step.layer + 1, step.part, kind, 0, 0)
    except struct.error as error:
        raise InputError(f"step must have round < 2^32, layer in -1..65534 and part < 2^32; found {step}") from error


def _step_array(step: Step) -> Ids:
    """Round, layer, direction, evaluation, part and whether it is final: int64 [6]."""
    backward = step.direction is Direction.BACKWARD
    return np.array([step.round, step.layer, backward, step.evaluation, step.part, step.final], dtype=np.int64)


def step_of(array: Array) -> Step:
    """The step of such an array.

    Raises:
        MalformedMessageError: it is none.
    """
    if array.shape != (_WORDS,) or array.dtype != np.int64:
        raise MalformedMessageError(f"step must be int64 [{_WORDS}]; found {array.dtype} {list(array.shape)}")
    number, layer, backward, evaluation, part, final = array.tolist()
    if not {backward, evaluation, final} <= {0, 1}:
        raise MalformedMessageError("step must say yes or no as 0 or 1; it does not")
    direction = Direction.BACKWARD if backward else Direction.FORWARD
    return Step(number, layer, direction, bool(evaluation), part, bool(final))


def done_array(steps: Iterable[Step]) -> Ids:
    """Steps in ascending order of their numbers, int64 [k, 6]."""
    return np.array(sorted(_step_array(step).tolist() for step in steps), dtype=np.int64).reshape(-1, _WORDS)


def done_steps(array: Array) -> set[Step]:
    """The steps of such an array.

    Raises:
        MalformedMessageError: it is none.
    """
    return {step_of(row) for row in array}


def _opened_state(owner: bytes, state: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a state, as copies.

    Args:
        owner: as it was sealed with.
        state: to be read.

    Raises:
        MalformedMessageError: it is no state of this machine, or not whole.
    """
    arrays = {name: value for name, value in state.items() if name != DIGEST}
    complete = DIGEST in state and all(isinstance(value, np.ndarray) for value in state.values())
    if not complete or not hmac.compare_digest(state[DIGEST].tobytes(), _digest(owner, arrays)):
        raise MalformedMessageError("state must be that of this machine in a sum under these terms, whole; it is not")
    return {name: value.copy() for name, value in arrays.items()}


def check_arrays(arrays: Mapping[str, Array], like: Mapping[str, Array]) -> None:
    """Raises MalformedMessageError unless arrays have the names, types and numbers of axes of others."""
    if {name: (a.dtype, a.ndim) for name, a in arrays.items()} != {name: (a.dtype, a.ndim) for name, a in like.items()}:
        raise MalformedMessageError("state must have the arrays of such a machine; it has not")


def _digest(owner: bytes, arrays: Mapping[str, Array]) -> bytes:
    result = hashlib.sha256(b"fgl-secure machine state 2" + hashlib.sha256(owner).digest())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        result.update(f"{name}|{value.dtype.str}|{value.shape}|".encode())
        result.update(value.data if value.size else b"")
    return result.digest()


@dataclass(frozen=True, slots=True, eq=False)
class SumTerms:
    """What all parties of sums know before they start, and what states are bound to.

    Attributes:
        scheme: its name and all of its parameters.
        topology: who adds what for whom.
        session: 16 public bytes or more.
        tapes: leading axes of every field.
    """

    scheme: str
    topology: Topology
    session: bytes
    tapes: tuple[int, ...]

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        topology, result = self.topology, hashlib.sha256(b"fgl-secure terms of sums 1")
        numbers = (topology.width, topology.bound, topology.aggregator, self.tapes, topology.circuits.hops)
        for part in (self.scheme, topology.name, str(numbers)):
            result.update(hashlib.sha256(part.encode()).digest())
        result.update(hashlib.sha256(self.session).digest())
        g = topology.grouping
        forward = g.answered_grouping(1)
        backward = forward.reverse().answered_grouping(1)
        ends = (g.row_owner, g.group_owner, g.source, g.target, g.row_custodian, g.group_custodian)
        ways, others = topology.circuits.table.ravel(), topology.others
        for ids in (
            *ends,
            forward.source,
            forward.target,
            backward.source,
            backward.target,
            topology.helpers,
            ways,
            others,
        ):
            result.update(struct.pack(">Q", len(ids)))
            result.update(np.ascontiguousarray(ids, dtype="<i8").tobytes())
        return result.digest()


class _Terms(Protocol):
    """What all parties of sums agree on before they start."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""


class CheckpointedMachine(SumMachine, ABC):
    """A machine that sums each step once, and whose states are bound to the terms of its sums and to its parties.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.
        tape_axes: of all fields.
        owner: what else states are bound to, such as a scheme's parameters.
    """

    def __init__(self, parties: Ids, terms: _Terms, tape_axes: int, owner: bytes = b"") -> None:
        super().__init__(parties)
        self._bound_to, self._owned, self._tape_axes = terms, owner, tape_axes
        self._step: Step | None = None
        self._done: set[Step] = set()
        self._is_hosted = np.zeros(int(parties.max(initial=-1)) + 2, dtype=np.bool_)  # the last one is no party
        self._is_hosted[parties] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(parties={self.parties.tolist()}, step={self._step}, <secrets>)"

    @property
    def now(self) -> Step:
        """The current step.

        Raises:
            StaleMessageError: none was begun.
        """
        if self._step is None:
            raise StaleMessageError("a step must have begun before messages are sent; none has")
        return self._step

    @cached_property
    def _owner(self) -> bytes:
        """What states are bound to; worked out when one is asked for, as the edges of a large graph take their time."""
        names = hashlib.sha256(self.parties.astype("<i8").tobytes()).digest()
        return self._owned + self._bound_to.digest + names + type(self).__name__.encode()

    def _check_new(self, step: Step) -> None:
        """Raises unless a step may begin.

        Raises:
            InputError: a number of it is negative or too large.
            ProtocolError: it was used up before; see `_used_up`.
        """
        step_bytes(step)
        if step in self._done:
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")

    def _used_up(self) -> None:
        """Notes that what the current step is for leaves now, so that it cannot be begun again."""
        if self._step is not None:
            self._done.add(self._step)

    def _check_ends(self, messages: Messages) -> None:
        """Raises MalformedMessageError unless messages are on as many tapes as here, for parties hosted here."""
        self._check_tapes(messages)
        receivers = messages.receivers
        inside = not len(receivers) or 0 <= int(receivers.min()) <= int(receivers.max()) < len(self._is_hosted)
        if not inside or not self._is_hosted[receivers].all():
            raise MalformedMessageError("messages must be for parties hosted here; at least one is not")

    def _check_tapes(self, messages: Messages) -> None:
        if messages.tape_axes != self._tape_axes:
            raise MalformedMessageError(f"messages must have {self._tape_axes} tape axes; found {messages.tape_axes}")

    def _steps(self) -> dict[str, Array]:
        """The current step, int64 [0 or 1, 6], and those that are used up, int64 [k, 6]."""
        return {STEP: done_array([] if self._step is None else [self._step]), DONE_STEPS: done_array(self._done)}

    def state(self) -> Mapping[str, Array]:
        """Steps and all else that changes, as copies, with the digest that says whose they are.

        A state is good for one machine at a time: two that go on from one could be asked two different things, and
        would open together what neither opens alone.
        """
        # Copies of arrays, and their digest.
        arrays = {**self._steps(), **self._arrays()}
        remaining = {name: value.copy() for name, value in arrays.items()}
        remaining[DIGEST] = np.frombuffer(_digest(self._owner, remaining), dtype=np.uint8)
        return remaining

    def restore(self, state: Mapping[str, Array]) -> None:
        """See `Machine.restore`."""
        arrays, before = _opened_state(self._owner, state), (self._step, self._done)
        steps = {name: arrays.pop(name) for name in (STEP, DONE_STEPS) if name in arrays}
        check_arrays(steps, self._steps())
        now, done = done_steps(steps[STEP]), done_steps(steps[DONE_STEPS])
        self._step, self._done = next(iter(now), None), done
        try:
            self._take_arrays(arrays)
        except MalformedMessageError:
            self._step, self._done = before
            raise

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """All that changes beside the steps."""

    @abstractmethod
    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """Goes on from what `_arrays` gave; the steps are restored.

        Raises:
            MalformedMessageError: they are not those of such a machine; it is as it was before.
        """


class StepwiseMachine(CheckpointedMachine):
    """A machine whose memory is a step, the number of turns in it, and arrays by name.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
        terms: of the sums.

    Attributes:
        keeps: names of arrays that last for a step.
        lasting: names of arrays that last longer.
        always: names of arrays that are there as soon as a step has begun.
    """

    keeps: ClassVar[frozenset[str]] = frozenset()
    lasting: ClassVar[frozenset[str]] = frozenset()
    always: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, parties: Ids, terms: SumTerms) -> None:
        super().__init__(parties, terms, len(terms.tapes))
        self._tapes = terms.tapes
        self._turns = 0
        self._waiting: dict[str, Array] = {}

    def _arrays(self) -> dict[str, Array]:
        """Turns, and arrays by name."""
        return {TURNS: np.array([self._turns], dtype=np.int64), **self._waiting}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        """See `CheckpointedMachine._take_arrays`."""
        if not {TURNS} <= arrays.keys() <= {TURNS} | self.keeps | self.lasting:
            raise MalformedMessageError("state must be one of such a machine; its arrays have other names")
        turns = arrays.pop(TURNS)
        check_arrays({TURNS: turns}, {TURNS: np.empty(0, dtype=np.int64)})
        if self._step is not None and not self.always <= arrays.keys():
            raise MalformedMessageError("state must be one of such a machine; an array of its step is missing")
        self._turns, self._waiting = int(turns[0]), arrays

    def _start(self, step: Step, rows: Array | None, count: int, width: int) -> None:
        """Forgets the step before, and keeps the rows, if there have to be any."""
        self._check_new(step)
        if rows is None and count:
            raise InputError(f"rows must be given for {count} hosted owners; found none")
        if rows is not None and (rows.ndim != 2 or len(rows) != count or not 1 <= rows.shape[1] <= width):
            raise InputError(f"rows must be [{count}, d] with 1 <= d <= {width}; found {list(rows.shape)}")
        self._step, self._turns = step, 0
        self._waiting = {name: value for name, value in self._waiting.items() if name in self.lasting}
        if rows is not None:
            self._waiting["rows"] = rows

    def _next(self) -> int:
        """Counts a turn, from 1; with the first one the step is used up."""
        self._used_up()
        self._turns += 1
        return self._turns

    def _current(self, messages: Messages) -> Messages:
        """The messages, if they are of the current step.

        Raises:
            MalformedMessageError: they are on other tapes.
            StaleMessageError: they are of another one, or there is no step.
        """
        self._check_tapes(messages)
        if messages.step != self._step:
            raise StaleMessageError("messages must be of the current step; found some of another")
        return messages

    def _place_messages(self, due: Due, messages: Messages) -> tuple[Messages, Ids]:
        """The messages that were due, and the place of each among them; leaves a remark where others came."""
        rows, places = due.find(self._current(messages))
        if rows is None:
            return messages, places
        for sender in np.unique(np.delete(messages.senders, rows)).tolist():
            text = f"messages ({messages.phase.label}) that were not due, or that nobody can tell apart, are dropped"
            self.remark(self.now, sender, text)
        return messages.rows(rows), places

    def _gather(self, name: str, places: Ids, values: Array, axis: int) -> None:
        """Keeps values [*tapes, m, ...] under a name, and the place of each.

        Raises:
            ProtocolError: something is in one of the places, or earlier values have another shape or type.
        """
        index = f"{name} at"
        if name in self._waiting:
            before = self._waiting[name]
            if np.isin(places, self._waiting[index]).any():
                raise ProtocolError("messages must arrive once; at least one has arrived before")
            if before.dtype != values.dtype or before.shape[axis + 1 :] != values.shape[axis + 1 :]:
                raise MalformedMessageError("messages of one phase must be of one shape and type; they are not")
            values, places = np.concatenate([before, values], axis=axis), np.concatenate([self._waiting[index], places])
            order = np.argsort(places)
            values, places = np.take(values, order, axis=axis), places[order]
        self._waiting[name], self._waiting[index] = values, places


class CompositeMachine(SumMachine):
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

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        if messages.phase not in self._host:
            raise MalformedMessageError(f"messages must be due; found {messages.phase.label}")
        self._host[messages.phase].receive(messages)

    def step(self) -> Iterable[Messages]:
        """What either has to say."""
        return chain(*[machine.step() for machine in self._parts])

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
