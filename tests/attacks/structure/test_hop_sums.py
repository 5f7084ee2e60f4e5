from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.row_space import SolvedRows
from fgl_secure.attacks.structure.hop_sums import leaking_although_allowed
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import adjacency_powers, largest_entries
from fgl_secure.runtime import Party, Phase, PublicParameters, Role, Step
from tests.attacks.conformance import Claims, guess_on
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.structure_runs import (
    EdgeConformance,
    HopConformance,
    record_hopwise,
    record_queries,
    scale_free,
)

Ids = NDArray[np.int64]

HOPS = 5


def _start(nodes: int, columns: int = 4) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(nodes, columns))


class TestHopSumRows(HopConformance):
    attack: Attack[Any, Any] = named("hop-sum-rows")
    rests_on = (frozenset({Phase.VALUES}),)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_hopwise(graph, _start(graph.num_devices), HOPS, **network)

    def claims(self, guess: Any) -> Claims:
        return Counter(
            (node, tuple(row)) for node, row in zip(guess.nodes.tolist(), guess.values.round(6).tolist(), strict=True)
        )

    def test_reads_a_neighbour_that_is_alone_in_a_sum(self) -> None:
        """Of a star across clients the centre's client reads no leaf, and every leaf's client reads the centre."""
        graph = federated(both_ways([(0, 1), (0, 2), (0, 3)]), [0, 1, 1, 2])
        guess = self.attack.infer(self.recorded(graph).transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        assert (guess.askers[guess.system].tolist(), guess.nodes.tolist()) == ([1, 2], [0, 0])
        assert guess.values == pytest.approx(_start(4)[[0, 0]])


class TestHopSumEdges(EdgeConformance):
    attack: Attack[ForeignEdges, Any] = named("hop-sum-edges")
    rests_on = (frozenset({Phase.VALUES}),)

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        return record_hopwise(graph, _start(graph.num_devices), HOPS, **network)

    def small(self) -> FederatedGraph:
        return scale_free(400, 3, 1)

    def test_reads_an_edge_between_two_known_nodes(self) -> None:
        graph = federated(both_ways([(0, 1), (1, 2), (2, 3), (3, 0)]), [0, 0, 1, 2])
        assert self.read(self.recorded(graph)) == Counter({(2, 3): 1})

    @pytest.mark.parametrize("bits", [12])
    def test_fixed_point_does_not_help(self, bits: int) -> None:
        """Sums of numbers with 16 or 12 bits behind the point give the same edges as real numbers."""
        graph = scale_free(120, 2, 1)
        exact = record_hopwise(graph, _start(120), HOPS)
        coded = record_hopwise(graph, _start(120), HOPS, bits=bits)
        found = []
        for run, public in ((exact, PublicParameters()), (coded, PublicParameters(fraction_bits=bits))):
            guess = self.attack.infer(run.transcript.views(Role.SILO), public)
            assert guess is not None
            found.append(self.claims(guess))
        assert found[0]
        assert found[0] == found[1]


@pytest.mark.parametrize("attack", [named("hop-sum-rows"), named("hop-sum-edges")])
def test_sums_over_large_groups_tell_nothing(attack: Attack[Any, Any] | Attack[ForeignEdges, Any]) -> None:
    """Where every node has the same many foreign neighbours, no row is read and no edge claimed."""
    halves = [(v, u) for v in range(8) for u in range(8, 16)]
    graph = federated(both_ways(halves), np.arange(16) // 8)
    run = record_hopwise(graph, _start(16), HOPS)
    guess = guess_on(attack, run)
    assert not len(guess.nodes if isinstance(guess, SolvedRows) else guess.lower)


def test_refused_sums_are_no_equations() -> None:
    """Sums that are refused are noted as 0, and nothing is read from them; the others are read as before."""
    graph = scale_free(120, 2, 1)

    def refuses(phase: Phase, step: Step, senders: Ids, receivers: Ids) -> NDArray[np.bool_]:  # noqa: ARG001
        return np.asarray(receivers % 2 == 1)

    every = record_hopwise(graph, _start(120), HOPS)
    some = record_hopwise(graph, _start(120), HOPS, loss=refuses)
    found = [named("hop-sum-rows").infer(run.transcript.views(Role.SILO), run.public) for run in (every, some)]
    assert found[0] is not None
    assert found[1] is not None
    assert 0 < len(found[1].nodes) < len(found[0].nodes)
    assert found[1].values == pytest.approx(_start(120)[found[1].nodes])


KEPT = 8


class TestQueryRowSpace(HopConformance):
    attack: Attack[Any, Any] = named("query-rowspace")
    rests_on = (frozenset({Phase.QUERY_ANSWERS}), frozenset({Phase.QUERY_WEIGHTS}))

    def recorded(self, graph: FederatedGraph, **network: Any) -> Run:
        rows = largest_entries(adjacency_powers(graph.graph, 3)[-1], KEPT * graph.num_devices)
        asking = np.arange(0, graph.num_devices, 2)
        return record_queries(graph, rows, asking, [_embeddings(graph.num_devices, 3)], **network)

    def small(self) -> FederatedGraph:
        return scale_free(60, 3)

    def claims(self, guess: Any) -> Claims:
        return Counter(guess.nodes.tolist())

    def test_reads_a_node_that_is_asked_about_alone(self) -> None:
        """Of three nodes, one alone in a query and two only together, the one is read, with its label."""
        run = _asked([[0.5, 0.0, 0.0], [0.0, 0.2, 0.3]])
        guess = self.guess(run)
        assert guess.nodes.tolist() == [2]
        assert guess.values[0] == pytest.approx(_embeddings(5, 3)[2], rel=1e-5)
        assert (guess.sums.tolist(), guess.touched.tolist()) == ([2], [3])
        values = {found.metric: found.value for found in self.attack.score(guess, run.truth)}
        assert values["exact recovery"] == values["systems that give a node away"] == 1
        assert values["nodes exposed"] == pytest.approx(1 / 3)

    def test_reads_by_difference(self) -> None:
        """Two sums that differ in one node give that node away although no query is about one node."""
        run = _asked([[0.2, 0.3, 0.5], [0.2, 0.3, 0.0]])
        guess = self.guess(run)
        assert guess.nodes.tolist() == [4]

    def test_clients_that_pool_their_queries_read_more(self) -> None:
        run = self.recorded(scale_free())
        shares = []
        for others in ([0], [0, 1, 2]):
            guess = self.attack.infer(run.transcript.view([Party(Role.SILO, i) for i in others]), run.public)
            assert guess is not None
            at = guess.targets == 3
            shares.append(float((guess.exposed[at] / guess.touched[at])[0]))
        assert shares[1] > 2 * shares[0] > 0


def test_pairs_that_obey_the_count_may_leak() -> None:
    columns = ([0, 0, 1], [1, 2, 0], [3, 9, 4], [5, 8, 4], [1, 8, 0])
    askers, targets, sums, touched, exposed = (np.array(column) for column in columns)
    nothing = np.empty(0, dtype=np.int64)
    rows = SolvedRows(Step(0), askers, targets, sums, touched, exposed, nothing, nothing, np.empty((0, 2)))
    assert leaking_although_allowed(rows) == (1, 2)


def _embeddings(nodes: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(nodes, columns)).astype(np.float32)


def _asked(queries: list[list[float]]) -> Run:
    """Client 0 with nodes 0 and 1 asks client 1 with nodes 2 to 4."""
    graph: FederatedGraph = federated(np.empty((2, 0), dtype=np.int64), [0, 0, 1, 1, 1])
    weights = np.zeros((5, 5))
    weights[: len(queries), 2:] = queries
    return record_queries(graph, sparse.csr_array(weights), np.arange(len(queries)), [_embeddings(5, 3)])
