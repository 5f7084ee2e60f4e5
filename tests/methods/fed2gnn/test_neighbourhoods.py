"""A client's training sets hold what is around its own nodes, and are made of what it knows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.decoder import Neighbourhoods, own_neighbourhoods, walk_sums
from fgl_secure.methods.fed2gnn.hop_sums import hop_sums
from fgl_secure.protocols.plaintext import Plaintext
from tests.methods.fed2gnn.oracles import graphs, neighbours_of, random_graph, walks
from tests.methods.fed2gnn.small import channel_of


def mu_of(graph: FederatedGraph, hops: int) -> np.ndarray:
    values = graph.features.astype(np.float64)
    return hop_sums(graph, values, hops, Plaintext(), channel_of(graph)).mu


def sets_of(graph: FederatedGraph, most: int, client: int = 0, poison: float = 0.0) -> Neighbourhoods:
    foreign = graph.silo_of != client
    values, mu = graph.features.astype(np.float64), mu_of(graph, 2)
    degree = graph.in_degree.astype(np.float64)
    values[foreign] += poison
    mu[:, foreign] += poison
    degree[foreign] += poison
    return own_neighbourhoods(graph, client, values, mu, degree, most, seed=0)


@settings(max_examples=15, deadline=None)
@given(graphs())
def test_sums_behind_an_edge_are_those_over_walks_that_leave_the_father_behind(graph: FederatedGraph) -> None:
    """r^k(i, m) is the sum over the ends of the walks from m, of k steps, whose first is not to i."""
    source, target = graph.edges[:, :40]
    hops = 2
    found = walk_sums(graph.edges[::-1], graph.features.astype(np.float64), mu_of(graph, hops))
    heard = neighbours_of(graph.graph)
    for edge, (child, father) in enumerate(zip(source, target, strict=True)):
        assert np.array_equal(found[edge, 0], graph.features[child].astype(np.float64))
        for hop in range(1, hops + 1):
            onward = [node for node in heard[child] if node != father]
            ends = list(walks(heard, hop, int(child), onward))
            truth = graph.features[ends].sum(axis=0, dtype=np.float64) if ends else np.zeros(3)
            np.testing.assert_allclose(found[edge, hop], truth, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_sets_are_the_clients_own_neighbours_and_no_more_than_asked_for(most: int, seed: int) -> None:
    """Each own node with own neighbours has one set, of as many elements as it has such neighbours, up to d."""
    graph = random_graph(40, 60, 3, seed)
    found = sets_of(graph, most)
    inside = graph.edges[1, (graph.silo_of[graph.edges] == 0).all(axis=0)]
    counts = np.bincount(inside, minlength=graph.num_devices)
    assert sorted(found.size) == sorted(np.minimum(counts[counts > 0], most))
    assert len(found.elements) == found.size.sum() == len(found.others)


def test_a_client_needs_nothing_of_other_clients_nodes() -> None:
    """Changing what is known of foreign nodes changes no set: only sums that came to own nodes are used."""
    graph = random_graph(40, 80, 3, 5)
    plain, poisoned = sets_of(graph, 10), sets_of(graph, 10, poison=1e6)
    assert np.array_equal(plain.elements, poisoned.elements)
    assert np.array_equal(plain.others, poisoned.others)
    assert len(plain.elements)


def test_a_client_without_own_edges_has_no_sets() -> None:
    """Nothing to train on is no error."""
    graph = random_graph(3, 0, 3, 0)
    found = sets_of(graph, 10)
    assert len(found.first) == 0
    assert found.sums().shape == (0, 3, 3)
    assert found.deviations().shape == (0, 3, 3)
