"""The order in which messages leave tells nothing: not who asks for a sum, nor whom a slot is for, nor who sends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step, Transcript
from tests.protocols.hostile import WIDTH, small

NAMED, UNNAMED = RelayCoded(k_min=1, profile=Profile.SHOWN), RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=3)
RUNS = 8
"""That an order of five, or of three for each of five, is ascending in all of them has a chance below 10^-15."""


def transcripts(scheme: RelayCoded) -> Iterator[Transcript]:
    """Sums over a ring of five devices in two silos, each in a session of its own."""
    for seed in range(RUNS):
        parties, topology = small("neighbours", scheme)
        channel = Channel(parties, SimulationCoins(seed), Recording.everything())
        Collective(scheme, topology, channel).sum(np.zeros((5, WIDTH)), Step(0))
        yield channel.transcript


def ascending(ids: list[int]) -> bool:
    """Whether nothing in an order tells it from that of identifiers."""
    return ids == sorted(ids)


@pytest.mark.parametrize("scheme", [NAMED, UNNAMED], ids=lambda scheme: scheme.name)
def test_sums_are_asked_for_in_no_order_of_their_owners(scheme: RelayCoded) -> None:
    """Relays see fetches come from a silo; the first may be anybody's."""
    orders = []
    for run in transcripts(scheme):
        devices = run.parties.ids(Role.DEVICE)
        fetches = [each for each in run.messages if each.phase is Phase.SEALED and len(each.senders) == len(devices)]
        orders += [each.senders.tolist() for each in fetches if sorted(each.senders.tolist()) == devices.tolist()]
    assert len(orders) >= RUNS
    assert not all(map(ascending, orders))
    assert len({order[0] for order in orders}) > 2


def test_slots_follow_no_order_of_targets() -> None:
    """Which of a sender's messages is for which target does not follow from their numbers."""
    orders = []
    for run in transcripts(NAMED):
        target = {
            tuple(tag): int(owner)
            for each in run.messages
            if each.phase is Phase.TAGS
            for owner, tag in zip(each.senders, each["tag"].tolist(), strict=True)
        }
        (headers, *_) = [each for each in run.messages if each.phase is Phase.SHARE_HEADERS]
        found = sorted(zip(headers.senders.tolist(), headers["slot"].tolist(), headers["tag"].tolist(), strict=True))
        senders = np.unique(headers.senders).tolist()
        orders += [[target[tuple(tag)] for who, _, tag in found if who == sender] for sender in senders]
    assert len(orders) == 5 * RUNS
    assert not all(map(ascending, orders))
    assert len({tuple(np.argsort(order).tolist()) for order in orders}) == 6
