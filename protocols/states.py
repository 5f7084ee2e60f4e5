"""What machines hold between turns, as arrays: steps, strings of bytes, and what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Direction, Step

Array = NDArray[Any]
State = Mapping[str, Array]

_STEP = 6


def step_rows(steps: Iterable[Step]) -> NDArray[np.int64]:
    """Steps as int64 [k, 6]."""
    rows = [
        (step.round, step.layer, step.direction is Direction.BACKWARD, step.evaluation, step.part, step.final)
        for step in steps
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), _STEP)


def steps_of(rows: Array) -> list[Step]:
    """What `step_rows` was given."""
    return [
        Step(number, layer, Direction.BACKWARD if backward else Direction.FORWARD, bool(evaluation), part, bool(final))
        for number, layer, backward, evaluation, part, final in rows.tolist()
    ]


def byte_fields(name: str, strings: Sequence[bytes]) -> dict[str, Array]:
    """Strings of bytes, one behind the other, and their lengths."""
    lengths = np.array([len(one) for one in strings], dtype=np.int64)
    return {name: np.frombuffer(b"".join(strings), dtype=np.uint8), f"{name}_lengths": lengths}


def bytes_of(state: State, name: str) -> list[bytes]:
    """What `byte_fields` was given.

    Raises:
        MalformedMessageError: the state has it not, or not whole.
    """
    joined, lengths = field_of(state, name).tobytes(), field_of(state, f"{name}_lengths")
    ends = np.cumsum(lengths)
    if (len(lengths) and (int(lengths.min()) < 0 or int(ends[-1]) != len(joined))) or (
        len(joined) and not len(lengths)
    ):
        raise MalformedMessageError(f"state must hold {name} whole; it does not")
    return [joined[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def field_of(state: State, name: str) -> Array:
    """An array of a state.

    Raises:
        MalformedMessageError: there is none of that name.
    """
    if name not in state:
        raise MalformedMessageError(f"state must hold {name}; it does not")
    return state[name]


def optional(name: str, value: Array | None) -> dict[str, Array]:
    """A field of a state where there is a value, none where there is not."""
    return {} if value is None else {name: value}
