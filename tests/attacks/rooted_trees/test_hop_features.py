"""Attacks on Fed2GNN's hop sums."""

from abc import abstractmethod
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, guess_of
from fgl_secure.attacks.edge_claims import ForeignEdges
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.rooted_trees.features import single_neighbours
from fgl_secure.attacks.row_space import Equations, solve, solver
from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.audit_target import HopSetting, drawn_hops, drawn_rows
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims, losing, losing_of_even
from tests.attacks.recorded import Run, both_ways, federated, random_graph
from tests.attacks.structure.structure_runs import scale_free

STAR = [(0, 1), (0, 2), (0, 3)]
PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]


def hiding(k_min: int) -> RelayCoded:
    """The protecting scheme, with room for sums of several hops."""
    return RelayCoded(bound=1000.0, k_min=k_min, profile=Profile.SHOWN)


class HopConformance(AttackConformance):
    """What every attack on hop sums keeps, on runs of the method's own exchange."""

    rests_on = (frozenset({Phase.VALUES}),)

    @abstractmethod
    def small(self) -> FederatedGraph:
        """A graph over three clients for the runs in which messages get lost."""

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        return record_hops(self.small(), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return record_hops(graph, values, **network)

    def test_finds_nothing_where_every_sum_is_refused(self) -> None:
        run = record_hops(self.small(), scheme=hiding(3))
        assert guess_of(self.attack, run.transcript.views(Role.SILO), run.public, run.knowledge) is None


def rows_of(guess: Any | Any) -> Claims:
    return Counter(zip(guess.nodes.tolist(), map(tuple, guess.values.round(6).tolist()), strict=True))


class TestHopFeatureSingle(HopConformance):
    attack: Attack[Any, Any] = named("hop-feature-single")

    def small(self) -> FederatedGraph:
        return random_graph(5, directed=False, pairs=22)

    def claims(self, guess: Any) -> Claims:
        return rows_of(guess)


class TestHopFeatureDifferencing(HopConformance):
    attack: Attack[Any, Any] = named("hop-feature-differencing")

    def small(self) -> FederatedGraph:
        return scale_free(120, 3, 2)

    def claims(self, guess: Any) -> Claims:
        return rows_of(guess)


class TestHopFeatureTopology(HopConformance):
    attack: Attack[Any, Any] = named("hop-feature-topology")

    def small(self) -> FederatedGraph:
        return scale_free(60, 3, 2)

    def claims(self, guess: Any) -> Claims:
        # what later hops add up to differs where a message of an earlier one got lost: nodes, not rows
        return Counter(guess.nodes.tolist())


class TestHopFeatureEdges(HopConformance):
    attack: Attack[ForeignEdges, Any] = named("hop-feature-edges")

    def small(self) -> FederatedGraph:
        return scale_free(400, 3, 1)

    def claims(self, guess: ForeignEdges) -> Claims:
        return Counter(zip(guess.lower.tolist(), guess.upper.tolist(), strict=True))

    def test_rests_on_messages(self) -> None:
        """Losing half of the messages leaves fewer claims, true ones among them; losing all of them leaves none.

        A neighbourhood of which a part got lost may have an explanation that the whole has not.
        """
        everything = self.read(self.run())
        for phases in self.rests_on:
            some, none = self.read(self.run(losing_of_even(phases))), self.read(self.run(losing(phases)))
            assert some & everything
            assert some.total() < everything.total()
            assert not none


def read(attack: Attack[Any, Any], run: Run) -> Any:
    return guess_of(attack, run.transcript.views(Role.SILO), run.public, run.knowledge)


def graph_of(pairs: ArrayLike, clients: ArrayLike) -> FederatedGraph:
    return federated(both_ways(pairs), clients)


def triples(guess: Any) -> list[tuple[int, int]]:
    return sorted(zip(guess.askers[guess.system].tolist(), guess.nodes.tolist(), strict=True))


def test_a_star_gives_its_leaves_to_the_centre_where_sums_are_apart() -> None:
    """In the clear the centre's client reads each leaf that is alone at its client, and leaves read the centre."""
    run = record_hops(graph_of(STAR, [0, 1, 1, 2]))
    guess = read(named("hop-feature-single"), run)
    assert sorted(zip(guess.targets.tolist(), guess.nodes.tolist(), strict=True)) == [(0, 3), (1, 0), (2, 0), (3, 0)]
    assert guess.values == pytest.approx(drawn_rows(4)[guess.nodes])


def test_a_total_hides_the_leaves_of_a_star() -> None:
    """Of a secured total over two clients' leaves nothing is read; with k_min = 1 leaves still read the centre."""
    graph = graph_of(STAR, [0, 1, 1, 2])
    assert read(named("hop-feature-single"), record_hops(graph, scheme=hiding(2))).targets.tolist() == []
    lax = read(named("hop-feature-single"), record_hops(graph, scheme=hiding(1)))
    assert sorted(lax.targets.tolist()) == [1, 2, 3]
    assert lax.values == pytest.approx(drawn_rows(4)[[0, 0, 0]], abs=1e-3)


def test_sums_that_differ_in_one_node_give_it_away() -> None:
    """Node 0 sums over 2 and 3, node 1 over 2, 3 and 4 of the same client: 4 is read, 2 and 3 are not."""
    graph = graph_of([(0, 2), (0, 3), (1, 2), (1, 3), (1, 4), (2, 5), (4, 5)], [0, 0, 1, 1, 1, 1])
    run = record_hops(graph)
    guess = read(named("hop-feature-differencing"), run)
    assert [pair for pair in triples(guess) if pair[0] == 0] == [(0, 4)]
    assert guess.values[guess.nodes == 4] == pytest.approx(drawn_rows(6)[[4]])


def test_the_second_hop_of_a_path_gives_a_node_away_that_nobody_asks_for() -> None:
    """On a path of five nodes the first client reads 2 in the first hop, 3 in the second and 4 in the third."""
    graph = graph_of(PATH, [0, 0, 1, 1, 1])
    run = record_hops(graph, hops=3)
    assert read(named("hop-feature-single"), run).nodes.tolist() == [2, 1]
    assert triples(read(named("hop-feature-differencing"), run)) == []
    assert triples(read(named("hop-feature-topology"), run)) == [(0, 3), (0, 4), (1, 0)]
    shorter = record_hops(graph, hops=2)
    assert triples(read(named("hop-feature-topology"), shorter)) == [(0, 3), (1, 0)]


@pytest.mark.parametrize(
    ("scheme", "neighbours"), [(Plaintext(), 2), (Plaintext(minimum_group=2), None), (hiding(1), None), (hiding(3), 2)]
)
def test_no_claim_is_wrong(scheme: Scheme, neighbours: int | None) -> None:
    """Whoever refuses what, and whoever asks for how many: rows that are said to be determined are right."""
    graph = scale_free(90, 5, 2)
    run = record_hops(graph, scheme=scheme, neighbours=neighbours)
    for attack in (named("hop-feature-single"), named("hop-feature-differencing"), named("hop-feature-topology")):
        guess = read(attack, run)
        if guess is not None:
            assert guess.values == pytest.approx(drawn_rows(90)[guess.nodes], abs=1e-3)
    edges = read(named("hop-feature-edges"), run)
    if edges is not None:
        true = set(zip(*np.sort(graph.edges, axis=0).tolist(), strict=True))
        assert set(zip(edges.lower.tolist(), edges.upper.tolist(), strict=True)) <= true


def test_a_scheme_that_answers_groups_of_one_is_caught() -> None:
    """The broken twin, with k_min = 1, gives away exactly the neighbours that are alone in a total."""
    graph = scale_free(120, 4, 2)
    run = record_hops(graph, scheme=hiding(1))
    total, _ = single_neighbours(run.truth)
    guess = read(named("hop-feature-single"), run)
    assert sorted(guess.targets.tolist()) == np.flatnonzero(total).tolist()
    found = {each.metric: each for each in named("hop-feature-single").score(guess, run.truth)}
    assert found["exact recovery"].value == 1
    assert found["nodes with one neighbour elsewhere"].value == found["nodes with one neighbour elsewhere"].reachable


def system(matrix: ArrayLike, rows: NDArray[np.float64]) -> Equations:
    """The sums of given rows."""
    dense = np.asarray(matrix, dtype=np.float64)
    return Equations(sparse.csr_array(dense), dense @ rows, np.full(len(dense), 1e-12))


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.1, 0.25, 0.5]))
def test_pieces_determine_what_the_whole_determines(seed: int, sums: int, unknowns: int, density: float) -> None:
    """Of any whole-numbered system the same unknowns are read as by one dense decomposition, and rightly."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 4, size=(sums, unknowns)) * (rng.random((sums, unknowns)) < density)
    rows = rng.normal(size=(unknowns, 3))
    found = solve(system(matrix, rows))
    assert found.nodes.tolist() == solver(matrix.astype(np.float64)).unknowns.tolist()
    assert found.values == pytest.approx(rows[found.nodes], abs=1e-6)
    assert (found.error > 0).all()


Floats = NDArray[np.float64]


def record_hops(
    graph: FederatedGraph,
    values: Floats | None = None,
    *,
    hops: int = 3,
    scheme: Scheme | None = None,
    neighbours: int | None = None,
    **network: Any,
) -> Run:
    """Sums of all hops over normal rows; attackers know the whole graph."""
    scheme = scheme or Plaintext()
    rows = drawn_rows(graph.num_devices) if values is None else values
    setting = HopSetting(hops, scheme, neighbours)
    run = drawn_hops(graph, rows, setting, **network)
    return Run(graph, run.public, run.transcript, run.truth(TreeTruth), run.knowledge)
