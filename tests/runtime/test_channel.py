"""The channel: what is delivered, what is recorded, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Private, Recording, RecordingLevel, Role, Step
from tests.error_codes import about

PARTIES = Directory.hierarchy(2, 4)
DEVICES = PARTIES.ids(Role.DEVICE)


def channel(recording: Recording | None = None, **kwargs: Any) -> Channel:
    return Channel(PARTIES, SimulationCoins(0), recording, **kwargs)


def send(on: Channel, payload: NDArray[Any], round: int = 0) -> NDArray[Any]:  # noqa: A002
    """Sends one row a message from the first devices to the last one."""
    count = payload.shape[len(on.batch_shape)]
    return on.send(Phase.VALUES, Step(round), DEVICES[:count], np.repeat(DEVICES[-1:], count), payload).payload


@given(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["int8", "int32", "float64"]))
def test_sizes_are_recorded_whatever_the_level(count: int, width: int, dtype: str) -> None:
    """Messages and bytes are the same under every recording: rows, and items times their size."""
    for recording in (None, Recording(), Recording.everything(), Recording.everything(rounds=0)):
        on = channel(recording)
        send(on, np.zeros((count, width), dtype=dtype))
        (batch,) = on.transcript.messages
        assert (batch.messages, batch.item_bytes) == (count, width * np.dtype(dtype).itemsize)
        assert on.transcript.message_count == count
        assert on.transcript.byte_count == batch.bytes == count * width * np.dtype(dtype).itemsize


@pytest.mark.parametrize(
    ("recording", "kept"),
    [
        (Recording(), []),
        (Recording.everything(), [0, 1, 2]),
        (Recording.everything(rounds=2), [0, 1]),
        (Recording.everything(rounds=0), []),
        (Recording(RecordingLevel.SIZES, rounds=2), []),
    ],
)
def test_payloads_inputs_and_coins_are_kept_by_level_and_round(recording: Recording, kept: list[int]) -> None:
    """Payloads and inputs are kept for the rounds asked for and no others; coins with round 0."""
    on = channel(recording)
    on.draw("mask", DEVICES, 11, (2,))
    for number in range(3):
        on.note_inputs("values", Step(number), DEVICES, np.zeros((4, 1)))
        send(on, np.zeros((2, 1)), number)
    transcript = on.transcript
    assert [b.step.round for b in transcript.messages if b.payload is not None] == kept
    assert [b.step.round for b in transcript.private if b.kind is Private.INPUT] == kept
    assert [b.name for b in transcript.private if b.kind is Private.COINS] == ["mask"] * (0 in kept)


def test_recorded_payload_is_what_was_sent_and_delivered() -> None:
    """Delivered and recorded rows equal what was sent, with its senders, receivers, phase and step."""
    on, payload = channel(Recording.everything()), np.arange(4.0).reshape(2, 2)
    delivery = on.send(Phase.SUMS, Step(3, 1), DEVICES[:2], DEVICES[2:], payload)
    (batch,) = on.transcript.messages
    assert batch.payload is not None
    assert np.array_equal(delivery.payload, payload)
    assert np.array_equal(batch.payload, payload)
    assert (batch.phase, batch.step) == (Phase.SUMS, Step(3, 1))
    assert np.array_equal(batch.senders, DEVICES[:2])
    assert np.array_equal(batch.receivers, DEVICES[2:])
    assert delivery.rows is None


def test_recorded_arrays_are_read_only() -> None:
    """Neither a receiver nor a reader of the transcript can change what was recorded."""
    on = channel(Recording.everything())
    delivered = send(on, np.zeros((2, 1)))
    on.note_inputs("values", Step(0), DEVICES, np.zeros((4, 1)))
    on.draw("mask", DEVICES, 11, ())
    kept = [on.transcript.messages[0].payload, *(batch.values for batch in on.transcript.private), delivered]
    for array in kept:
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_lost_messages_arrive_nowhere(arrives: list[bool]) -> None:
    """Delivery, record and view hold exactly the messages that the network let through."""
    on = channel(Recording.everything(), loss=lambda *_: np.array(arrives))
    delivery = on.send(Phase.VALUES, Step(0), DEVICES, DEVICES[::-1], np.arange(4)[:, None])
    through = np.flatnonzero(arrives).tolist()
    assert delivery.rows is not None
    assert delivery.rows.tolist() == delivery.payload[:, 0].tolist() == through
    assert delivery.senders.tolist() == DEVICES[through].tolist()
    assert delivery.receivers.tolist() == DEVICES[::-1][through].tolist()
    assert on.transcript.message_count == len(through)
    seen = on.transcript.view([Party(Role.DEVICE, k) for k in range(4)]).messages(Phase.VALUES)
    assert sorted(row for rows in seen for row in np.asarray(rows.payload)[:, 0].tolist()) == through


def test_tapes_are_a_leading_axis_of_everything() -> None:
    """Under enumeration payloads, inputs and coins all have the tapes in front."""
    on = Channel(PARTIES, TapeCoins(3, 2), Recording.everything())
    assert on.batch_shape == (9,)
    assert on.draw("mask", DEVICES[:2], 3, ()).shape == (9, 2)
    on.note_inputs("values", Step(0), DEVICES, np.zeros((4, 5)))
    assert send(on, np.zeros((9, 2, 5), dtype=np.int8)).shape == (9, 2, 5)
    assert [batch.values.shape for batch in on.transcript.private] == [(9, 2), (9, 4, 5)]
    assert on.transcript.messages[0].item_bytes == 5
    view = on.transcript.view([Party(Role.DEVICE, 3)])
    assert [rows.values.shape for rows in view.own("values")] == [(9, 1, 5)]


@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (0,)])
def test_payload_needs_one_row_a_message(shape: tuple[int, ...]) -> None:
    """A payload of more or fewer rows than senders raises, and nothing is recorded."""
    on = channel()
    with pytest.raises(InputError, check=about("payload")):
        on.send(Phase.VALUES, Step(0), DEVICES[:2], DEVICES[:2], np.zeros(shape))
    assert on.transcript.messages == []


@pytest.mark.parametrize("stranger", [-1, 7])
def test_strangers_are_refused(stranger: int) -> None:
    """A sender or receiver that the directory does not know raises before anything is recorded."""
    on, strangers = channel(), np.array([stranger])
    for senders, receivers in ((strangers, DEVICES[:1]), (DEVICES[:1], strangers)):
        with pytest.raises(InputError):
            on.send(Phase.VALUES, Step(0), senders, receivers, np.zeros((1, 1)))
    assert on.transcript.messages == []


@given(st.integers(0, 4), st.integers(0, 6))
def test_identifiers_lead_back_to_role_and_index(silos: int, devices: int) -> None:
    """Role and index of every identifier are those of the party that it was given to, roles without parties skipped."""
    directory = Directory.hierarchy(silos, devices)
    for position, role in enumerate(directory.roles):
        ids = directory.ids(role)
        assert directory.role_of(ids).tolist() == [position] * len(ids)
        assert directory.index_of(ids, role).tolist() == list(range(len(ids)))
