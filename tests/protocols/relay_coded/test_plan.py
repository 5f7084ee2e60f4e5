"""What devices plan: which message a tag that arrives is for."""

from __future__ import annotations

import numpy as np

from fgl_secure.protocols.relay_coded.plan import Plan
from fgl_secure.protocols.topology import Grouping


def planned(source: list[int], target: list[int], hosted: list[int]) -> Plan:
    """The plan of some of four devices, 10 to 13, of which each may sum rows of the others."""
    devices, silos = np.arange(10, 14), np.full(4, 1)
    way = Grouping(devices, devices, np.array(source), np.array(target), silos, silos)
    return Plan.of(way, way, np.array(hosted), lambda _: None)


def found(plan: Plan, senders: list[int], receivers: list[int], places: list[int]) -> list[int]:
    """Where messages of tags that arrived are."""
    at = plan.heard_at(np.array(senders), np.array(receivers), np.array(places, dtype=np.uint32))
    return [int(place) for place in at]


def test_tags_are_for_the_messages_of_their_ends() -> None:
    """In whatever order they come; two messages between the same two are told apart by their number."""
    plan = planned([0, 2, 2], [1, 1, 3], [10, 11, 12, 13])
    assert plan.out.senders.tolist() == [10, 12, 12]
    assert found(plan, [11, 11, 13], [10, 12, 12], [0, 0, 0]) == [0, 1, 2]
    assert found(plan, [13, 11], [12, 10], [0, 0]) == [2, 0]
    twice = planned([0, 0], [1, 1], [10, 11])
    assert found(twice, [11, 11], [10, 10], [1, 0]) == [1, 0]


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
