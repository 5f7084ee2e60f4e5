from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.structure.hops import HopFingerprint, one_explanation
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import adjacency_powers
from fgl_secure.runtime import Phase, Role, Step
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.hop_runs import EdgeConformance, Network, record_exchange, record_rows, scale_free


class TestHopFingerprint(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = HopFingerprint()
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, network: Network) -> Run:
        return record_exchange(graph, network=network)

    def test_needs_the_rows_alone(self) -> None:
        """Summed rows, as encryption leaves them, tell as much as a run in which all shares are seen."""
        graph = scale_free(120, 3)
        run = record_rows(graph, "hop rows", Step(0, layer=2), _squared(graph))
        assert self.read(run) == self.read(record_exchange(graph))

    def test_errors_of_encrypted_sums_do_not_help(self) -> None:
        """Errors up to a tenth of the tolerance in every entry change no claim on a sparse graph."""
        graph = scale_free(150, 3, 1)
        squared = _squared(graph)
        noisy = squared.copy()
        noisy.data += np.random.default_rng(0).uniform(-1e-6, 1e-6, len(noisy.data))
        found = [self.read(record_rows(graph, "hop rows", Step(0, layer=2), rows)) for rows in (squared, noisy)]
        assert found[0]
        assert found[0] == found[1]

    def test_tells_neighbours_of_unlike_degree_apart(self) -> None:
        """Of two neighbours with 2 and 3 edges the entries at their other neighbours are 1/3 and 1/4, and say whose."""
        graph = federated(both_ways([(0, 1), (0, 2), (1, 3), (2, 4), (2, 5)]), [0, 1, 1, 2, 2, 2])
        assert self.read(_alone(graph)) == Counter({(1, 3): 1, (2, 4): 1, (2, 5): 1})

    def test_neighbours_of_equal_degree_hide_each_other(self) -> None:
        """Where both have two edges no entry says which of the two has which neighbour, and nothing is claimed."""
        graph = federated(both_ways([(0, 1), (0, 2), (1, 3), (2, 4)]), [0, 1, 1, 2, 2])
        assert self.read(_alone(graph)) == Counter()


def _squared(graph: FederatedGraph) -> sparse.csr_array:
    return adjacency_powers(graph.graph, 2)[1]


def _alone(graph: FederatedGraph) -> Run:
    """A run in which client 0 alone has rows."""
    mine = sparse.diags_array((graph.silo_of == 0).astype(np.float64))
    return record_rows(graph, "hop rows", Step(0, layer=2), sparse.csr_array(mine @ _squared(graph)))


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), st.integers(0, 10_000))
def test_one_explanation_matches_all_subsets(degrees: list[int], seed: int) -> None:
    """A value is explained where exactly one subset of the reciprocals has its sum, and by that subset."""
    terms = 1 / np.array(degrees)
    rng = np.random.default_rng(seed)
    subsets = (np.arange(2 ** len(terms))[:, None] >> np.arange(len(terms))) & 1
    values = np.concatenate([(subsets @ terms)[rng.integers(len(subsets), size=4)], rng.random(3)])
    which, inside = one_explanation(terms, values, 1e-6)
    for position, value in enumerate(values):
        fitting = subsets[np.abs(subsets @ terms - value) <= 1e-6]
        assert (position in which) is (len(fitting) == 1)
        if len(fitting) == 1:
            assert (inside[:, which.tolist().index(position)] == fitting[0]).all()


@pytest.mark.parametrize("most_terms", [1, 12])
def test_nodes_with_many_foreign_neighbours_are_left_alone(most_terms: int) -> None:
    """A limit of one foreign neighbour a node leaves the claims from nodes that have one."""
    graph = scale_free(120, 3)
    view = record_exchange(graph).transcript.views(Role.SILO)
    run = record_exchange(graph)
    guess = HopFingerprint(most_terms=most_terms).infer(view, run.public)
    every = HopFingerprint().infer(view, run.public)
    assert guess is not None
    assert every is not None
    assert len(guess.lower) > 0
    assert (len(guess.lower) < len(every.lower)) is (most_terms == 1)
