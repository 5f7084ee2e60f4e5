"""Motif graphs: each is its base, its motif and one edge, clients differ as they should, and the seed repeats all."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.graph.graph_sets.motif import (
    BASES,
    MOTIFS,
    SIZES,
    SMALLEST_BASE,
    Edges,
    MotifEnvironment,
    motif_basis,
    motif_mini,
    motif_set,
    motif_size,
)

REFERENCES = {
    "wheel": nx.wheel_graph,
    "star": lambda n: nx.star_graph(n - 1),
    "path": nx.path_graph,
}


def _graph(edges: Edges) -> nx.Graph:
    graph = nx.Graph()
    graph.add_edges_from(edges.T.tolist())
    return graph


def _graph_of_set(sets: GraphSet, number: int) -> nx.Graph:
    return _graph(sets.batch([number]).edges)


@pytest.mark.parametrize("name", list(BASES))
@given(st.integers(SMALLEST_BASE, 40))
def test_bases_have_their_nodes_once_and_hang_together(name: str, nodes: int) -> None:
    """A base of n nodes is connected, simple, and has nodes 0..n-1."""
    edges = BASES[name](nodes)
    graph = _graph(edges)
    assert sorted(graph) == list(range(nodes))
    assert nx.is_connected(graph)
    assert graph.number_of_edges() == edges.shape[1]
    if name in REFERENCES:
        assert nx.is_isomorphic(graph, REFERENCES[name](nodes))


@given(st.integers(3, 20))
def test_ladders_and_trees_are_those_of_networkx(half: int) -> None:
    """A ladder of 2k nodes has k rungs, and a tree of 2^k - 1 nodes is balanced."""
    assert nx.is_isomorphic(_graph(BASES["ladder"](2 * half)), nx.ladder_graph(half))
    height = half % 3 + 2
    assert nx.is_isomorphic(_graph(BASES["tree"](2 ** (height + 1) - 1)), nx.balanced_tree(2, height))


def test_motifs_are_told_apart_by_structure_alone() -> None:
    """No two motifs are the same graph, none is inside of another, and all have six edges."""
    graphs = {name: _graph(edges) for name, edges in MOTIFS.items()}
    assert {graph.number_of_edges() for graph in graphs.values()} == {6}
    assert nx.is_isomorphic(graphs["house"], nx.house_graph())
    assert nx.is_isomorphic(graphs["cycle"], nx.cycle_graph(6))
    for one, other in itertools.permutations(graphs.values(), 2):
        assert not nx.algorithms.isomorphism.GraphMatcher(one, other).subgraph_is_isomorphic()


def test_every_graph_is_its_base_its_motif_and_one_edge() -> None:
    """Cutting the one bridge between them leaves the client's base and the motif of the label."""
    sets = motif_mini(seed=3, graphs=12)
    for number in range(sets.num_graphs):
        graph = _graph_of_set(sets, number)
        motif = _graph(list(MOTIFS.values())[sets.targets[number]])
        base_nodes = len(graph) - len(motif)
        base = _graph(list(BASES.values())[sets.client_of[number]](base_nodes))
        between = [edge for edge in graph.edges if min(edge) < base_nodes <= max(edge)]
        assert len(between) == 1
        graph.remove_edges_from(between)
        assert nx.is_isomorphic(graph, nx.disjoint_union(base, motif))


@pytest.fixture(scope="module")
def basis() -> GraphSet:
    return motif_basis(seed=0)


def test_basis_shift_has_the_published_shape(basis: GraphSet) -> None:
    """Five clients with 1,000 graphs, 800 of them not for test, three labels, 32 nodes and one constant feature."""
    assert (basis.num_clients, basis.num_classes, basis.num_features) == (5, 3, 1)
    for client in range(5):
        own = basis.graphs_of(client)
        counts = (basis.train[own].sum(), basis.validation[own].sum(), basis.test[own].sum())
        assert counts == (700, 100, 200)
    assert (basis.features == 1).all()
    assert len(basis.features) / basis.num_graphs == pytest.approx(32, abs=1)
    assert np.bincount(basis.targets) == pytest.approx(5000 / 3, rel=0.1)


def test_labels_do_not_follow_clients_or_sizes(basis: GraphSet) -> None:
    """At every client each label is as frequent as chance says, and graphs of all labels are equally large."""
    counts = np.array([np.bincount(basis.targets[basis.graphs_of(client)]) for client in range(5)])
    assert (np.abs(counts - 1000 / 3) < 75).all()  # five standard deviations of 14.9
    sizes = np.bincount(basis.graph_of)
    means = [sizes[basis.targets == label].mean() for label in range(3)]
    assert max(means) - min(means) == pytest.approx(1, abs=1)  # a cycle has a node more


def test_size_shift_orders_clients() -> None:
    """Every client's graphs are larger than those of the one before, whatever their base."""
    sets = motif_size(seed=0, graphs=40)
    sizes = np.bincount(sets.graph_of)
    ranges = [(sizes[sets.graphs_of(client)].min(), sizes[sets.graphs_of(client)].max()) for client in range(5)]
    for (least, most), (smallest, largest) in zip(ranges, SIZES, strict=True):
        assert smallest + 5 <= least
        assert most <= largest + 6


def test_seed_repeats_the_set() -> None:
    """Equal seeds give equal sets and others do not; without validation graphs the same graphs test."""
    first, again, other = motif_mini(1), motif_mini(1), motif_mini(2)
    np.testing.assert_array_equal(first.edges, again.edges)
    np.testing.assert_array_equal(first.train, again.train)
    assert first.edges.shape != other.edges.shape or not np.array_equal(first.edges, other.edges)
    as_published = motif_mini(1, validation=0.0)
    np.testing.assert_array_equal(first.test, as_published.test)
    assert not as_published.validation.any()
    np.testing.assert_array_equal(as_published.train, first.train | first.validation)


def test_wrong_arguments_are_named() -> None:
    """Numbers of graphs, shares, environments and seeds out of range."""
    with pytest.raises(InputError, match="graphs must be at least 10 a client; found 9"):
        motif_basis(0, graphs=9)
    with pytest.raises(InputError, match=r"validation must be in 0..0.7, a share of a client's graphs; found 0.8"):
        motif_basis(0, graphs=10, validation=0.8)
    with pytest.raises(InputError, match="seed must be 0 or more; found -1"):
        motif_size(-1)
    with pytest.raises(InputError, match="environments must name at least one client; found none"):
        motif_set("none", [], "basis", 0, 10, 0.0)


@pytest.mark.parametrize(
    ("bases", "smallest", "largest", "message"),
    [
        (("wheel", "grid"), 6, 12, "bases must be one or more of wheel, tree, ladder, star, path"),
        ((), 6, 12, "bases must be one or more of"),
        (("wheel",), 5, 12, "smallest must be at least 6 and at most largest; found 5 and 12"),
        (("wheel",), 13, 12, "smallest must be at least 6 and at most largest; found 13 and 12"),
    ],
)
def test_impossible_environments_are_refused(bases: tuple[str, ...], smallest: int, largest: int, message: str) -> None:
    """Unknown or no bases, and sizes out of order or too small."""
    with pytest.raises(InputError, match=message):
        MotifEnvironment(bases, smallest, largest)
