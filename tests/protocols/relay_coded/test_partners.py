"""Sums between partners: tags pass by way of others, and all send equally many messages."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Partnering, Topology
from fgl_secure.runtime import Channel, Direction, OwnDraws, Phase, Recording, Role, Step, decode, encode
from fgl_secure.training.one_process import most_terms, open_neighbours
from tests.protocols.partners.graphs import Apart, Pairs, channel_of, grouping_of
from tests.protocols.processes import SESSION

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


def test_sums_are_the_same_with_a_process_for_each_silo_and_relay() -> None:
    """Pseudonyms are handed on from process to process; each is put down and taken up after every turn."""
    scheme = SCHEME
    parties, grouping = grouping_of(PATH, 12, 4)
    silos, relays = parties.ids(Role.SILO), parties.ids(Role.RELAY)
    devices = [grouping.row_owner[grouping.row_custodian == silo] for silo in silos]
    agreement = Apart(grouping, RULES, devices)
    agreement.run()
    whole = Apart(grouping, RULES, [grouping.owners])
    whole.run()
    assert all(len(partners.circuits.ends.T) for partners in agreement.partners)
    known = [
        Topology(NEIGHBOURS, each.grouping, 2, helpers=relays, circuits=each.circuits, others=silos)
        for each in agreement.partners
    ]
    nobody = np.empty(0, dtype=np.int64)
    known += [Topology(NEIGHBOURS, Grouping(*[nobody] * 6), 2, helpers=relays) for _ in relays]
    hosted = [np.append(silo, here) for silo, here in zip(silos, devices, strict=True)]
    hosted += list(relays[:, None])
    draws = [OwnDraws(SimulationCoins(number)) for number in range(len(hosted))]

    def made() -> list[SumMachine]:
        processes = zip(known, draws, hosted, strict=True)
        return [each for told, own, here in processes for each in scheme.machines(told, SESSION, own, here)]

    machines = made()
    for step in STEPS:
        rows = np.random.default_rng(step.round).integers(0, 9, size=(12, 2))
        for machine in machines:
            own = np.isin(grouping.row_owner, machine.parties)
            machine.begin(step, rows[own] if own.any() else None)
        while not all(machine.sums is not None for machine in machines if isinstance(machine, Devices)):
            said = [encode(messages) for machine in machines for messages in machine.step()]
            states, machines = [machine.state() for machine in machines], made()
            for machine, state in zip(machines, states, strict=True):
                machine.restore(state)
            for messages in map(decode, said):
                for machine in machines:
                    mine = np.isin(messages.receivers, machine.parties)
                    if mine.any():
                        machine.receive(messages.rows(mine))
        found = np.zeros((12, 2), dtype=np.int64)
        for machine in machines:
            if machine.sums is not None:
                found[np.isin(grouping.group_owner, machine.parties)] = machine.sums
        assert np.array_equal(found, ideal(whole.partners[0].grouping, rows, step))


def test_rows_are_written_for_as_many_partners_as_there_may_be() -> None:
    """By what everybody knows: D, and not the most that somebody happens to have; all neighbours under profile base."""
    _, grouping = grouping_of({(0, n) for n in range(1, 12)}, 12)
    assert most_terms(SCHEME, grouping) == 5
    assert most_terms(RelayCoded(profile=Profile.SHOWN), grouping) == 11


@pytest.mark.parametrize("pairs", [PATH, {(0, n) for n in range(1, 12)}, {(a, b) for b in range(12) for a in range(b)}])
def test_nobody_sees_a_count_that_depends_on_the_graph(pairs: Pairs) -> None:
    """A path, a star, and a complete graph: D circuits of each device to each relay, and D of each group."""
    collective, channel = opened(pairs, 12, scheme=replace(SCHEME, max_degree=9))
    collective.sum(np.ones((12, 2)), Step(0, 0))
    devices = channel.parties.ids(Role.DEVICE)
    sealed = [each for each in channel.transcript.messages if each.phase is Phase.SEALED and each.senders[0] in devices]
    assert len(sealed) == 1
    assert (np.bincount(sealed[0].senders)[devices] == 9).all()
    for rows in channel.transcript.views(Role.RELAY).own("circuits"):
        for relay in np.unique(rows.owners):
            _, counts = np.unique(rows.values[rows.owners == relay][:, 2:], axis=0, return_counts=True)
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


def test_a_pseudonym_that_is_lost_on_its_way_costs_the_sums_of_its_ends() -> None:
    """Who is not told opens no circuit to the group, and has one too many: relays refuse both; other sums are whole."""
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
    assert whole[place].any()
    assert not found[place].any()
    closed = (found == 0).all(axis=1)
    assert np.allclose(found[~closed], whole[~closed])
    assert not closed.all()
