"""Graphlet degrees: equal to brute force on random graphs, and to formulas on graphs too large for that."""

from math import comb

import networkx as nx
import numpy as np
import pytest

from fgl_secure.graph import Graph, load
from fgl_secure.graph.graphlets import FIRST_OF_FIVE, GRAPHLETS, ORBITS, graphlet_degrees
from tests.graph.orbits_by_brute_force import NAMED, brute_force_orbits
from tests.graph.strategies import graph_from_pairs
from tests.graph.test_datasets import needs_public_data


def _graph(source: nx.Graph) -> Graph:
    """One direction of every edge: the counts don't look at directions."""
    return graph_from_pairs(source.number_of_nodes(), list(source.edges))


@pytest.mark.parametrize(("chance", "seed"), [(0.35, 1), (0.6, 0), (0.85, 1)])
def test_counts_are_those_of_brute_force(chance: float, seed: int) -> None:
    """On random graphs from sparse to dense all 73 counts are those of looking at every set of nodes."""
    random = nx.gnp_random_graph(8, chance, seed=seed)
    np.testing.assert_array_equal(graphlet_degrees(_graph(random)), brute_force_orbits(random))


@pytest.mark.parametrize("model", [model for model, _ in NAMED if model.number_of_nodes() == 5])
def test_each_graph_of_five_nodes_is_found_in_itself(model: nx.Graph) -> None:
    counts = graphlet_degrees(_graph(model))
    np.testing.assert_array_equal(counts, brute_force_orbits(model))
    assert (counts[:, FIRST_OF_FIVE:].sum(axis=1) == 1).all()


def test_directions_and_repetitions_do_not_count() -> None:
    one_way = graph_from_pairs(4, [(0, 1), (2, 1), (2, 3)])
    both = graph_from_pairs(4, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)])
    np.testing.assert_array_equal(graphlet_degrees(one_way), graphlet_degrees(both))


def test_a_large_star_has_binomial_counts() -> None:
    """The centre of a star with 300 leaves is in the middle of C(300, 4) stars of five nodes, a leaf in C(299, 3)."""
    counts = graphlet_degrees(_graph(nx.star_graph(300)))
    assert counts[0].tolist() == [
        {0: 300, 2: comb(300, 2), 7: comb(300, 3), 23: comb(300, 4)}.get(o, 0) for o in range(73)
    ]
    assert counts[1].tolist() == [{0: 1, 1: 299, 6: comb(299, 2), 22: comb(299, 3)}.get(o, 0) for o in range(73)]


def test_a_large_clique_has_binomial_counts() -> None:
    """Each node of a clique of 30 is in C(29, k - 1) cliques of k nodes, and in nothing else."""
    expected = [{0: 29, 3: comb(29, 2), 14: comb(29, 3), 72: comb(29, 4)}.get(orbit, 0) for orbit in range(ORBITS)]
    assert graphlet_degrees(_graph(nx.complete_graph(30))).tolist() == [expected] * 30


def test_the_figure_has_30_graphs_and_73_orbits() -> None:
    """Orbits number the nodes of the 30 graphs up to automorphism, as networkx finds them."""
    assert sorted({orbit for _, orbits in GRAPHLETS for orbit in orbits}) == list(range(ORBITS))
    graphs = [nx.Graph([(int(pair[0]), int(pair[1])) for pair in text.split()]) for text, _ in GRAPHLETS]
    assert len(graphs) == 30
    for graph, (_, orbits) in zip(graphs, GRAPHLETS, strict=True):
        images: dict[int, set[int]] = {node: set() for node in graph}
        for mapping in nx.isomorphism.GraphMatcher(graph, graph).isomorphisms_iter():
            for node, image in mapping.items():
                images[node].add(image)
        assert all(images[node] == {v for v in graph if orbits[v] == orbits[node]} for node in graph)
    for i, graph in enumerate(graphs):
        assert not any(nx.is_isomorphic(graph, other) for other in graphs[:i])


@needs_public_data
def test_sums_over_cora_agree_with_each_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In Cora the two sides of a path, a paw and so on are counted equally often, and triangles as networkx does."""
    graph = load("Cora", cache_dir=tmp_path_factory.mktemp("cache"))
    counts = graphlet_degrees(graph)
    assert counts.min() == 0
    totals = counts.sum(axis=0)
    for _, orbits in GRAPHLETS:
        shares = {totals[orbit] // orbits.count(orbit) for orbit in orbits}
        assert len(shares) == 1
        assert all(totals[orbit] % orbits.count(orbit) == 0 for orbit in orbits)
    triangles = nx.triangles(nx.Graph(graph.edges.T.tolist()))
    assert all(counts[node, 3] == found for node, found in triangles.items())
