"""Partitions: random silos, whole or packed Louvain communities, clusters of features, and a registry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import (
    PARTITIONS,
    Graph,
    partition,
)
from tests.error_codes import about
from tests.graph.strategies import Edge, graph_from_pairs, graphs_and_silos


def _cliques(*sizes: int) -> Graph:
    starts = np.cumsum([0, *sizes])
    pairs: list[Edge] = [
        (source, target)
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        for source in range(start, end)
        for target in range(start, end)
    ]
    return graph_from_pairs(int(starts[-1]), pairs)


@given(graphs_and_silos(), st.integers(0, 1000))
def test_random_silos_are_equally_large(example: tuple[Graph, int], seed: int) -> None:
    """The sizes of random silos differ by at most one, and the seed repeats them."""
    graph, silos = example
    silo_of = partition("random", graph, silos, seed)
    sizes = np.bincount(silo_of, minlength=silos)
    assert silo_of.shape == (graph.num_nodes,)
    assert silo_of.dtype == np.int64
    assert len(sizes) == silos
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(silo_of, partition("random", graph, silos, seed))


def test_louvain_keeps_communities_whole_and_packs_the_largest_first() -> None:
    """Cliques of 6, 5, 4 and 3 nodes go whole to silos 0, 1, 1 and 0: the largest first, to the smallest silo."""
    silo_of = partition("louvain", _cliques(3, 6, 4, 5), 2, seed=0)
    assert silo_of.tolist() == [0] * 3 + [0] * 6 + [1] * 4 + [1] * 5


def test_louvain_accepts_isolated_nodes_and_one_way_edges() -> None:
    """A node without edges is a community of its own, and an edge joins whichever way it points."""
    silo_of = partition("louvain", graph_from_pairs(4, [(1, 0), (1, 2)]), 2, seed=0)
    assert silo_of.tolist() == [0, 0, 0, 1]


def test_too_few_communities_are_refused() -> None:
    """Louvain refuses more silos than it found communities, and says both numbers."""
    with pytest.raises(InputError, check=about("silos")):
        partition("louvain", _cliques(4, 4), 3, seed=0)


@given(graphs_and_silos(), st.integers(0, 1000))
def test_binomial_silos_are_in_range_and_repeat(example: tuple[Graph, int], seed: int) -> None:
    """Every node gets one of the silos, and the seed repeats the draw."""
    graph, silos = example
    silo_of = partition("binomial", graph, silos, seed)
    assert silo_of.shape == (graph.num_nodes,)
    assert silo_of.dtype == np.int64
    assert silo_of.min() >= 0
    assert silo_of.max() < silos
    np.testing.assert_array_equal(silo_of, partition("binomial", graph, silos, seed))


def test_binomial_silos_are_independent() -> None:
    """Over many seeds the size of a silo has a binomial variance, and two nodes share a silo in one case of K."""
    graph = graph_from_pairs(12, [])
    assignments = np.stack([partition("binomial", graph, 3, seed) for seed in range(4000)])
    sizes = (assignments == 0).sum(axis=1)
    assert sizes.mean() == pytest.approx(4, abs=0.13)  # 5 standard deviations of 0.026
    assert sizes.var() == pytest.approx(12 * (1 / 3) * (2 / 3), rel=0.12)  # 5 of 2.2 %
    assert (assignments[:, 0] == assignments[:, 1]).mean() == pytest.approx(1 / 3, abs=0.038)


@pytest.mark.parametrize("packed", ["louvain-packed", "louvain-delta", "kmeans"])
@given(graphs_and_silos(), st.integers(0, 1000))
def test_packed_silos_are_never_empty_and_repeat(packed: str, example: tuple[Graph, int], seed: int) -> None:
    """Every node gets a silo, every silo a node, and the seed repeats the partition."""
    graph, silos = example
    silo_of = partition(packed, graph, silos, seed)
    assert silo_of.shape == (graph.num_nodes,)
    assert set(silo_of.tolist()) == set(range(silos))
    np.testing.assert_array_equal(silo_of, partition(packed, graph, silos, seed))


def test_packed_louvain_splits_what_is_too_large() -> None:
    """Of cliques of 7, 3 and 2 nodes, silos of 6 get six nodes of the largest, and its last one with both others."""
    assert partition("louvain-packed", _cliques(3, 7, 2), 2, seed=0).tolist() == [1] * 3 + [0] * 6 + [1] + [1] * 2


def test_kmeans_keeps_equal_features_together() -> None:
    """Three groups of four nodes with equal features become three silos, whatever their edges."""
    features = np.repeat([[0.0, 9.0], [5.0, 5.0], [9.0, 0.0]], 4, axis=0)
    edges = np.random.default_rng(0).integers(12, size=(2, 30))
    graph = Graph.from_arrays("small", features, np.zeros(12, dtype=np.int64), edges)
    silo_of = partition("kmeans", graph, 3, seed=0).reshape(3, 4)
    assert (silo_of == silo_of[:, :1]).all()
    assert len(set(silo_of[:, 0].tolist())) == 3


@pytest.mark.parametrize("name", list(PARTITIONS))
def test_impossible_choices_are_refused(name: str) -> None:
    """Every partition refuses fewer than one silo, more silos than nodes, and a negative seed."""
    for silos, seed, wrong in ((0, 0, "silos"), (9, 0, "silos"), (2, -1, "seed")):
        with pytest.raises(InputError, check=about(wrong)):
            partition(name, _cliques(4, 4), silos, seed)
