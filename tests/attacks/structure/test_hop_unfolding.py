from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.structure.hops import HopShares, HopUnfolding
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, Role
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.hop_runs import EdgeConformance, Network, record_exchange, scale_free


class TestHopUnfolding(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = HopUnfolding()
    rests_on = (frozenset({Phase.HOP_ENTRIES}),)

    def recorded(self, graph: FederatedGraph, network: Network) -> Run:
        return record_exchange(graph, 3, network)

    def test_reaches_beyond_the_neighbours(self) -> None:
        """On a path a client reads its neighbour's row, by the third power that one's neighbour's, and no farther."""
        graph = federated(both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]), [0, 1, 2, 1, 2, 1])
        first = Counter({(1, 2): 1, (2, 3): 1})
        assert _of_client_0(HopUnfolding(), record_exchange(graph, 3)) == first
        assert _of_client_0(HopUnfolding(), record_exchange(graph, 2)) == Counter({(1, 2): 1})
        assert _of_client_0(HopShares(), record_exchange(graph, 3)) == Counter({(1, 2): 1})

    @pytest.mark.parametrize("seed", range(3))
    def test_claims_are_certain_and_more_than_those_of_one_power(self, seed: int) -> None:
        """Every claim is right, and all claims from the second power alone are among them."""
        run = record_exchange(scale_free(150, 4, 2, seed), 3)
        every, fewer = (_read(attack, run) for attack in (HopUnfolding(), HopShares()))
        assert fewer < every
        edges = {tuple(pair) for pair in run.graph.edges.T.tolist()}
        assert set(every) <= edges


def _read(attack: Attack[ForeignEdges, Any], run: Run, client: int | None = None) -> Counter[tuple[int, int]]:
    guess = attack.infer(run.transcript.views(Role.SILO), run.public)
    assert guess is not None
    rows = zip(guess.clients.tolist(), guess.lower.tolist(), guess.upper.tolist(), strict=True)
    return Counter((lower, upper) for each, lower, upper in rows if client in (None, each))


def _of_client_0(attack: Attack[ForeignEdges, Any], run: Run) -> Counter[tuple[int, int]]:
    return _read(attack, run, 0)
