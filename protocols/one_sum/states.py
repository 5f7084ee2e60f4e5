"""States of machines: arrays by name, with a digest that says whose they are and that nothing is missing."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Direction, Step

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
