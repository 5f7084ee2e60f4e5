"""The codec: what is written is read, and nothing else is, by typed errors and without allocating what is not there."""

import struct
import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.runtime import Direction, MessageKind, Messages, Phase, Step, decode, encode
from fgl_secure.runtime.messages import KINDS, MOST_AXES, SESSION_BYTES
from fgl_secure.runtime.packing import pack, unpack
from tests.error_codes import about

SESSION = bytes(range(SESSION_BYTES))
HEAD = struct.calcsize(f">5s{SESSION_BYTES}sBIIiBBIBQB")


def batch(fields: Mapping[str, NDArray[Any]], count: int = 2, **others: Any) -> Messages:
    """Some messages between numbered parties."""
    ends = np.arange(count, dtype=np.int64), np.arange(count, dtype=np.int64)[::-1].copy()
    return Messages(others.get("phase", Phase.SHARES), others.get("step", Step(1)), *ends, fields)


def steps() -> st.SearchStrategy[Step]:
    """Any step that travels."""
    most = 2**32 - 1
    return st.builds(
        Step, st.integers(0, most), st.integers(-1, 2**31 - 1), st.sampled_from(Direction), st.booleans(),
        st.integers(0, most), st.booleans(),
    )  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> Messages:
    """Any batch that travels."""
    m = draw(st.integers(0, 4))
    fields = {}
    for name in draw(st.lists(st.text("abcdefgh_ ", min_size=1, max_size=8), unique=True, max_size=4)):
        shape = (m, *draw(st.lists(st.integers(0, 3), max_size=MOST_AXES - 1)))
        fields[name] = draw(hnp.arrays(np.dtype(draw(st.sampled_from(KINDS))), shape))
    ids = hnp.arrays(np.int64, m, elements=st.integers(-(2**63), 2**63 - 1))
    phase, overhead = draw(st.sampled_from(Phase)), draw(st.integers(-(2**31), 2**31 - 1))
    return Messages(phase, draw(steps()), draw(ids), draw(ids), fields, 0, overhead, draw(st.booleans()))


@given(batches(), st.binary(min_size=SESSION_BYTES, max_size=SESSION_BYTES))
def test_what_is_written_is_read(messages: Messages, session: bytes) -> None:
    """Phase, step, ends, and every field with its type, shape and bits."""
    found = decode(encode(messages, session), session)
    assert (found.phase, found.step, found.overhead) == (messages.phase, messages.step, messages.overhead)
    assert found.sealed is messages.sealed
    assert found.senders.tolist() == messages.senders.tolist()
    assert found.receivers.tolist() == messages.receivers.tolist()
    assert list(found.fields) == list(messages.fields)
    for name, value in messages.fields.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert found[name].tobytes() == value.tobytes()
    assert encode(found, session) == encode(messages, session)


class OwnKind(MessageKind):
    """What a package of its own says."""

    GREETINGS = ("greetings", "nothing that matters")


def test_a_kind_of_ones_own_travels() -> None:
    """It is read as the same member, and its name is taken."""
    sent = Messages(OwnKind.GREETINGS, Step(0), np.array([1]), np.array([2]), {})
    assert decode(encode(sent, SESSION), SESSION).phase is OwnKind.GREETINGS
    with pytest.raises(InputError):

        class Another(MessageKind):
            GREETINGS = ("greetings", "what another package says")


SMALL = batch({"value": np.arange(6, dtype=np.int64).reshape(2, 3), "there": np.array([True, False])})
BYTES = encode(SMALL, SESSION)


def test_every_prefix_is_refused() -> None:
    """Cut anywhere, and extended by anything, it is malformed."""
    for size in range(len(BYTES)):
        with pytest.raises(MalformedMessageError):
            decode(BYTES[:size], SESSION)
    for more in (b"\0", bytes(8), BYTES):
        with pytest.raises(MalformedMessageError):
            decode(BYTES + more, SESSION)


def test_every_changed_bit_is_refused_or_read_as_another_batch() -> None:
    """No bit makes anything raise but typed errors, and none is overlooked: what is read is not what was written."""
    refused = 0
    for bit in range(8 * len(BYTES)):
        changed = bytearray(BYTES)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = decode(bytes(changed), SESSION)
        except ProtocolError:
            refused += 1
            continue
        assert encode(found, SESSION) != BYTES
    assert refused > 8 * HEAD // 2


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_noise_is_refused(noise: bytes) -> None:
    """Alone, and behind a genuine head."""
    for data in (noise, BYTES[:HEAD] + noise, BYTES[: HEAD + 6] + noise):
        if data != BYTES:
            with pytest.raises(ProtocolError):
                decode(data, SESSION)


@pytest.mark.parametrize("count", [2**31 + 1, 2**40, 2**63, 2**64 - 1])
def test_counts_that_are_not_there_allocate_nothing(count: int) -> None:
    """Of messages, or of entries on any axis: refused before memory is taken for them."""
    at = HEAD - 9
    lies = [BYTES[:at] + struct.pack(">Q", count) + BYTES[at + 8 :]]
    axis = BYTES.index(struct.pack(">2Q", 2, 3))
    lies += [BYTES[: axis + 8 * j] + struct.pack(">Q", count) + BYTES[axis + 8 * (j + 1) :] for j in (0, 1)]
    lies.append(BYTES[:axis] + struct.pack(">2Q", 2, 0) + struct.pack(">Q", count) + BYTES[axis + 16 :])
    tracemalloc.start()
    try:
        for data in lies:
            with pytest.raises(MalformedMessageError):
                decode(data, SESSION)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_empty_axes_do_not_hide_huge_ones() -> None:
    """A shape of no entries whose other axes no array could have is refused as any other."""
    empty = encode(batch({"value": np.zeros((2, 0, 3), dtype=np.int64)}), SESSION)
    axis = empty.index(struct.pack(">3Q", 2, 0, 3))
    with pytest.raises(MalformedMessageError, check=about("field")):
        decode(empty[: axis + 16] + struct.pack(">Q", 2**62) + empty[axis + 24 :], SESSION)


def test_a_field_is_named_once() -> None:
    """Two of one name are refused."""
    twice = encode(batch({"a": np.zeros(2), "b": np.ones(2)}), SESSION)
    with pytest.raises(MalformedMessageError, check=about("fields")):
        decode(twice.replace(b"\x01\x01\x01b", b"\x01\x01\x01a"), SESSION)


def test_what_does_not_travel_is_refused() -> None:
    """Tape axes, objects, complex numbers, no axis for messages, and fields of another number of rows."""
    taped = Messages(Phase.SHARES, Step(0), np.zeros(1, np.int64), np.zeros(1, np.int64), {"a": np.zeros((5, 1))}, 1)
    with pytest.raises(InputError, check=about("messages")):
        encode(taped)
    for value in (np.array([None, None]), np.zeros(2, dtype=np.complex128), np.zeros((2, 1, 1, 1, 1))):
        with pytest.raises(InputError, check=about("field a")):
            encode(batch({"a": value}))
    for value in (np.zeros(3), np.array(1.0)):
        with pytest.raises(InputError, check=about("field a")):
            batch({"a": value})
    with pytest.raises(InputError, check=about("receivers")):
        Messages(Phase.SHARES, Step(0), np.zeros(1, np.int64), np.zeros(2, np.int64), {})


def test_a_recording_is_its_own() -> None:
    """Copies cannot be written to, nor changed by way of the original; what is the same on all tapes is kept once."""
    value = np.arange(4).reshape(2, 2)
    kept = batch({"a": value}).read_only(own=True)
    value[:] = 9
    assert kept["a"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="read-only"):
        kept["a"][0] = 1
    ends = np.zeros(2, np.int64), np.zeros(2, np.int64)
    taped = Messages(Phase.SHARES, Step(0), *ends, {"a": np.broadcast_to(value, (50, 2, 2))}, 1).read_only(own=True)
    value[:] = 8
    assert (taped["a"] == 9).all()
    assert taped["a"].strides[0] == 0


FIELDS = st.lists(st.binary(max_size=20), max_size=6)


@given(FIELDS)
def test_fields_come_back(fields: list[bytes]) -> None:
    """Packed and unpacked: the same bytes, in the same order, and as many as must be."""
    assert unpack(pack(fields)) == unpack(pack(fields), len(fields)) == fields
    with pytest.raises(MalformedMessageError, check=about("message")):
        unpack(pack(fields), len(fields) + 1)


@given(st.binary(max_size=60))
def test_what_is_not_packed_is_refused(data: bytes) -> None:
    """Bytes are what somebody packed, or an error."""
    try:
        fields = unpack(data)
    except MalformedMessageError:
        return
    assert pack(fields) == data


def test_a_length_beyond_what_there_is_is_refused() -> None:
    """Nothing is allocated for a length that nobody sent."""
    with pytest.raises(MalformedMessageError, check=about("field")):
        unpack(struct.pack(">Q", 2**63) + b"abc")
