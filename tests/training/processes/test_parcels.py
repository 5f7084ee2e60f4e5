"""Parcels arrive as they were sent, or not at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fgl_secure.errors import MalformedMessageError
from fgl_secure.runtime import Direction, Phase, Step
from fgl_secure.runtime.messages import KINDS
from fgl_secure.runtime.packing import array_to_bytes, named_from_bytes, named_to_bytes, pack
from fgl_secure.training.processes.process import Parcel, parcels_from_bytes, parcels_to_bytes
from tests.error_codes import about

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.sampled_from(KINDS).flatmap(lambda kind: arrays.arrays(np.dtype(kind), SHAPES))
STEPS = st.builds(
    Step, st.integers(0, 2**32 - 1), st.integers(-1, 2**16), st.sampled_from(Direction), st.booleans(),
    st.integers(0, 2**32 - 1), st.booleans(),
)  # fmt: skip
PARCELS = st.builds(Parcel, st.sampled_from(Phase), STEPS, st.lists(ARRAYS, max_size=3).map(tuple))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@settings(max_examples=15, deadline=None)
@given(st.lists(PARCELS, max_size=3))
def test_parcels_arrive_as_they_were_sent(sent: list[Parcel]) -> None:
    """Phase, step, types, shapes and every bit of every entry."""
    found = parcels_from_bytes(parcels_to_bytes(sent))
    assert [(p.phase, p.step) for p in found] == [(p.phase, p.step) for p in sent]
    for one, other in zip(found, sent, strict=True):
        assert len(one.arrays) == len(other.arrays)
        assert all(map(same, one.arrays, other.arrays))


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=3))
def test_named_arrays_come_back(kept: dict[str, np.ndarray]) -> None:
    """A state is what it was."""
    found = named_from_bytes(named_to_bytes(kept))
    assert list(found) == list(kept)
    assert all(same(found[name], array) for name, array in kept.items())


def test_what_is_no_array_is_refused() -> None:
    """A shape without its entries, a yes that is 2, an unknown type: none of them is read."""
    flag = array_to_bytes(np.array([True]))
    empty = array_to_bytes(np.empty((2, 0), dtype=np.int64))
    for damaged in (
        b"",
        empty[:2] + b"\xff" * 8 + empty[10:],
        b"\x00",
        flag[:-1],
        flag[:-1] + b"\x02",
        b"\xff" + flag[1:],
        flag[:1] + b"\x09" + flag[2:],
    ):
        with pytest.raises(MalformedMessageError):
            named_from_bytes(pack([b"name", damaged]))


def test_names_must_differ() -> None:
    """Two arrays of one name are no state."""
    flag = array_to_bytes(np.array([True]))
    with pytest.raises(MalformedMessageError, check=about("arrays")):
        named_from_bytes(pack([b"name", flag, b"name", flag]))
