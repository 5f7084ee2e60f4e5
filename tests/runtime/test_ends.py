"""Senders and receivers of messages of which sizes alone are recorded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins
from fgl_secure.runtime import Channel, Directory, Phase, Recording, Role, Step
from fgl_secure.runtime.transcript import SHORT, Endpoints, RepeatedEndpoints

PARTIES = Directory({Role.DEVICE: 40, Role.SILO: 3})
DEVICES, SILOS = PARTIES.ids(Role.DEVICE), PARTIES.ids(Role.SILO)


def counted(ends: Endpoints) -> dict[tuple[int, int], int]:
    """Messages between each two parties."""
    laid = ends.laid_out()
    pairs, times = np.unique(np.stack([laid.senders, laid.receivers]), axis=1, return_counts=True)
    return {(int(a), int(b)): int(n) for (a, b), n in zip(pairs.T, times, strict=True)}


@given(st.integers(0, 10_000), st.integers(0, 3 * SHORT), st.integers(1, 43))
def test_as_many_messages_between_each_two_parties(seed: int, messages: int, parties: int) -> None:
    """Whether few pairs or many, and whether seen before or not."""
    rng, known = np.random.default_rng(seed), RepeatedEndpoints(43)
    for _ in range(3):
        sent = Endpoints(*rng.integers(0, parties, size=(2, messages)))
        kept = known.reuse(sent.senders, sent.receivers)
        assert len(kept) == messages == len(kept.laid_out().senders)
        assert counted(kept) == counted(sent)


def test_rounds_take_no_memory_of_their_own() -> None:
    """Messages that are shuffled in each round are one batch's ends in memory; counts and views have all of them."""
    channel, rng = Channel(PARTIES, SimulationCoins(0)), np.random.default_rng(0)
    senders, receivers = np.tile(DEVICES, 90), np.repeat(SILOS, 1200)
    for number in range(5):
        order = rng.permutation(3600)
        channel.send_sizes(Phase.SHARES, Step(number), senders[order], receivers[order], 8)
    transcript = channel.transcript
    assert len({id(batch.ends) for batch in transcript.messages}) == 1
    assert (transcript.message_count, transcript.byte_count) == (5 * 3600, 5 * 3600 * 8)
    assert [(each.messages, each.bytes) for each in transcript.traffic()] == [(5 * 3600, 5 * 3600 * 8)]
    for rows in transcript.views(Role.SILO).received:
        assert np.array_equal(np.bincount(rows.observers), [1200] * 3)
        assert np.array_equal(rows.senders, np.tile(np.repeat(DEVICES, 30), 3))


def test_sizes_of_a_recording_are_those_of_the_recording() -> None:
    """Payloads and private values are gone, counts and what roles send each other are the same."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything())
    senders, receivers = np.tile(DEVICES, 90), np.repeat(SILOS, 1200)
    channel.send(Phase.SHARES, Step(0), senders, receivers, np.zeros((3600, 2)))
    channel.send_sizes(Phase.MODEL, Step(0), SILOS, DEVICES[:3], 8, repeats=2)
    channel.draw("coins", DEVICES, 5, ())
    whole, sizes = channel.transcript, channel.transcript.sizes()
    assert (sizes.message_count, sizes.byte_count) == (whole.message_count, whole.byte_count)
    assert sizes.traffic() == whole.traffic()
    assert all(batch.fields is None for batch in sizes.messages)
    assert (len(whole.private), len(sizes.private)) == (1, 0)
