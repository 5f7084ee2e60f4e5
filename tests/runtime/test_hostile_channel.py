"""A channel on a hostile network, one that keeps less, and what goes wrong on it."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.runtime import (
    Channel,
    Delivery,
    Directory,
    Incident,
    Party,
    Phase,
    Recording,
    Role,
    Step,
    TamperedBatch,
)

PARTIES = Directory.hierarchy(1, 4, 2)
DEVICES, RELAYS = PARTIES.ids(Role.DEVICE), PARTIES.ids(Role.RELAY)
STEP = Step(0)


def deliver(tampered: TamperedBatch | None, arrives: Sequence[bool] | None = None) -> tuple[Delivery, Channel]:
    """Four numbered messages over a network that tampers with them."""
    loss = None if arrives is None else (lambda *_: np.array(arrives))
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything(), loss, lambda *_: tampered)
    return channel.send(Phase.SHARES, STEP, DEVICES, DEVICES[::-1], numbered(range(4))), channel


def numbered(rows: Sequence[int]) -> NDArray[np.int64]:
    """What each of some messages carries."""
    return np.array(rows, dtype=np.int64)[:, None] * 10


@given(st.lists(st.integers(0, 3), max_size=8), st.booleans())
def test_messages_arrive_as_often_and_in_the_order_that_the_network_says(rows: list[int], by_network: bool) -> None:
    """Repeats and new orders keep each message's ends; delivery and record hold what arrived, and all is genuine."""
    tampered = TamperedBatch.of_payload(np.array(rows, dtype=np.int64), numbered(rows), by_network=by_network)
    delivery, channel = deliver(tampered)
    assert delivery.senders.tolist() == DEVICES[rows].tolist()
    assert delivery.receivers.tolist() == DEVICES[::-1][rows].tolist()
    assert delivery.rows is not None
    assert delivery.rows.tolist() == rows
    assert channel.transcript.message_count == len(rows)
    assert delivery.genuine is None or bool(delivery.genuine.all())
    assert (delivery.genuine is not None) == by_network


@given(st.lists(st.integers(0, 3), max_size=8), st.data())
def test_authentication_tells_which_messages_were_changed(rows: list[int], data: st.DataObject) -> None:
    """A message that the network changed is not genuine and all others are; what its sender changed is genuine."""
    wrong = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), dtype=np.bool_)
    payload = numbered(rows) + wrong[:, None]
    delivery, _ = deliver(TamperedBatch.of_payload(np.array(rows, dtype=np.int64), payload, by_network=True))
    assert delivery.genuine is not None
    assert delivery.genuine.tolist() == (~wrong).tolist()
    assert np.array_equal(delivery.payload, payload)
    assert deliver(TamperedBatch.of_payload(np.array(rows, dtype=np.int64), payload))[0].genuine is None


def test_authentication_looks_at_every_tape_and_coordinate() -> None:
    """Under enumeration a change on one tape is a change."""
    payload = np.zeros((9, 2, 3), dtype=np.int64)
    other = payload.copy()
    other[4, 1, 2] = 1
    tampered = TamperedBatch.of_payload(np.arange(2), other, by_network=True)
    channel = Channel(PARTIES, TapeCoins(3, 2), tamper=lambda *_: tampered)
    delivery = channel.send(Phase.SHARES, STEP, DEVICES[:2], DEVICES[:2], payload)
    assert delivery.genuine is not None
    assert delivery.genuine.tolist() == [True, False]


def test_sizes_say_what_was_cut() -> None:
    """Bytes that arrived of each message reach the receiver, who may refuse them."""
    delivery, _ = deliver(TamperedBatch.of_payload(np.arange(4), numbered(range(4)), np.array([8, 7, 8, 0])))
    assert delivery.sizes is not None
    assert delivery.sizes.tolist() == [8, 7, 8, 0]


def test_the_record_cannot_be_changed_by_the_network_later() -> None:
    """What a network keeps and writes into afterwards changes neither delivery nor record."""
    tampered = TamperedBatch.of_payload(np.arange(4), numbered(range(4)))
    delivery, channel = deliver(tampered)
    tampered.payload.flags.writeable = True
    tampered.payload[...] = -1
    assert np.array_equal(np.asarray(channel.transcript.messages[0].payload), numbered(range(4)))
    assert np.array_equal(delivery.payload, numbered(range(4)))


def quietly(keep: tuple[Phase, ...]) -> tuple[Channel, Channel]:
    """A channel and its quiet twin after the same messages, inputs and coins over the twin."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything(rounds=1))
    quiet = channel.keeping_only(*keep)
    for phase in (Phase.SHARES, Phase.SHARE_SUMS):
        for number in range(2):
            quiet.send(phase, Step(number), DEVICES, DEVICES, numbered(range(4)))
    quiet.note_inputs("values", STEP, DEVICES, np.zeros((4, 1)))
    quiet.draw("masks", DEVICES, 11, ())
    return channel, quiet


def test_a_quiet_channel_keeps_sizes_of_all_and_payloads_of_some() -> None:
    """Messages of all phases are counted in the one transcript; payloads are kept of the phases asked for."""
    channel, quiet = quietly((Phase.SHARE_SUMS,))
    assert quiet.transcript is channel.transcript
    kept = [(b.phase, b.step.round) for b in channel.transcript.messages if b.payload is not None]
    assert kept == [(Phase.SHARE_SUMS, 0)]
    assert channel.transcript.message_count == 16
    assert channel.transcript.private == []


def test_incidents_name_the_party_and_the_step() -> None:
    """What went wrong is kept in order, and is in nobody's view."""
    channel = Channel(PARTIES, SimulationCoins(0))
    channel.note_incident(STEP, int(RELAYS[1]), "fell silent")
    channel.note_incident(Step(1), int(DEVICES[0]), "dropped out")
    assert channel.transcript.incidents == [
        Incident(STEP, Party(Role.RELAY, 1), "fell silent"),
        Incident(Step(1), Party(Role.DEVICE, 0), "dropped out"),
    ]
    view = channel.transcript.views(Role.RELAY)
    assert (view.received, view.private) == ((), ())
