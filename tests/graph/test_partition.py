"""Partitions: random silos, whole or packed Louvain communities, clusters of features, and a registry."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import PARTITIONS, Graph, load, partition, random_split
from fgl_secure.graph.partition import pack_in_turn
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
    with pytest.raises(InputError, check=about("silos")):
        partition("louvain", _cliques(4, 4), 3, seed=0)


@given(graphs_and_silos(), st.integers(0, 1000))
def test_binomial_silos_are_in_range_and_repeat(example: tuple[Graph, int], seed: int) -> None:
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
    for silos, seed, wrong in ((0, 0, "silos"), (9, 0, "silos"), (2, -1, "seed")):
        with pytest.raises(InputError, check=about(wrong)):
            partition(name, _cliques(4, 4), silos, seed)


FRACTIONS = [(0.6, 0.2, 0.2), (0.1, 0.1, 0.8), (1.0, 0.0, 0.0), (1 / 3, 1 / 3, 1 / 3)]


@given(st.integers(1, 500), st.integers(0, 2**64), st.sampled_from(FRACTIONS))
def test_every_node_is_in_one_set_of_the_right_size(n: int, seed: int, fractions: tuple[float, float, float]) -> None:
    """Each node is in exactly one mask, and each size is less than one node away from its share."""
    masks = random_split(n, seed, fractions)
    stacked = np.stack([masks.train, masks.validation, masks.test])
    assert stacked.dtype == np.bool_
    assert (stacked.sum(axis=0) == 1).all()
    assert (np.abs(stacked.sum(axis=1) - n * np.array(fractions)) <= 1).all()


def test_seed_repeats_the_split() -> None:
    first, again, other = (random_split(100, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.train, again.train)
    np.testing.assert_array_equal(first.test, again.test)
    assert not np.array_equal(first.train, other.train)


@pytest.mark.parametrize(
    ("n", "seed", "fractions", "message"),
    [
        (0, 0, (0.6, 0.2, 0.2), "n"),
        (10, -1, (0.6, 0.2, 0.2), "seed"),
        (10, 0, (0.6, 0.2, 0.3), "fractions"),
        (10, 0, (1.2, -0.2, 0.0), "fractions"),
        (10, 0, (float("nan"), 0.5, 0.5), "fractions"),
    ],
)
def test_bad_arguments_are_refused(n: int, seed: int, fractions: tuple[float, float, float], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        random_split(n, seed, fractions)


Groups = list[list[int]]

needs_public_data = pytest.mark.skipif(
    not os.environ.get("FGL_SECURE_DATA"), reason="FGL_SECURE_DATA doesn't name a folder with the raw public data"
)


@st.composite
def _packings(draw: st.DrawFn) -> tuple[Groups, int, int]:
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=12))
    ends = np.cumsum(sizes).tolist()
    groups = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    silos = draw(st.integers(1, ends[-1]))
    return groups, silos, draw(st.integers(0, ends[-1] // silos - 1))


@given(_packings())
def test_everybody_is_placed_and_no_silo_is_empty(example: tuple[Groups, int, int]) -> None:
    """Every node has a silo, every silo a node, and no silo is twice as large as its share and delta."""
    groups, silos, delta = example
    silo_of = pack_in_turn(groups, silos, delta)
    sizes = np.bincount(silo_of, minlength=silos)
    share = len(silo_of) // silos
    assert sizes.sum() == sum(len(group) for group in groups)
    assert sizes.min() >= 1
    assert sizes.max() <= 2 * share + delta


def test_a_silo_is_filled_before_the_next() -> None:
    """Shares of 10 and delta 3: pieces of 7, 4, 3, 3 and 3 nodes fill silo 0 with 7 + 4, and silo 1 with the rest."""
    ends = np.cumsum([7, 4, 3, 3, 3]).tolist()
    groups = [range(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    assert pack_in_turn(groups, 2, 3).tolist() == [0] * 11 + [1] * 9


def test_what_is_too_large_is_cut() -> None:
    """With shares of 6 and delta 2 a group of 9 nodes becomes pieces of 4, 4 and 1, and a group of 3 stays whole."""
    assert pack_in_turn([range(9), range(9, 12)], 2, 2).tolist() == [0] * 4 + [1] * 4 + [0] + [1] * 3


def test_silos_that_would_stay_empty_get_the_last_pieces() -> None:
    """Ten single nodes, three silos and delta 2: greed alone would fill two silos and half of a third."""
    assert sorted(np.bincount(pack_in_turn([[node] for node in range(10)], 3, 2)).tolist()) == [3, 3, 4]


@needs_public_data
def test_cora_has_about_as_many_cross_edges_as_printed() -> None:
    """1,002 in Fed2GNN's table of subgraphs for 10 silos, of 5,429 edges where Cora has 5,278 without repeated ones."""
    graph = load("Cora")
    silo_of = partition("louvain-delta", graph, 10, 0)
    crossing = int((silo_of[graph.edges[0]] != silo_of[graph.edges[1]]).sum()) // 2
    assert crossing * 5429 / 5278 == pytest.approx(1002, rel=0.15)
