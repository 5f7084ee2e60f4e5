"""Partners: nobody has too many, both ends agree, small groups are filled, and everybody acts on what it knows."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import TapeCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.partners import Partners, agree
from fgl_secure.protocols.partners.links import Links
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.topology import Grouping, Partnering, SmallGroups
from fgl_secure.runtime import Channel, Phase, simulate
from tests.error_codes import about
from tests.protocols.partners.graphs import Apart, Ids, Pairs, channel_of, graphs, grouping_of

RULES = st.tuples(st.integers(1, 4), st.integers(0, 4), st.sampled_from(SmallGroups)).map(
    lambda drawn: Partnering(drawn[0] + drawn[1], drawn[0], drawn[2])
)


FOUR = {(a, b) for b in range(4) for a in range(b)} | {(n, n + 4) for n in range(4)}
"""Four that know one another, each with a leaf."""


def pairs_of(partners: Partners) -> Counter[tuple[int, int]]:
    """How often each ordered pair of places exchanges a row."""
    return Counter(zip(partners.grouping.source.tolist(), partners.grouping.target.tolist(), strict=True))


def pairs_taken(links: Links) -> list[tuple[int, int]]:
    """The links that both ends have chosen, as those that are hosted see them."""
    return list(zip(links.owners[links.chosen].tolist(), links.others[links.chosen].tolist(), strict=True))


def faults(partners: Partners, pairs: Pairs, rules: Partnering) -> list[str]:
    """What is wrong with an agreement."""
    found, sent = [], pairs_of(partners)
    if any(count > 1 for count in sent.values()):
        found.append("a row is in a sum twice")
    if any((b, a) not in sent for a, b in sent):
        found.append("rows travel one way")
    if max(Counter(target for _, target in sent).values(), default=0) > rules.most:
        found.append("too many partners")
    first = int(partners.grouping.row_owner[0])
    one, other, _, _ = partners.circuits.ends - first
    far = {tuple(sorted(pair)) for pair in zip(one.tolist(), other.tolist(), strict=True)}
    if far & pairs:
        found.append("neighbours by way of others")
    if {tuple(sorted(pair)) for pair in sent} - far - pairs:
        found.append("partners who are neither neighbours nor on a way")
    devices, _, before, behind, _ = partners.circuits.table.T - first
    steps = {*zip(before.tolist(), devices.tolist(), strict=True), *zip(devices.tolist(), behind.tolist(), strict=True)}
    if not {tuple(sorted(step)) for step in steps if min(step) >= 0} <= pairs:
        found.append("a way over strangers")
    return found


@given(graphs(), RULES, st.integers(0, 2**32 - 1))
def test_an_agreement_keeps_the_rules(graph: tuple[Pairs, int], rules: Partnering, seed: int) -> None:
    """Whatever the graph: at most D partners, once each, both ways, along edges or ways over edges."""
    pairs, nodes = graph
    parties, grouping = grouping_of(pairs, nodes)
    partners = agree(grouping, rules, channel_of(parties, seed))
    assert faults(partners, pairs, rules) == []
    if rules.small_groups is SmallGroups.SKIP:
        assert not len(partners.circuits.table)


@given(st.integers(0, 2**32 - 1))
def test_nobody_takes_the_request_of_a_neighbour(seed: int) -> None:
    """Where all know one another and want more partners than there are, leaves alone are asked for."""
    parties, grouping = grouping_of(FOUR, 8)
    rules = Partnering(6, 5)
    assert faults(agree(grouping, rules, channel_of(parties, seed)), FOUR, rules) == []


class _NoRoom(PartnerDevices):
    """The twin that takes requests whether or not it has room."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.requests._max_partners = 10**6


class _Strangers(PartnerDevices):
    """The twin that takes requests of neighbours."""

    def _receive_requests(self, messages: Any) -> None:
        super()._receive_requests(messages)
        self.requests._neighbour_names.clear()


class _Twice(PartnerDevices):
    """The twin that forgets whose requests it has taken, and who has taken its own."""

    def _receive_requests(self, messages: Any) -> None:
        self.requests._accepted.clear()
        super()._receive_requests(messages)


@pytest.mark.parametrize(
    ("twin", "fault"),
    [(_NoRoom, "too many partners"), (_Strangers, "neighbours by way of others"), (_Twice, "a row is in a sum twice")],
)
def test_the_check_sees_a_broken_agreement(twin: type[PartnerDevices], fault: str) -> None:
    """Each rule has a twin that breaks it: on a wheel with leaves, where room is short, and where four know another."""
    wheel = {(0, n) for n in range(1, 7)} | {(n, n + 1) for n in range(1, 6)} | {(n, n + 6) for n in range(1, 7)}
    found = set[str]()
    for pairs, rules in ((wheel, Partnering(4, 4)), (FOUR, Partnering(6, 5))):
        parties, grouping = grouping_of(pairs, 13)
        for seed in range(12):
            found |= set(faults(agree(grouping, rules, channel_of(parties, seed), twin), pairs, rules))
    assert fault in found


@given(graphs(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_wishes_end_with_the_greedy_choice(graph: tuple[Pairs, int], most: int, seed: int) -> None:
    """The links taken are those that one would take from the heaviest on, leaving out those of full devices."""
    pairs, nodes = graph
    parties, grouping = grouping_of(pairs, nodes)
    machine = PartnerDevices(
        grouping.owners, grouping, Partnering(most, 1, SmallGroups.SKIP), channel_of(parties, seed)
    )
    simulate([machine], channel_of(parties, seed))
    links = machine.links
    weights = links.own_numbers ^ links.neighbour_numbers
    load, chosen = Counter[int](), set[tuple[int, int]]()
    for place in np.argsort(-weights).tolist():
        pair = int(links.owners[place]), int(links.others[place])
        if pair[0] < pair[1] and max(load[pair[0]], load[pair[1]]) < most:
            chosen.add(pair)
            load.update(pair)
    assert set(pairs_taken(links)) == {each for pair in chosen for each in (pair, pair[::-1])}


@given(graphs(14), RULES)
def test_devices_need_nothing_but_what_they_are_told(graph: tuple[Pairs, int], rules: Partnering) -> None:
    """A process for each device, that knows its own neighbours alone and is put down after each turn: ends agree."""
    pairs, nodes = graph
    _, grouping = grouping_of(pairs, nodes)
    everybody = Apart(grouping, rules)
    everybody.run()
    taken = {pair for machine in everybody.machines for pair in pairs_taken(machine.links)}
    assert all((b, a) in taken for a, b in taken)
    for (own,), partners in zip(everybody.hosted, everybody.partners, strict=True):
        g = partners.grouping
        senders, receivers = g.row_owner[g.source].tolist(), g.group_owner[g.target].tolist()
        assert len(senders) == 2 * receivers.count(own) == 2 * senders.count(own) <= 2 * rules.most


def told(partners: Partners, parties: Ids) -> Counter[tuple[int, ...]]:
    """Messages as some devices know them: both ends, strangers as -1, and whether they count forward and back."""
    g = partners.grouping
    ends = g.row_owner[g.source], g.group_owner[g.target]
    near = {*zip(*(each.tolist() for each in partners.circuits.ends[:2]), strict=True)}
    found = Counter[tuple[int, ...]]()
    for sender, receiver, *flags in zip(*ends, g.forward, g.backward, strict=True):
        strange = (sender, receiver) in near or (receiver, sender) in near
        one, other = (each if each in parties or not strange else -1 for each in (sender, receiver))
        if sender in parties or receiver in parties:
            found[int(one), int(other), *map(int, flags)] += 1
    return found


@given(graphs(14), RULES, st.integers(1, 4), st.integers(0, 2**16))
def test_processes_agree_on_what_one_process_does(
    graph: tuple[Pairs, int], rules: Partnering, silos: int, seed: int
) -> None:
    """With the same coins: the same messages, counted alike; the other end of a way is nobody that a process knows."""
    pairs, nodes = graph
    _, grouping = grouping_of(pairs, nodes, silos)
    together = Apart(grouping, rules, [grouping.owners], seed=seed)
    hosted = [grouping.row_owner[grouping.row_custodian == silo] for silo in np.unique(grouping.row_custodian)]
    apart = Apart(grouping, rules, hosted, seed=seed)
    together.run()
    apart.run()
    (whole,) = together.partners
    assert np.array_equal(whole.grouping.forward, _counted(whole.grouping, rules.least))
    back = _plain(whole.grouping).answered_grouping(rules.least).reverse().answered_grouping(rules.least)
    found = whole.grouping.answered_grouping(rules.least).reverse().answered_grouping(rules.least)
    assert np.array_equal([back.source, back.target], [found.source, found.target])
    for here, partners in zip(hosted, apart.partners, strict=True):
        assert told(partners, here) == told(whole, here)
        strangers = partners.circuits.ends[1]
        assert not np.isin(strangers[~np.isin(strangers, here)], grouping.owners).any()


def _plain(way: Grouping) -> Grouping:
    ends = way.row_owner, way.group_owner, way.source, way.target
    return Grouping(*ends, way.row_custodian, way.group_custodian)


def _counted(way: Grouping, least: int) -> NDArray[np.bool_]:
    return np.bincount(way.target, minlength=len(way.group_owner))[way.target] >= least


class _Named(PartnerDevices):
    """The twin whose devices call themselves by their numbers."""

    def names_of(self, devices: Ids) -> Ids:
        return devices


def seen_from_one_end(other: int, devices: type[PartnerDevices]) -> tuple[list[bytes], dict[str, Any]]:
    """What the first device of 0 - 1 - other has heard and knows; 2 and 3 draw each other's coins where it is 3."""
    _, grouping = grouping_of({(0, 1), (1, other)}, 4)
    hosted = [grouping.owners[[0]], grouping.owners[[1]], grouping.owners[2:]]
    two, three = grouping.owners[2:].tolist()
    run = Apart(grouping, Partnering(3, 2), hosted, devices, swapped=(two, three if other == 3 else two))
    run.run()
    assert (run.partners[0].grouping.forward).sum() == 4
    return run.heard[0], run.machines[0].state()


@pytest.mark.parametrize("devices", [PartnerDevices, _Named])
def test_one_end_learns_nothing_of_who_is_at_the_other(devices: type[PartnerDevices]) -> None:
    """Whoever it is, all that arrives at a process and all that it keeps is the same, bit for bit; not in a twin."""
    views = [seen_from_one_end(other, devices) for other in (2, 3)]
    same = views[0][0] == views[1][0]
    same &= all(np.array_equal(value, views[1][1][name]) for name, value in views[0][1].items())
    assert same == (devices is PartnerDevices)


@pytest.mark.parametrize("small_groups", SmallGroups)
def test_small_groups_are_filled(small_groups: SmallGroups) -> None:
    """In a path everybody has two neighbours at most, and gets a third where requests are passed on."""
    pairs = {(n, n + 1) for n in range(29)}
    parties, grouping = grouping_of(pairs, 30)
    counts = np.mean(
        [np.bincount(agree(grouping, Partnering(6, 3, small_groups), channel_of(parties, seed)).grouping.target) >= 3
         for seed in range(4)]
    )  # fmt: skip
    assert counts == 0 if small_groups is SmallGroups.SKIP else counts > 0.9


def test_the_one_who_asks_learns_no_name() -> None:
    """No message of a device reaches one that is no neighbour; names in requests are random numbers."""
    pairs = {(n, n + 1) for n in range(19)}
    parties, grouping = grouping_of(pairs, 20)
    channel = channel_of(parties)
    partners = agree(grouping, Partnering(6, 3), channel)
    assert len(partners.circuits.ends.T) > 8
    first = int(grouping.row_owner[0])
    ends = [zip(b.senders - first, b.receivers - first, strict=True) for b in channel.transcript.messages]
    said = {(int(sender), int(receiver)) for each in ends for sender, receiver in each}
    assert {tuple(sorted(pair)) for pair in said} == pairs
    names = [b["name"] for b in channel.transcript.messages if b.phase is Phase.REQUESTS and "name" in (b.fields or {})]
    assert names
    assert not np.isin(np.concatenate(names), np.arange(len(parties))).any()


def test_all_devices_go_through_all_turns() -> None:
    """How long an agreement takes doesn't depend on the graph: everybody wishes or waits in every round."""
    turns = []
    for pairs, nodes in (({(0, 1)}, 2), ({(0, n) for n in range(1, 20)}, 20)):
        parties, grouping = grouping_of(pairs, nodes)
        machine = PartnerDevices(grouping.owners, grouping, Partnering(3, 2), channel_of(parties))
        simulate([machine], channel_of(parties))
        turns.append(machine._step_number)
    assert turns[0] == turns[1]


def test_unfit_groupings_and_rules_are_refused() -> None:
    """One-way rows, two rows between two devices, tapes, and rules that contradict themselves."""
    parties, grouping = grouping_of({(0, 1), (1, 2)}, 3)
    one_way = replace(grouping, source=grouping.source[:1], target=grouping.target[:1])
    with pytest.raises(InputError, check=about("rows")):
        agree(one_way, Partnering(2, 1), channel_of(parties))
    with pytest.raises(InputError, check=about("partners")):
        agree(grouping, Partnering(2, 1), Channel(parties, TapeCoins(3, 4)))
    with pytest.raises(InputError, check=about("least and most")):
        Partnering(2, 3)
