"""Sums in which nobody tells tags: everybody sends the same whatever the graph, and no device talks to another."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.partnering import Partnering
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging, wire
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.labels import Labels
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, LinkKeys, Topology
from fgl_secure.runtime import Channel, Direction, MessageBatch, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.runtime.machine import SETUP
from fgl_secure.runtime.transcript import Private
from fgl_secure.schemes import parse
from tests.error_codes import about
from tests.protocols.partners.graphs import Pairs, channel_of, graphs, grouping_of
from tests.protocols.relay_coded import twins
from tests.protocols.relay_coded.test_partners import PATH, STEPS, ideal

Ids = NDArray[np.int64]

D, DEVICES, SILOS = 5, 12, 3
SEALED = RelayCoded(
    profile=Profile.HIDDEN, tags=Tagging.SEALED, max_degree=D, k_min=3, bound=8.0, keys=KeyAgreement.X25519
)
TOLD = replace(SEALED, tags=Tagging.DIRECT)
STAR = {(0, n) for n in range(1, DEVICES)}
WHOLE = {(a, b) for b in range(DEVICES) for a in range(b)}
PAIRS = {(n, n + 6) for n in range(6)}
ROWS = np.arange(1.0, 2 * DEVICES + 1).reshape(DEVICES, 2) % 8


class Named(Channel):
    """Coins from a stream of their own for each thing that is drawn, so that more of one are not fewer of another."""

    def draw(self, name: str, owners: Ids, modulus: int, shape: tuple[int, ...], step: Step = SETUP) -> Ids:
        streams: dict[str, SimulationCoins] = self.__dict__.setdefault("streams", {})
        coins = streams.setdefault(name, SimulationCoins(len(name)))
        values = coins.uniform(modulus, (len(owners), *shape))
        self._keep(Private.COINS, name, step, owners, values)
        return values


def opened(
    pairs: Pairs, scheme: RelayCoded = SEALED, seed: int = 0, loss: Loss | None = None
) -> tuple[Collective, Channel]:
    """Sums between partners that were agreed on beforehand, over a channel that carries nothing but the sums."""
    parties, grouping = grouping_of(pairs, DEVICES, SILOS)
    partners = agree(grouping, Partnering(D, scheme.k_min), channel_of(parties, seed))
    channel = Named(parties, SimulationCoins(seed + 1), Recording.everything(), loss)
    topology = Topology(NEIGHBOURS, partners.grouping, 2, circuits=partners.circuits, keys=partners.keys)
    return Collective(scheme, topology, channel), channel


@settings(deadline=None)
@given(
    graphs(12), st.integers(0, 2**32 - 1), st.sampled_from([(1, 2), (1, 3), (2, 4)]), st.sampled_from([SEALED, TOLD])
)
def test_sums_are_those_over_partners(
    graph: tuple[Pairs, int], seed: int, relays: tuple[int, int], scheme: RelayCoded
) -> None:
    """Forward and back, over neighbours and over those that requests found, with relays to spare and without."""
    pairs, nodes = graph
    parties, grouping = grouping_of(pairs, nodes, relays=relays[1])
    partners = agree(grouping, Partnering(D, 3), channel_of(parties, seed))
    topology = Topology(NEIGHBOURS, partners.grouping, 2, circuits=partners.circuits, keys=partners.keys)
    channel = channel_of(parties, seed)
    collective = Collective(replace(scheme, T=relays[0], R=relays[1]), topology, channel)
    rows = np.random.default_rng(seed).integers(-4, 5, size=(nodes, 2)).astype(np.float64)
    for step in STEPS:
        assert np.allclose(collective.sum(rows, step), ideal(partners.grouping, rows, step))
    assert not channel.transcript.incidents


class NamesPartnersAlone(Devices):
    """What opens a sum has a label for each partner, and none for covers."""

    def _fetches(self, *, proxied: bool) -> Iterator[Any]:
        for messages in super()._fetches(proxied=proxied):
            wanted = np.bincount(self._plan.way.target, minlength=DEVICES)[self._plan.groups][self._order]
            for count in np.unique(wanted).tolist():
                part = messages.rows(wanted == count)
                yield replace(part, fields={**part.fields, wire.OPENING: part[wire.OPENING][:, :count]})


def trace(messages: list[MessageBatch]) -> list[tuple[object, ...]]:
    """All that somebody who watches every wire sees: who sends how much to whom, and when."""
    return [
        (each.phase, each.step, each.item_bytes, each.senders.tolist(), each.receivers.tolist()) for each in messages
    ]


@pytest.mark.parametrize(
    ("scheme", "same"),
    [(SEALED, True), (TOLD, False), (twins.with_devices(NamesPartnersAlone)(SEALED), False)],
    ids=["sealed", "told", "labels of partners alone"],
)
def test_all_wires_carry_the_same_whatever_the_graph(scheme: RelayCoded, same: bool) -> None:
    """A path, a star, pairs, and everybody with everybody, under the same coins, forward and back.

    So do those of silos, which see nothing but the ends and sizes of what they hand on. Told tags, and fetches that
    grow with the number of partners, are told apart.
    """
    seen = []
    for pairs in (PATH, STAR, PAIRS, WHOLE):
        collective, channel = opened(pairs, scheme)
        for step in STEPS:
            try:
                collective.sum(ROWS, step)
            except ProtocolError:  # relays answer none of the twin
                assert not same
        seen.append(trace(channel.transcript.messages))
    assert all(each == seen[0] for each in seen) == same


@pytest.mark.parametrize("scheme", [SEALED, TOLD], ids=["sealed", "told"])
def test_no_device_talks_to_another_one(scheme: RelayCoded) -> None:
    """In sums; tags that are told go from device to device."""
    collective, channel = opened(PATH, scheme)
    for step in STEPS:
        collective.sum(ROWS, step)
    devices = channel.parties.ids(Role.DEVICE)
    between = [each for each in channel.transcript.messages if np.isin([each.senders, each.receivers], devices).all()]
    assert bool(between) == (scheme is TOLD)


def fetched(channel: Channel, relay: int, step: Step) -> Ids:
    """The labels that one relay was shown in a step: int64 [k, D, 2]."""
    found = [each for each in channel.transcript.messages if each.phase is Phase.FETCH and each.step == step]
    return np.concatenate([each[wire.OPENING][each.receivers == relay] for each in found])


def headed(channel: Channel, relay: int, step: Step) -> Ids:
    """The labels that messages to one relay had in a step: int64 [m, 2]."""
    found = [
        each
        for each in channel.transcript.messages
        if each.phase in (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS) and each.step == step
    ]
    return np.concatenate([each[wire.TAG][each.receivers == relay] for each in found])


@pytest.mark.parametrize("pairs", [PATH, STAR, WHOLE])
def test_every_relay_sees_as_many_labels_of_each_sum_and_none_twice(pairs: Pairs) -> None:
    """Each label heads one message and is named in one fetch, ascending there; no other step or relay sees it."""
    collective, channel = opened(pairs)
    for step in STEPS:
        collective.sum(ROWS, step)
    seen = []
    for relay in channel.parties.ids(Role.RELAY).tolist():
        for step in STEPS:
            named, heads = fetched(channel, relay, step), headed(channel, relay, step)
            assert named.shape == (DEVICES, D, 2)
            assert (np.diff(named[:, :, 0], axis=1) > 0).all()
            flat = named.reshape(-1, 2)
            assert np.array_equal(flat[np.lexsort(flat.T)], heads[np.lexsort(heads.T)])
            seen.append(flat)
    assert len(np.unique(np.concatenate(seen), axis=0)) == len(STEPS) * 2 * DEVICES * D


def test_sums_are_asked_for_in_no_order_of_their_owners() -> None:
    """The first may be anybody's, though silos mix what they hand on."""
    collective, channel = opened(PATH)
    for step in STEPS:
        collective.sum(ROWS, step)
    devices = channel.parties.ids(Role.DEVICE).tolist()
    asked = [each.senders.tolist() for each in channel.transcript.messages if each.phase is Phase.SEALED]
    orders = [senders for senders in asked if len(senders) == DEVICES and sorted(senders) == devices]
    assert len(orders) == 2 * len(STEPS)
    assert len({tuple(senders) for senders in [*orders, devices]}) == len(STEPS) + 1


class Alike(Labels):
    """What a message is called is the same at all relays."""

    def sent(self, step: Step, place: int, fresh: Ids) -> Ids:  # noqa: ARG002  # wherever it is
        return super().sent(step, 0, fresh)

    def awaited(self, step: Step, place: int, fresh: Ids) -> Ids:  # noqa: ARG002  # the same
        return super().awaited(step, 0, fresh)


class OneLabelForAll(Devices):
    """Devices that use such labels."""

    def _labels_of(self, direction: Direction) -> Labels:
        keys = self._topology.keys
        assert keys is not None
        return Alike(self._plans[direction], keys, D)


@pytest.mark.parametrize("devices", [Devices, OneLabelForAll])
def test_no_relay_fetches_with_what_it_was_shown(devices: type[Devices]) -> None:
    """A relay that asks another before the target does gets nothing; where labels are the same everywhere, sums."""
    parties, _ = grouping_of(PATH, DEVICES, SILOS)
    first, second = parties.ids(Role.RELAY).tolist()

    def arrives(phase: Phase, _: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        return np.asarray((phase is not Phase.FETCH) | (receivers != second) | (senders == first))

    scheme = twins.with_devices(devices)(twins.with_relays(twins.Prying)(SEALED))
    collective, _ = opened(PATH, scheme, loss=arrives)
    with pytest.raises(ProtocolError, check=about("T + 1 = 2 relays")):
        collective.sum(ROWS, STEPS[0])
    (relays,) = (machine for machine in collective._machines if isinstance(machine, twins.Prying))
    counts = np.concatenate([messages["count"] for messages in relays.told if messages.phase is Phase.COUNTS])
    assert len(counts) >= DEVICES
    assert (counts == 0).all() == (devices is Devices)


def lost(phase: Phase, step: Step, which: Callable[[Ids, Ids], Any]) -> Loss:
    """A network that loses some messages of one phase in one step."""

    def arrives(of: Phase, when: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:
        return np.asarray(~which(senders, receivers) | (of is not phase) | (when != step))

    return arrives


@pytest.mark.parametrize("off", [0, 4])
def test_a_device_that_sends_nothing_costs_its_partners_their_sums(off: int) -> None:
    """In that step; nobody else loses any, and none is wrong."""
    parties, _ = grouping_of(PATH, DEVICES, SILOS)
    gone = int(parties.ids(Role.DEVICE)[off])
    collective, channel = opened(PATH, loss=lost(Phase.SEALED, STEPS[2], lambda senders, _: senders == gone))
    grouping = collective.topology.grouping
    whole = [ideal(grouping, ROWS, step) for step in STEPS]
    found = [collective.sum(ROWS, step) for step in STEPS]
    assert np.allclose(found[:2], whole[:2])
    lacking = np.isin(np.arange(DEVICES), [off, *grouping.target[grouping.source == off].tolist()])
    assert not found[2][lacking].any()
    assert np.allclose(found[2][~lacking], whole[2][~lacking])
    assert f"device {off}: " in "\n".join(f"{each.party}: {each.what}" for each in channel.transcript.incidents)


def test_relays_tell_each_other_no_labels() -> None:
    """Where they compare what they hold, they name silo, place and number: with labels one could fetch at another."""
    relay = int(grouping_of(PATH, DEVICES, SILOS)[0].ids(Role.RELAY)[1])
    loss = lost(Phase.SHARE_HEADERS, STEPS[0], lambda _, to: (to == relay) & (np.arange(len(to)) < 3))
    collective, channel = opened(PATH, loss=loss)
    collective.sum(ROWS, STEPS[0])
    rosters = [each.fields or {} for each in channel.transcript.messages if each.phase is Phase.ROSTERS]
    said = [fields["rows"] for fields in rosters if "rows" in fields]
    assert said
    for other in channel.parties.ids(Role.RELAY).tolist():
        words = fetched(channel, other, STEPS[0])
        assert not any(np.isin(each, words).any() for each in said)


def test_what_some_relay_lacks_is_asked_for_again() -> None:
    """By silo and place, as where tags are told: no sum is lost."""
    relay = int(grouping_of(PATH, DEVICES, SILOS)[0].ids(Role.RELAY)[0])
    calls = []

    def once(_: Ids, to: Ids) -> NDArray[np.bool_]:
        calls.append(len(to))
        return np.asarray((to == relay) & (np.arange(len(to)) < 3) & (len(calls) == 1))

    collective, _ = opened(PATH, loss=lost(Phase.SHARE_SEEDS, STEPS[0], once))
    assert np.allclose(collective.sum(ROWS, STEPS[0]), ideal(collective.topology.grouping, ROWS, STEPS[0]))


class Regroups(Devices):
    """Asks a second time for every sum, with one label less and one of another sum."""

    def _fetches(self, *, proxied: bool) -> Iterator[Any]:
        for messages in super()._fetches(proxied=proxied):
            yield messages
            shown = messages[wire.OPENING].copy()
            shown[:, 0] = np.roll(shown[:, 0], 1, axis=0)
            yield replace(messages, fields={**messages.fields, wire.OPENING: shown})


def test_a_label_that_was_answered_for_is_answered_for_in_no_other_sum() -> None:
    """Two sums over nearly the same messages would tell one of them."""
    collective, channel = opened(PATH, twins.with_devices(Regroups)(SEALED))
    with pytest.raises(ProtocolError, check=about("relays")):  # devices take no answers to what they are told of
        collective.sum(ROWS, STEPS[0])
    (relays,) = (machine for machine in collective._machines if isinstance(machine, Relays))
    for relay in relays._relays:
        assert len(relay.answered) >= DEVICES * D // 2
        assert len(np.unique(relay.answered, axis=0)) == len(relay.answered)
    assert any("fetched again and not answered" in each.what for each in channel.transcript.incidents)


def test_it_is_for_hidden_graphs_and_partners() -> None:
    """Refused with what to do instead, before anything is sent; silos tell their own devices tags in any case."""
    with pytest.raises(InputError):
        parse("relay-coded[graph-shown,tags=sealed]", (NEIGHBOURS,))
    assert parse("relay-coded[tags=sealed]", (NEIGHBOURS,))[1].name == "relay-coded[tags=sealed]"
    parties, grouping = grouping_of(PATH, DEVICES, SILOS)
    channel = channel_of(parties)
    unknown = Collective(SEALED, Topology(NEIGHBOURS, grouping, 2), channel)
    with pytest.raises(InputError):
        unknown.sum(ROWS, STEPS[0])
    assert not channel.transcript.messages
    example = Topology.example(NEIGHBOURS)
    assumed = [" ".join(scheme.claim_for(example).assumptions) for scheme in (SEALED, TOLD)]
    assert ["between devices sees who talks to whom" in each for each in assumed] == [False, True]
    assert SEALED.claim_for(Topology.example(MEMBERS)) == TOLD.claim_for(Topology.example(MEMBERS))


def test_both_ends_have_the_same_words_and_nobody_sees_them() -> None:
    """One of the two is the first; words are as many as pairs of partners, and stand in no repr."""
    parties, grouping = grouping_of(PATH, DEVICES, SILOS)
    partners = agree(grouping, Partnering(D, 3), channel_of(parties))
    keys = partners.keys
    assert len(keys.devices) == len(partners.grouping.source)
    back = keys.find(keys.partners, keys.devices)
    assert np.array_equal(keys.words[back], keys.words)
    assert np.array_equal(keys.first[back], ~keys.first)
    assert len(np.unique(keys.words, axis=0)) == len(keys.devices) // 2
    assert keys.words.min() >= 0
    shown = repr(partners) + repr(Topology(NEIGHBOURS, grouping, 1, keys=keys))
    assert not any(str(word) in shown for word in keys.words.ravel().tolist())
    collective, channel = opened(PATH)
    for step in STEPS:
        collective.sum(ROWS, step)
    said = [value.ravel() for each in channel.transcript.messages for value in (each.fields or {}).values()]
    assert not any(np.isin(each, collective.topology.keys.words).any() for each in said if each.dtype == np.int64)  # type: ignore[union-attr]
    with pytest.raises(InputError, check=about("partners")):
        keys.find(keys.devices[:1], keys.devices[:1])
    nobody = np.empty(0, dtype=np.int64)
    none = LinkKeys(nobody, nobody, nobody.reshape(0, 2), nobody.astype(np.bool_))
    assert not len(none.find(nobody, nobody))
    with pytest.raises(InputError, check=about("partners")):
        none.find(keys.devices[:1], keys.partners[:1])
