from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.relay_patterns import CARRYING, claimed_edges
from fgl_secure.attacks.registry import attack as named
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.matrix import State
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.audit_runs import recorded_exchange, silent_run
from fgl_secure.methods.hifgl.controls import OF_OWN_SILOS, UnmixedCryptography
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import (
    Channel,
    Circumstance,
    Draws,
    Party,
    Phase,
    ReceivedRows,
    Recording,
    Role,
    Secret,
    SecretKind,
    Step,
    Transcript,
)
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import messages_of, record_forwarded, record_silent, record_tagged
from tests.attacks.recorded import Run, both_ways, federated, random_graph, words
from tests.graphs import two_communities

SEEDS = st.integers(0, 10_000)


def meshed(devices: int = 60, seed: int = 0) -> FederatedGraph:
    """A preferential-attachment graph over three silos."""
    pairs = list(nx.barabasi_albert_graph(devices, 2, seed=seed).edges)
    return federated(both_ways(pairs), np.arange(devices) % 3)


def incidence(graph: FederatedGraph, seed: int, k_min: int = 1) -> sparse.csr_array:
    """Who sends under which tag, tags in random order, sums over fewer than k_min left out."""
    matrix = sparse.csr_array((np.ones(graph.edges.shape[1], dtype=np.int64), tuple(graph.edges)),
                              shape=(graph.num_devices, graph.num_devices))  # fmt: skip
    tagged = np.flatnonzero(graph.in_degree >= k_min)
    return matrix[:, np.random.default_rng(seed).permutation(tagged)]


class TestTagMatching(AttackConformance):
    attack: Attack[ClaimedEdges, Any] = named("tag-matching")
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def claims(self, guess: ClaimedEdges) -> Claims:
        return Counter(zip(guess.sources.tolist(), guess.targets.tolist(), strict=True))

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return record_tagged(graph, **network)

    @pytest.mark.parametrize("k_min", [1, 3])
    def test_fresh_tags_do_not_hide_edges(self, k_min: int) -> None:
        """Both passes of the relay scheme name at least nine in ten edges of answered sums, and no other."""
        graph = meshed()
        rows = words(60, 8)
        run = recorded_exchange(RelayCoded(k_min=k_min, profile=Profile.SHOWN), graph, rows, "rows", 0, both_ways=True)
        guess = self.guess(run)
        devices = (run.transcript.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
        claimed = set(zip(*(index.tolist() for index in devices), strict=True))
        assert claimed <= set(messages_of(graph))
        assert len(claimed) >= 0.9 * int((graph.in_degree[graph.edges[1]] >= k_min).sum())

    def test_proxies_and_padding_stop_it(self) -> None:
        """Where silos forward sealed messages there is no sender to match."""
        graph = meshed()
        scheme = RelayCoded(k_min=1, profile=Profile.HIDDEN)
        run = recorded_exchange(scheme, graph, words(60, 8), "rows", 0, both_ways=True)
        assert self.attack.infer(run.transcript.views(Role.RELAY), run.public) is None

    @given(SEEDS, st.integers(1, 4))
    def test_claims_are_certain_where_small_sums_are_refused(self, seed: int, k_min: int) -> None:
        """With the backward pass in sight claims stay certain: only who has a tag answers, and to whom can be told."""
        graph = random_graph(seed, directed=False, devices=20, pairs=40)
        tagged = graph.in_degree >= k_min
        forward = incidence(graph, seed, k_min)
        hears = np.bincount(graph.edges[0], weights=tagged[graph.edges[1]], minlength=20) >= k_min
        answering = tagged & (np.bincount(graph.edges[0], weights=hears[graph.edges[1]], minlength=20) > 0)
        senders, receivers = claimed_edges(forward, answering)
        assert set(zip(senders.tolist(), receivers.tolist(), strict=True)) <= set(messages_of(graph))


Ids = NDArray[np.int64]


class TestSiloPattern(AttackConformance):
    attack: Attack[Any, Any] = named("silo-pattern")
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def claims(self, guess: Any) -> Claims:
        rows = zip(guess.tags.tolist(), guess.counts.tolist(), strict=True)
        return Counter((*tag, *counts) for tag, counts in rows)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return record_forwarded(graph, **network)

    @pytest.mark.parametrize(
        ("scheme", "tags"),
        [(RelayCoded(k_min=1, profile=Profile.HIDDEN), Tagging.SEALED), (OF_OWN_SILOS, Tagging.DIRECT)],
    )
    def test_silos_that_mix_stop_it(self, scheme: RelayCoded, tags: Tagging) -> None:
        """By way of silos that are drawn no count tells of neighbours; by way of its own silo each is right."""
        run = recorded_exchange(replace(scheme, tags=tags), meshed(), words(60, 8), "rows", 0, both_ways=True)
        guess = self.guess(run)
        (found,) = run.score(self.attack, guess)
        assert found.value == 1 if scheme is OF_OWN_SILOS else found.interval.low <= found.prior


class Stale(UnmixedCryptography):
    """The broken twin: openings of tags and numbers of the first step serve in all, and nothing is shuffled."""

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        return self._first("openings", super().openings(draws, step, owners))

    def numbers(self, draws: Draws, step: Step, senders: Ids) -> Ids:
        return self._first("numbers", super().numbers(draws, step, senders))

    def ways(self, draws: Draws, step: Step, silos: Ids, before: int) -> Ids:
        drawn = super().ways(draws, step, silos, before)
        return np.stack([drawn[:, 0], np.arange(len(drawn))], axis=1)

    def _first(self, name: str, drawn: Ids) -> Ids:
        kept: Ids = self.__dict__.setdefault(f"{name} of {len(drawn)}", drawn)
        return kept


HIDDEN = RelayCoded(k_min=1, profile=Profile.HIDDEN)
STEPS = 12


@cache
def summed(scheme: RelayCoded) -> Transcript:
    """The same rows summed in several rounds, with everything recorded."""
    graph = meshed()
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    session = open_neighbours(scheme, neighbour_sums(graph), 8, channel)
    for number in range(STEPS):
        session.sum(words(60, 8), Step(number, 0))
    return channel.transcript


def got(transcript: Transcript, number: int, relay: int = 0) -> list[ReceivedRows]:
    """The messages without names that a relay got in a round."""
    view = transcript.view([Party(Role.RELAY, relay)])
    return [each for phase in CARRYING for each in view.messages(phase) if each.step.round == number]


def called(transcript: Transcript, number: int) -> dict[str, set[bytes]]:
    """All that the messages of a round are called by at a relay, but their places."""
    found: dict[str, set[bytes]] = {}
    for batch in got(transcript, number):
        for name in {"tag", "number", "seed"} & set(batch.fields or ()):
            found.setdefault(name, set()).update(np.asarray(row).tobytes() for row in batch[name])
    return found


def owners(transcript: Transcript, number: int) -> dict[bytes, int]:
    """The index of the device whose a tag is, of those that it tells its partners: no relay knows."""
    told = [each for each in transcript.messages if each.phase is Phase.TAGS and each.step.round == number]
    return {
        np.asarray(tag).tobytes(): device
        for each in told
        if each.fields is not None and "ticket" not in each.fields
        for device, tag in zip(transcript.parties.index_of(each.senders, Role.DEVICE), each["tag"], strict=True)
    }


def placed(transcript: Transcript, number: int) -> dict[tuple[int, int], int]:
    """In whose sum is what came from a silo, by its index, at a place."""
    owner = owners(transcript, number)
    return {
        (int(silo), int(place)): owner[word]
        for each in got(transcript, number)
        for silo, place, tag in zip(
            transcript.parties.index_of(each.senders, Role.SILO), each["slot"], each["tag"], strict=True
        )
        if (word := np.asarray(tag).tobytes()) in owner
    }


@pytest.mark.parametrize("tags", Tagging)
def test_steps_have_no_names_in_common_that_could_be_intersected(tags: Tagging) -> None:
    """Neither tags, numbers nor seeds of a round are those of another; where they stay the test says so."""
    for scheme in (HIDDEN, replace(OF_OWN_SILOS, cryptography=Stale)):
        transcript = summed(replace(scheme, tags=tags))
        once, again = called(transcript, 0), called(transcript, 1)
        assert set(once) == set(again) == {"tag", "number", "seed"}
        kept = {name for name in once if once[name] & again[name]}
        stays = {"number"} if tags is Tagging.SEALED else {"number", "tag"}
        assert kept == (set() if scheme is HIDDEN else stays)


def test_places_of_two_steps_have_nothing_in_common() -> None:
    """At the same place of the same silo there is a message to somebody else; where nothing is shuffled it stays."""
    for scheme, least, most in ((HIDDEN, 0, 4 / 60), (replace(OF_OWN_SILOS, cryptography=Stale), 1, 1)):
        transcript = summed(scheme)
        once, again = placed(transcript, 0), placed(transcript, 1)
        both = once.keys() & again.keys()
        assert len(both) > len(once) / 2
        assert least <= np.mean([once[place] == again[place] for place in both]) <= most


def correlation(transcript: Transcript) -> float:
    """Between the neighbours that a device has at another silo and what comes from there under all of its tags."""
    graph, counts, actual = meshed(), np.zeros((60, 3), dtype=np.int64), np.zeros((60, 3), dtype=np.int64)
    for number in range(STEPS):
        for (silo, _), device in placed(transcript, number).items():
            counts[device, silo] += 1
    np.add.at(actual, (graph.edges[1], graph.silo_of[graph.edges[0]]), 1)
    abroad = np.arange(3) != graph.silo_of[:, None]
    return float(np.corrcoef(counts[abroad], actual[abroad])[0, 1])


def test_counts_of_all_steps_tell_nothing_even_where_somebody_links_tags() -> None:
    """A way is drawn for each message: twelve rounds add up to as much from any silo; without mixing they tell all."""
    assert abs(correlation(summed(HIDDEN))) < 4.5 / np.sqrt(120)
    assert correlation(summed(OF_OWN_SILOS)) > 0.999


class OfSilentDevices(AttackConformance):
    """What both attacks keep."""

    rests_on = (frozenset({Phase.SHARE_HEADERS}), frozenset({Phase.FETCH}))

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return record_silent(graph, **network)


class TestSilentPartners(OfSilentDevices):
    attack: Attack[Any, Any] = named("silent-partners")
    needs_edges = False

    def claims(self, guess: Any) -> Claims:
        return Counter(zip(guess.devices.tolist(), guess.counts.tolist(), strict=True))


class TestSilentPairs(OfSilentDevices):
    attack: Attack[Any, Any] = named("silent-pairs")

    def claims(self, guess: Any) -> Claims:
        return Counter(map(tuple, guess.ends[:, guess.joined].T.tolist()))


ATTACKS: tuple[Attack[Any, Any], ...] = (named("silent-partners"), named("silent-pairs"))


@pytest.mark.parametrize("tags", Tagging)
def test_a_relay_counts_the_partners_of_a_device_that_drops_out(tags: Tagging) -> None:
    """Under the scheme itself, with tags that are told and without: numbers of partners and pairs are all right."""
    run = silent_run(RelayCoded(k_min=1, max_degree=64, tags=tags), meshed(), 0)
    assert run is not None
    for attack in ATTACKS:
        guess = run.guess(attack)
        assert guess is not None
        (found,) = run.measure(attack, guess)
        assert found.value == 1
        assert found.prior <= 0.5


def test_nothing_is_counted_where_nobody_drops_out() -> None:
    """A run in which no device falls silent gives no guess."""
    run = silent_run(RelayCoded(k_min=1, max_degree=64), meshed(), 0, pairs=0)
    assert run is not None
    assert all(run.guess(attack) is None for attack in ATTACKS)


@pytest.mark.parametrize(("secret", "tags"), [(Secret.DEGREE, Tagging.SEALED), (Secret.CROSS_EDGE, Tagging.DIRECT)])
def test_the_claim_declares_what_drop_outs_reveal(secret: SecretKind, tags: Tagging) -> None:
    """A finding under drop-outs violates nothing, and would if the claim did not declare it; others still do."""
    claim = RelayCoded(tags=tags).claim_for(Topology.example(NEIGHBOURS))
    assert claim.broken_by(secret, {Role.RELAY: 1}, Circumstance.DROP_OUT) is None
    assert claim.broken_by(secret, {Role.RELAY: 1}, Circumstance.ANY) is not None
    silenced = replace(claim, leaks_by_design=())
    assert silenced.broken_by(secret, {Role.RELAY: 1}, Circumstance.DROP_OUT) is not None


def test_an_audit_compares_drop_outs_with_the_claim() -> None:
    """Its cells for relays say that the scheme declares the leakage, and not that nothing was found."""
    names = ("silent-partners", "silent-pairs")
    graph = two_communities(devices=96, silos=3)
    sparse = replace(graph, graph=replace(graph.graph, edges=meshed(96).edges))
    report = audit(HiFGL(epochs=1), sparse, "relay-coded[k_min=1]", names, device="cpu")
    found = [record for record in report.records if record.attack in names]
    assert {record.attack for record in found if record.verdict.is_exposure and record.controls_hold} == set(names)
    assert not report.violations
    states = {(cell.secret, cell.role): cell.state for cell in report.matrix}
    assert states[Secret.DEGREE, Role.RELAY] is states[Secret.CROSS_EDGE, Role.RELAY] is State.DECLARED
