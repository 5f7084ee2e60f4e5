from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.structure.hops import HopShares, neighbour_lists
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import normalised_adjacency
from fgl_secure.runtime import Phase, Role, Step
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.hop_runs import EdgeConformance, Network, record_exchange, record_rows, scale_free


class TestHopShares(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = HopShares()
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, network: Network) -> Run:
        return record_exchange(graph, network=network)


@pytest.mark.parametrize("seed", range(5))
def test_claims_are_certain(seed: int) -> None:
    """Without pruning every claim is right: a row that is determined is the row itself."""
    run = record_exchange(scale_free(120, 3, 3, seed))
    guess = HopShares().infer(run.transcript.views(Role.SILO), run.public)
    assert guess is not None
    edges = {tuple(pair) for pair in run.graph.edges.T.tolist()}
    assert len(guess.lower)
    assert all(pair in edges for pair in zip(guess.lower.tolist(), guess.upper.tolist(), strict=True))


def test_one_neighbour_gives_its_whole_list() -> None:
    """A client whose node has one neighbour elsewhere reads all neighbours of that one and nothing farther."""
    graph = federated(both_ways([(0, 1), (1, 2), (1, 3), (3, 4)]), [0, 1, 1, 2, 2])
    run = record_exchange(graph)
    guess = HopShares().infer(run.transcript.views(Role.SILO), run.public)
    assert guess is not None
    mine = guess.clients == 0
    assert list(zip(guess.lower[mine].tolist(), guess.upper[mine].tolist(), strict=True)) == [(1, 2), (1, 3)]


def test_equations_of_full_rank_hide_nothing() -> None:
    """Two foreign neighbours that are never alone are read as soon as three sums of pairs determine them."""
    pairs = [(0, 3), (0, 4), (1, 4), (1, 5), (2, 3), (2, 5), (3, 6), (4, 7), (5, 8)]
    graph = federated(both_ways(pairs), [0, 0, 0, 1, 1, 1, 2, 2, 2])
    for sums, read in ((3, 3), (2, 0)):
        kept = [pair for pair in pairs if pair[0] < sums or pair[0] > 2]
        run = record_exchange(federated(both_ways(kept), graph.silo_of))
        guess = HopShares().infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        assert int((guess.clients == 0).sum()) == read


def test_needs_single_shares() -> None:
    """Rows of the second power alone, as a client holds them under encryption, give no guess."""
    graph = scale_free(60, 3)
    run = record_rows(graph, "hop rows", Step(0, layer=2), normalised_adjacency(graph.graph))
    assert HopShares().infer(run.transcript.views(Role.SILO), run.public) is None


def test_lists_hold_reciprocals_of_the_degree_alone() -> None:
    """Entries of a row that are not the reciprocal of one degree are left out, and so are rows without one."""
    rows = np.array([[0.25, 0.25, 0.0, 0.2], [0.3, 0.3, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1e-9, 0.0, 0.0]])
    ends, others = neighbour_lists(rows)
    assert list(zip(ends.tolist(), others.tolist(), strict=True)) == [(0, 0), (0, 1), (3, 0)]
    assert len(neighbour_lists(np.empty((0, 4)))[0]) == 0
