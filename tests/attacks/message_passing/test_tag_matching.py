from __future__ import annotations

from collections import Counter
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
from fgl_secure.attacks.message_passing.relay_patterns import TagMatching, certain_edges, claimed_edges, refine
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.scenarios import recorded_exchange
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.message_passing.tagged import record_tagged
from tests.attacks.recorded import Run, both_ways, federated, random_graph, words

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
    attack: Attack[ClaimedEdges, Any] = TagMatching()
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def claims(self, guess: ClaimedEdges) -> Claims:
        return Counter(zip(guess.sources.tolist(), guess.targets.tolist(), strict=True))

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # patterns do not depend on it
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record_tagged(graph, loss=loss, recording=recording)

    @pytest.mark.parametrize("k_min", [1, 3])
    def test_fresh_tags_do_not_hide_edges(self, k_min: int) -> None:
        """Both passes of the relay scheme name at least nine in ten edges of answered sums, and no other."""
        graph = meshed()
        rows = words(60, 8)
        run = recorded_exchange(RelayCoded(k_min=k_min, profile=Profile.SHOWN), graph, rows, "rows", 0, both_ways=True)
        guess = self.attack.infer(run.transcript.views(Role.RELAY), run.public)
        assert guess is not None
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

    @given(SEEDS)
    def test_claims_are_certain(self, seed: int) -> None:
        """On undirected graphs every claimed edge is one, whatever the symmetries."""
        graph = random_graph(seed, directed=False, devices=12, pairs=10)
        senders, receivers = claimed_edges(incidence(graph, seed))
        assert set(zip(senders.tolist(), receivers.tolist(), strict=True)) <= set(messages_of(graph))

    @given(SEEDS, st.integers(2, 4))
    def test_claims_are_certain_where_small_sums_are_refused(self, seed: int, k_min: int) -> None:
        """With the backward pass in sight claims stay certain: only who has a tag answers, and to whom can be told."""
        graph = random_graph(seed, directed=False, devices=20, pairs=40)
        tagged = graph.in_degree >= k_min
        forward = incidence(graph, seed, k_min)
        hears = np.bincount(graph.edges[0], weights=tagged[graph.edges[1]], minlength=20) >= k_min
        answering = tagged & (np.bincount(graph.edges[0], weights=hears[graph.edges[1]], minlength=20) > 0)
        senders, receivers = claimed_edges(forward, answering)
        assert set(zip(senders.tolist(), receivers.tolist(), strict=True)) <= set(messages_of(graph))

    def test_a_ring_keeps_its_secret(self) -> None:
        """Where all devices look alike nothing is claimed."""
        ring = np.arange(8)
        graph = federated(both_ways(np.stack([ring, (ring + 1) % 8], axis=1)), ring % 2)
        assert not self.read(record_tagged(graph))

    def test_twins_are_claimed_together(self) -> None:
        """The leaves of a star cannot be told apart, and need not be: all of them are the centre's neighbours."""
        graph = federated(both_ways([(0, 1), (0, 2), (0, 3)]), np.arange(4) % 2)
        senders, receivers = claimed_edges(incidence(graph, 0))
        assert set(zip(senders.tolist(), receivers.tolist(), strict=True)) == set(messages_of(graph))


@given(SEEDS)
def test_a_device_and_its_tag_have_one_colour(seed: int) -> None:
    """Refinement gives every device the colour of its own tag, so matching by colour is never wrong."""
    graph = random_graph(seed, directed=False, devices=12, pairs=14)
    order = np.random.default_rng(seed).permutation(12)
    matrix = sparse.csr_array((np.ones(graph.edges.shape[1], dtype=np.int64), tuple(graph.edges)), shape=(12, 12))
    nothing = np.zeros(12, dtype=np.int64)
    colours = refine(matrix[:, order], nothing, nothing)
    assert np.array_equal(colours.devices[order], colours.tags)


@given(SEEDS)
def test_knowing_silos_only_helps(seed: int) -> None:
    """With the silo of every tag and device known, no edge is lost and all claims stay right."""
    graph = random_graph(seed, directed=False, devices=12, pairs=14)
    order = np.random.default_rng(seed).permutation(12)
    matrix = sparse.csr_array((np.ones(graph.edges.shape[1], dtype=np.int64), tuple(graph.edges)), shape=(12, 12))
    tags, nothing = matrix[:, order], np.zeros(12, dtype=np.int64)
    few, many = (
        set(zip(*(ends.tolist() for ends in certain_edges(tags, refine(tags, *known))), strict=True))
        for known in ((nothing, nothing), (graph.silo_of, graph.silo_of[order]))
    )
    assert few <= many <= set(messages_of(graph))
