"""The order in which messages leave tells nothing: not who asks for a sum, nor whom a slot is for, nor who sends."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.plan import Plan
from fgl_secure.protocols.relay_coded.relays import AGREED_ROWS
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import PAYLOAD, Channel, Messages, Phase, Recording, Role, Step, TamperedBatch, Transcript
from fgl_secure.runtime.channel import Loss, Tamper
from tests.protocols.conformance import ideal
from tests.protocols.hostile import WIDTH, small
from tests.protocols.relay_coded.test_faults import IDEAL, STEP, VALUES, Ids, Outcome, meshed, run, without

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
    for seen in transcripts(scheme):
        devices = seen.parties.ids(Role.DEVICE)
        fetches = [each for each in seen.messages if each.phase is Phase.SEALED and len(each.senders) == len(devices)]
        orders += [each.senders.tolist() for each in fetches if sorted(each.senders.tolist()) == devices.tolist()]
    assert len(orders) >= RUNS
    assert not all(map(ascending, orders))
    assert len({order[0] for order in orders}) > 2


def test_slots_follow_no_order_of_targets() -> None:
    """Which of a sender's messages is for which target does not follow from their numbers."""
    orders = []
    for seen in transcripts(NAMED):
        target = {
            tuple(tag): int(owner)
            for each in seen.messages
            if each.phase is Phase.TAGS
            for owner, tag in zip(each.senders, each["tag"].tolist(), strict=True)
        }
        (headers, *_) = [each for each in seen.messages if each.phase is Phase.SHARE_HEADERS]
        found = sorted(zip(headers.senders.tolist(), headers["slot"].tolist(), headers["tag"].tolist(), strict=True))
        senders = np.unique(headers.senders).tolist()
        orders += [[target[tuple(tag)] for who, _, tag in found if who == sender] for sender in senders]
    assert len(orders) == 5 * RUNS
    assert not all(map(ascending, orders))
    assert len({tuple(np.argsort(order).tolist()) for order in orders}) == 6


def planned(source: list[int], target: list[int], hosted: list[int]) -> Plan:
    """The plan of some of four devices, 10 to 13, of which each may sum rows of the others."""
    devices, silos = np.arange(10, 14), np.full(4, 1)
    way = Grouping(devices, devices, np.array(source), np.array(target), silos, silos)
    return Plan.of(way, way, np.array(hosted), lambda _: None)


def found(plan: Plan, senders: list[int], receivers: list[int], places: list[int]) -> list[int]:
    """Where messages of tags that arrived are."""
    at = plan.heard_at(np.array(senders), np.array(receivers), np.array(places, dtype=np.uint32))
    return [int(place) for place in at]


def test_tags_that_nobody_waits_for_are_for_no_message() -> None:
    """From strangers, under numbers that there are not, however large, and where nobody waits for any."""
    plan = planned([0, 2], [1, 3], [10, 11, 12, 13])
    assert found(plan, [11, 13], [10, 10], [0, 0]) == [0, -1]
    assert found(plan, [11, 11, 11], [10, 10, 10], [0, 1, 2**32 - 1]) == [0, -1, -1]
    assert found(planned([0], [1], [13]), [11], [13], [0]) == [-1]


def test_large_numbers_make_no_other_name() -> None:
    """A name is of both ends and the number: one that is too large would wrap, and be that of another message."""
    plan = planned([0, 2], [1, 3], [10, 11, 12, 13])
    waited = (13 << 32) | 12
    told = [(sender, receiver, number) for sender in (11, 13) for receiver in (10, 12)
            if (number := waited - ((sender << 32) | receiver)) and 0 < number < 2**32]  # fmt: skip
    assert told == [(13, 10, 2)]
    senders, receivers, places = zip(*told, strict=True)
    assert found(plan, [*senders], [*receivers], [*places]) == [-1]


SCHEME = RelayCoded(bound=16.0, k_min=1, T=1, R=3, profile=Profile.SHOWN)
DEVICES, RELAYS = (meshed(3).directory.ids(role).tolist() for role in (Role.DEVICE, Role.RELAY))


def unheard(field: str, receiver: int, senders: tuple[int, ...]) -> Tamper:
    """A network on which what some relays say of what they hold never reaches another one."""

    def tamper(messages: Messages) -> TamperedBatch | None:
        if messages.phase is not Phase.ROSTERS or messages.step != STEP or field not in messages.fields:
            return None
        gone = np.isin(messages.senders, senders) & (messages.receivers == receiver)
        rows = np.flatnonzero(~gone)
        return TamperedBatch(rows, {name: value[rows] for name, value in messages.fields.items()})

    return tamper


def never_arriving(sender: int, receiver: int) -> Loss:
    """A network on which no message of a device reaches a relay, however often it is sent."""

    def arrives(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        carries = step == STEP and phase in (Phase.SHARE_HEADERS, Phase.SHARES)
        gone: NDArray[np.bool_] = (senders == sender) & (receivers == receiver)
        return ~gone | (not carries)

    return arrives


def answering(end: Outcome) -> set[int]:
    """The relays that answer anybody in the step that is interfered with."""
    answers = (Phase.COUNTS, Phase.SHARE_SUMS, Phase.SEALED)
    said = [b.senders for b in end.transcript.messages if b.step == STEP and b.phase in answers]
    return {party for senders in said for party in np.unique(senders).tolist()} & set(RELAYS)


def test_a_relay_that_hears_nobody_gives_no_answers() -> None:
    """Of three relays the last hears no other's digest: it can't know what they count. The other two serve all."""
    end = run(SCHEME, tamper=unheard(PAYLOAD, RELAYS[2], (RELAYS[0], RELAYS[1])))
    assert answering(end) == set(RELAYS[:2])
    assert end.sums is not None
    assert np.allclose(end.sums, IDEAL, atol=1e-4)
    assert "relay 2: the relay hears of too few others, and gives no answers in this step" in end.incidents


def test_a_relay_that_would_count_otherwise_gives_no_answers() -> None:
    """A device's messages never reach the last relay, and the second relay doesn't hear that: it would count them.

    With answers for two sets of messages the target of a sum could tell one sender's row by their difference.
    """
    end = run(SCHEME, never_arriving(DEVICES[0], RELAYS[2]), unheard(AGREED_ROWS, RELAYS[1], (RELAYS[2],)))
    assert answering(end) == {RELAYS[0], RELAYS[2]}
    assert end.sums is not None
    assert np.allclose(end.sums, ideal(meshed(3).grouping, without(VALUES, {0})), atol=1e-4)
    assert "relay 1: the relay does not agree with the others on what counts" in end.incidents
