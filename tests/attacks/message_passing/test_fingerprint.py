from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.fingerprint import Weights
from fgl_secure.attacks.message_passing.knowledge import PublicRows
from fgl_secure.attacks.recovery import ClaimedTerms
from fgl_secure.attacks.registry import attack as named
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import messages_of
from tests.attacks.recorded import Run, both_ways, federated, random_graph, record, words

EXACT = Weights(2.0**16, 50, 0)


def weight(degree: int) -> int:
    """round(2^16 / sqrt(degree))."""
    return int(np.floor(2**16 / np.sqrt(degree) + 0.5))


def comb() -> FederatedGraph:
    """Device 0 hears from 1, 2 and 3, which have 1, 2 and 4 neighbours."""
    return federated(both_ways([(0, 1), (0, 2), (0, 3), (2, 4), (3, 5), (3, 6), (3, 7)]), np.arange(8) % 3)


def weighted(graph: FederatedGraph, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows over the root of their device's degree."""
    return rows / np.sqrt(np.maximum(graph.in_degree, 1))[:, None]


class Fingerprint(AttackConformance):
    """What both observers keep."""

    def claims(self, guess: ClaimedTerms) -> Claims:
        return Counter(
            (int(target), tuple(row.tolist())) for target, row in zip(guess.targets, guess.values, strict=True)
        )

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return record(graph, SecretMessagePassing(), weighted(graph, values), **network)

    @pytest.mark.parametrize("fraction_bits", [12, 20])
    def test_takes_a_sum_of_three_apart(self, fraction_bits: int) -> None:
        """Three neighbours of different degrees with words of their own are read out of one sum, bit for bit."""
        graph = comb()
        run = record(graph, SecretMessagePassing(fraction_bits=fraction_bits), weighted(graph, words(8, 40)))
        read = self.read(run)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        secret = next(iter(run.truth.embeddings.values()))
        for source in (1, 2, 3):
            assert read[(first, tuple(secret[source].tolist()))] == 1

    def test_equal_degrees_cannot_be_told_apart(self) -> None:
        """Neighbours of one degree have one weight, and their sum is left alone."""
        ring = np.arange(8)
        graph = federated(both_ways(np.stack([ring, (ring + 1) % 8], axis=1)), ring % 2)
        assert not self.read(self.exchange(graph, words(8, 40)))


class TestFingerprintAtDevice(Fingerprint):
    attack: Attack[ClaimedTerms, Any] = named("fingerprint-device")
    rests_on = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}))

    @pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(T=2, R=4, k_min=1, profile=Profile.SHOWN)])
    def test_no_exact_sum_is_safe(self, scheme: Scheme) -> None:
        """The same sums computed in the clear or over relays are taken apart just as well."""
        graph = comb()
        values = weighted(graph, words(8, 40))
        run = record(graph, scheme, values)
        guess = self.guess(run)
        read, exact = self.attack.score(guess, run.truth)
        assert exact.value == 1
        assert read.value == 10 / 14  # all but those to device 3, three of whose neighbours have one degree


class TestFingerprintAtSilo(Fingerprint):
    attack: Attack[ClaimedTerms, Any] = named("fingerprint-silo")
    rests_on = (frozenset({Phase.AGGREGATE}),)


class Containment(AttackConformance):
    """What both observers keep."""

    attack: Any

    def claims(self, guess: ClaimedEdges) -> Claims:
        return Counter(zip(guess.sources.tolist(), guess.targets.tolist(), strict=True))

    def test_finds_every_neighbour_of_sparse_rows(self) -> None:
        """Rows of 20 words in 2,000 are found in sums exactly where they are."""
        graph = random_graph(6, directed=True)
        run = self.exchange(graph, words(graph.num_devices, 2000, share=0.01))
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        assert self.read(run) == Counter((first + s, first + t) for s, t in messages_of(graph))

    def test_needs_the_dictionary(self) -> None:
        """Without a list of rows there is no guess, and with another list hardly any."""
        run = self.exchange(random_graph(6, directed=False), words(24, 200, share=0.1))
        view = run.transcript.views(self.attack.card.observer)
        assert self.attack.infer(view, run.public) is None
        other = self.attack.infer_with(view, run.public, PublicRows(words(24, 200, seed=9, share=0.1)))
        assert other is not None
        assert len(other.sources) < len(self.read(run)) / 5


class TestContainmentAtDevice(Containment):
    attack = named("containment-device")
    rests_on = (frozenset({Phase.DECODED}),)

    @pytest.mark.parametrize("scheme", [Plaintext(Path.SILO), RelayCoded(k_min=1, profile=Profile.SHOWN)])
    def test_no_exact_sum_is_safe(self, scheme: Scheme) -> None:
        graph = random_graph(6, directed=False)
        values = words(graph.num_devices, 2000, share=0.01)
        assert self.read(record(graph, scheme, values)) == self.read(self.exchange(graph, values))


class TestContainmentAtSilo(Containment):
    attack = named("containment-silo")
    rests_on = (frozenset({Phase.AGGREGATE}),)


def test_edges_claimed_twice_count_once() -> None:
    """The score is the same whoever repeats a claim, and wrong claims lower precision and advantage alone."""
    graph = random_graph(6, directed=False)
    run = record(graph, Plaintext(), words(24, 50))
    devices, attack = run.transcript.parties.ids(Role.DEVICE), named("containment-device")
    edges = ClaimedEdges(devices[graph.edges[0]], devices[graph.edges[1]])
    twice = ClaimedEdges(np.tile(edges.sources, 2), np.tile(edges.targets, 2))
    assert attack.score(edges, run.truth) == attack.score(twice, run.truth)
    absent = next((s, t) for s in range(24) for t in range(24) if s != t and (s, t) not in messages_of(graph))
    wrong = replace(edges, sources=np.append(edges.sources, devices[absent[0]]),
                    targets=np.append(edges.targets, devices[absent[1]]))  # fmt: skip
    m = graph.edges.shape[1]
    precision, recall, gain = attack.score(wrong, run.truth)
    assert precision.value == pytest.approx(m / (m + 1))
    assert recall.value == 1
    assert gain.value == pytest.approx(1 - 1 / (24 * 23 - m))
