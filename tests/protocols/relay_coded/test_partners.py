"""Sums between partners: tags pass by way of others, and all send equally many messages."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.partnering import Partnering
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Direction, Phase, Recording, Role, Step
from fgl_secure.training.one_process import most_terms, open_neighbours
from tests.protocols.partners.graphs import Pairs, channel_of, grouping_of

SCHEME = RelayCoded(profile=Profile.HIDDEN, max_degree=5, k_min=3, bound=8.0, keys=KeyAgreement.X25519)
RULES = Partnering(5, 3)
PATH = {(n, n + 1) for n in range(11)}
STEPS = [Step(0, 0), Step(0, 0, Direction.BACKWARD), Step(1, 0)]


def opened(pairs: Pairs, nodes: int, seed: int = 0, scheme: RelayCoded = SCHEME) -> tuple[Collective, Channel]:
    """Sums between partners of a graph."""
    parties, grouping = grouping_of(pairs, nodes)
    channel = channel_of(parties, seed)
    return open_neighbours(scheme, grouping, 2, channel), channel


def ideal(grouping: Grouping, rows: NDArray[Any], step: Step) -> NDArray[Any]:
    """What the sums must be: over k_min at least, backward along what was sent forward."""
    way = grouping.answered_grouping(SCHEME.k_min)
    if step.direction is Direction.BACKWARD:
        way = way.reverse().answered_grouping(SCHEME.k_min)
    out = np.zeros((len(way.group_owner), rows.shape[1]), dtype=rows.dtype)
    np.add.at(out, way.target, rows[way.source])
    return out


def test_rows_are_written_for_as_many_partners_as_there_may_be() -> None:
    """By what everybody knows: D, and not the most that somebody happens to have; all neighbours under profile base."""
    _, grouping = grouping_of({(0, n) for n in range(1, 12)}, 12)
    assert most_terms(SCHEME, grouping) == 5
    assert most_terms(RelayCoded(profile=Profile.SHOWN), grouping) == 11


@pytest.mark.parametrize("pairs", [PATH, {(0, n) for n in range(1, 12)}, {(a, b) for b in range(12) for a in range(b)}])
def test_nobody_sees_a_count_that_depends_on_the_graph(pairs: Pairs) -> None:
    """A path, a star, and everybody with everybody: D messages of each device to each relay, and D under each tag."""
    collective, channel = opened(pairs, 12, scheme=replace(SCHEME, max_degree=9))
    collective.sum(np.ones((12, 2)), Step(0, 0))
    devices, relays = (channel.parties.ids(role) for role in (Role.DEVICE, Role.RELAY))
    sealed = [each for each in channel.transcript.messages if each.phase is Phase.SEALED and len(each.senders) > 12]
    assert len(sealed) == len(relays)
    for each in sealed:
        assert (np.bincount(each.senders)[devices] == 9).all()
    for relay in relays.tolist():
        tags = [each["tag"][each.receivers == relay] for each in channel.transcript.messages
                if each.phase in (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS)]  # fmt: skip
        _, counts = np.unique(np.concatenate(tags), axis=0, return_counts=True)
        assert counts.tolist() == [9] * 12


def test_padding_to_the_busiest_would_tell_the_graphs_apart() -> None:
    """The twin of the test above: without partners everybody sends as many as the busiest has neighbours."""
    sent = []
    for pairs in (PATH, {(0, n) for n in range(1, 12)}):
        parties, grouping = grouping_of(pairs, 12)
        channel = channel_of(parties)
        scheme = replace(SCHEME, max_degree=None)
        Collective(scheme, Topology(NEIGHBOURS, grouping, 2), channel).sum(np.ones((12, 2)), Step(0, 0))
        sent.append(sum(len(each.senders) for each in channel.transcript.messages if each.phase is Phase.SEALED))
    assert sent[0] != sent[1]


def test_ends_of_a_way_never_talk() -> None:
    """Neither sees a message of the other, in the agreement or in a sum, and no tag on a way goes to a stranger."""
    collective, channel = opened(PATH, 12)
    collective.sum(np.ones((12, 2)), Step(0, 0))
    ends = {
        frozenset(pair) for pair in zip(*(each.tolist() for each in collective.topology.circuits.ends[:2]), strict=True)
    }
    between = [
        frozenset(pair)
        for batch in channel.transcript.messages
        for pair in zip(batch.senders.tolist(), batch.receivers.tolist(), strict=True)
    ]
    assert len(ends) > 3
    assert not ends & set(between)
    handed_on = [
        each for each in channel.transcript.messages if each.phase is Phase.TAGS and "ticket" in (each.fields or {})
    ]
    assert len(handed_on) == 1 + collective.topology.circuits.hops


def test_a_tag_that_is_lost_on_its_way_costs_its_own_sum() -> None:
    """Who isn't told a tag doesn't send, so that the tag lacks a message and stays closed; other sums are whole."""
    parties, grouping = grouping_of(PATH, 12)
    partners = agree(grouping, RULES, channel_of(parties))
    target, _, _, beside = partners.circuits.ends[:, 0].tolist()

    def loss(phase: Phase, _step: Step, senders: NDArray[np.int64], receivers: NDArray[np.int64]) -> NDArray[np.bool_]:
        lost: NDArray[np.bool_] = (senders == target) & (receivers == beside)
        return ~lost | (phase is not Phase.TAGS)

    channel = Channel(parties, SimulationCoins(5), Recording.everything(), loss)
    topology = Topology(NEIGHBOURS, partners.grouping, 2, circuits=partners.circuits)
    collective = Collective(SCHEME, topology, channel)
    rows = np.arange(1.0, 9.0)[np.arange(24).reshape(12, 2) % 8]
    found, whole = collective.sum(rows, Step(0, 0)), ideal(collective.topology.grouping, rows, Step(0, 0))
    place = target - int(grouping.row_owner[0])
    others = np.arange(12) != place
    assert whole[place].any()
    assert not found[place].any()
    assert np.allclose(found[others], whole[others])
