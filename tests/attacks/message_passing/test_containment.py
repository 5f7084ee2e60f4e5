from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.base import InformedAttack
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.fingerprint import ContainmentAtDevice, ContainmentAtSilo, contained
from fgl_secure.attacks.message_passing.scope import PublicRows
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp.claim import PUBLISHED_CLAIM
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.recorded import random_graph, record, words


class Containment(AttackConformance):
    """What both observers keep."""

    attack: InformedAttack[ClaimedEdges, Any, Any]

    def claims(self, guess: ClaimedEdges) -> Claims:
        return Counter(zip(guess.sources.tolist(), guess.targets.tolist(), strict=True))

    def test_finds_every_neighbour_of_sparse_rows(self) -> None:
        """Rows of 20 words in 2,000 are found in sums exactly where they are."""
        graph = random_graph(6, directed=True)
        run = self.exchange(graph, words(graph.num_devices, 2000, share=0.01))
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        assert self.read(run) == Counter((first + s, first + t) for s, t in messages_of(graph))

    def test_dense_rows_hide_each_other(self) -> None:
        """In sums of rows with half of all words, others fit as well, and precision says so."""
        graph = random_graph(6, directed=False, pairs=80)
        run = self.exchange(graph, words(graph.num_devices, 16, share=0.5))
        guess = self.attack.infer_with(
            run.transcript.views(self.attack.card.observer), run.public, run.knows(PublicRows)
        )
        assert guess is not None
        precision, recall, _ = self.attack.score(guess, run.truth)
        assert recall.value == 1
        assert precision.value < 0.8

    def test_needs_the_dictionary(self) -> None:
        """Without a list of rows there is no guess, and with another list hardly any."""
        run = self.exchange(random_graph(6, directed=False), words(24, 200, share=0.1))
        view = run.transcript.views(self.attack.card.observer)
        assert self.attack.infer(view, run.public) is None
        other = self.attack.infer_with(view, run.public, PublicRows(words(24, 200, seed=9, share=0.1)))
        assert other is not None
        assert len(other.sources) < len(self.read(run)) / 5


class TestContainmentAtDevice(Containment):
    attack = ContainmentAtDevice()
    rests_on = (frozenset({Phase.DECODED}),)

    @pytest.mark.parametrize("scheme", [Plaintext(), Plaintext(Path.SILO), RelayCoded(k_min=1, profile=Profile.SHOWN)])
    def test_no_exact_sum_is_safe(self, scheme: Scheme) -> None:
        """Sums in the clear and over relays tell the same."""
        graph = random_graph(6, directed=False)
        values = words(graph.num_devices, 2000, share=0.01)
        assert self.read(record(graph, scheme, values)) == self.read(self.exchange(graph, values))


class TestContainmentAtSilo(Containment):
    attack = ContainmentAtSilo()
    rests_on = (frozenset({Phase.AGGREGATE}),)

    def test_contradicts_what_silos_are_promised_not_to_see(self) -> None:
        """The paper promises that cross-silo edges are known to their two devices only."""
        card = self.attack.card
        assert PUBLISHED_CLAIM.broken_by(card.secret, card.coalition, card.circumstance) is not None

    def test_scores_pairs_across_silos_alone(self) -> None:
        """Claims within a silo count neither for nor against."""
        graph = random_graph(6, directed=False)
        run = self.exchange(graph, words(graph.num_devices, 2000, share=0.01))
        devices = run.transcript.parties.ids(Role.DEVICE)
        inside = devices[np.flatnonzero(graph.silo_of == 0)]
        pairs = ClaimedEdges(inside[:-1], inside[1:])
        found = self.attack.score(pairs, run.truth)
        assert [each.metric for each in found] == ["recall", "advantage"]
        assert f"there are {int(graph.crosses_silos.sum()):,} cross-silo messages" in found[0].finding
        assert found[0].n <= graph.num_devices / 2  # an edge takes two


@given(st.integers(0, 10_000))
def test_contained_is_a_subset_test(seed: int) -> None:
    """A row is found in a sum where its support is a non-empty subset of the sum's."""
    rng = np.random.default_rng(seed)
    sums, rows = (rng.random((6, 8)) < share for share in (0.6, 0.2))
    slow = {(i, j) for i in range(6) for j in range(6) if rows[j].any() and (sums[i] >= rows[j]).all()}
    where, which = contained(sums.astype(np.int32), rows.astype(np.float64))
    assert set(zip(where.tolist(), which.tolist(), strict=True)) == slow


def test_edges_claimed_twice_count_once() -> None:
    """The score is the same whoever repeats a claim, and wrong claims lower precision and advantage alone."""
    graph = random_graph(6, directed=False)
    run = record(graph, Plaintext(), words(24, 50))
    devices, attack = run.transcript.parties.ids(Role.DEVICE), ContainmentAtDevice()
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
