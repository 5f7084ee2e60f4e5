from collections import Counter
from dataclasses import replace
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
from fgl_secure.attacks.message_passing.relay_patterns import claimed_edges
from fgl_secure.attacks.registry import attack as named
from fgl_secure.auditing.audit import audit
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.audit_runs import recorded_exchange, silent_run
from fgl_secure.methods.hifgl.controls import OF_OWN_SILOS, UNCONFIRMED
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Circumstance, Phase, Role, Secret, SecretKind
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
    rests_on = (frozenset({Phase.CIRCUITS}),)

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
    rests_on = ()

    def claims(self, guess: Any) -> Claims:
        rows = zip(guess.tags.tolist(), guess.counts.tolist(), strict=True)
        return Counter((*tag, *counts) for tag, counts in rows)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return record_forwarded(graph, **network)

    @pytest.mark.parametrize("scheme", [RelayCoded(k_min=1, profile=Profile.HIDDEN), OF_OWN_SILOS])
    def test_silos_that_mix_stop_it(self, scheme: RelayCoded) -> None:
        """By way of silos that are drawn no count tells of neighbours; by way of its own silo each is right."""
        run = recorded_exchange(scheme, meshed(), words(60, 8), "rows", 0, both_ways=True)
        guess = self.guess(run)
        (found,) = run.score(self.attack, guess)
        assert found.value == 1 if scheme is OF_OWN_SILOS else found.interval.low <= found.prior


class OfSilentDevices(AttackConformance):
    """What both attacks keep."""

    rests_on = (frozenset({Phase.SHARES}),)

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


SCHEME = RelayCoded(k_min=1, max_degree=20)
ATTACKS: tuple[Attack[Any, Any], ...] = (named("silent-partners"), named("silent-pairs"))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.card.name)
@pytest.mark.parametrize("scheme", [UNCONFIRMED, SCHEME], ids=["hasty", "scheme"])
def test_relays_see_no_silence_where_silos_wait(attack: Attack[Any, Any], scheme: RelayCoded) -> None:
    """Where silos hand on what there is all guesses are right; under the scheme none is better than the prior."""
    run = silent_run(replace(scheme, max_degree=20, keys=KeyAgreement.X25519), meshed(30), 0, pairs=4)
    assert run is not None
    guess = run.guess(attack)
    assert guess is not None
    (found,) = run.measure(attack, guess)
    assert found.value > 0.9 if scheme is UNCONFIRMED else found.value <= found.prior


def test_nothing_is_counted_where_no_device_drops_out() -> None:
    """A run in which no device falls silent gives no guess."""
    run = silent_run(RelayCoded(k_min=1, max_degree=64), meshed(), 0, pairs=0)
    assert run is not None
    assert all(run.guess(attack) is None for attack in ATTACKS)


@pytest.mark.parametrize("secret", [Secret.DEGREE, Secret.CROSS_EDGE])
def test_the_claim_holds_where_devices_drop_out(secret: SecretKind) -> None:
    """A finding under drop-outs contradicts the claim."""
    claim = RelayCoded().claim_for(Topology.example(NEIGHBOURS))
    assert claim.broken_by(secret, {Role.RELAY: 1}, Circumstance.DROP_OUT) is not None


def test_an_audit_finds_nothing_of_drop_outs() -> None:
    """Its attacks on relays hold their controls and contradict no guarantee."""
    names = ("silent-partners", "silent-pairs")
    graph = two_communities(devices=48, silos=3)
    sparse = replace(graph, graph=replace(graph.graph, edges=meshed(48).edges))
    report = audit(HiFGL(epochs=1), sparse, "relay-coded[k_min=1,x25519]", names, device="cpu")
    found = [record for record in report.records if record.attack in names]
    assert found
    assert all(record.controls_hold for record in found)
    assert not any(record.verdict.is_exposure for record in found)
    assert not report.violations
