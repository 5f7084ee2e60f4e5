"""Steps as machines keep them in their states: rows of whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Direction, Step

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
