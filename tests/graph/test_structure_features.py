"""Structure features: what each says of small graphs, and the names they go by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Graph
from fgl_secure.graph import structure_features as module
from fgl_secure.graph.graphlets import graphlet_degrees
from fgl_secure.graph.structure_features import (
    STRUCTURE_FEATURES,
    adjacency_powers,
    combined_adjacency,
    hop2vec_start,
    largest_entries,
    looped_adjacency,
    normalised_adjacency,
    return_probabilities,
    structure_features,
)
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, graphs_and_silos

STAR = graph_from_pairs(5, [(0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0)])


def test_degrees_are_one_hot() -> None:
    """The 1 is at the degree, and all degrees from the largest on share its column."""
    encoded = structure_features("degree", STAR, 5, 0)
    assert encoded.argmax(axis=1).tolist() == [3, 1, 1, 1, 0]
    assert structure_features("degree", STAR, 3, 0).argmax(axis=1).tolist() == [2, 1, 1, 1, 0]
    assert (np.sort(encoded, axis=1) == [0, 0, 0, 0, 1]).all()


def test_fedstar_has_the_walk_first_and_the_degree_behind() -> None:
    """A walk from a leaf of a star is back after one step with chance 1/2, from the centre of four nodes with 1/4."""
    features = structure_features("fedstar", STAR, 54, 0)
    np.testing.assert_array_equal(features[:, 50:], structure_features("degree", STAR, 4, 0))
    np.testing.assert_allclose(features[:, 0], [1 / 4, 1 / 2, 1 / 2, 1 / 2, 1])
    # Two steps: stay twice, or go to the centre and come back.
    np.testing.assert_allclose(features[1, 1], 1 / 4 + 1 / 2 * 1 / 4)


def test_graphlets_have_mean_0_and_variance_1() -> None:
    """Each column of counts is standardised, and a constant column becomes 0."""
    counts, scaled = graphlet_degrees(STAR), structure_features("graphlet", STAR, 9, 0)
    moving = counts.std(axis=0) > 0
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), moving, rtol=1e-6)
    assert moving.any()
    assert not moving.all()


@pytest.mark.parametrize("name", list(STRUCTURE_FEATURES))
@given(graphs_and_silos())
def test_every_name_gives_finite_features_of_any_graph(name: str, example: tuple[Graph, int]) -> None:
    """By name come float32 features of the width asked for, 73 for graphlets, and the seed repeats them."""
    graph, seed = example
    if name == "node2vec" and graph.num_nodes > 3:
        return  # 50 epochs each; test_node2vec.py has the rest
    found = structure_features(name, graph, 60, seed)
    assert found.shape == (graph.num_nodes, 73 if name == "graphlet" else 60)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, structure_features(name, graph, 60, seed))


def test_bad_arguments_are_refused() -> None:
    """Sizes below 1, a width without room for the degree, negative seeds and unknown names are refused."""
    with pytest.raises(InputError, check=about("width")):
        structure_features("degree", STAR, 1, 0)
    with pytest.raises(InputError, check=about("n and d")):
        hop2vec_start(5, 0, 0)
    with pytest.raises(InputError, check=about("seed")):
        hop2vec_start(5, 2, -1)
    with pytest.raises(InputError, check=about("width")):
        structure_features("fedstar", STAR, 50, 0)
    with pytest.raises(UnknownNameError, check=about("structure features")):
        structure_features("spectral", STAR, 50, 0)


def _mirrored(graph: Graph) -> Graph:
    both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
    return graph_from_pairs(graph.num_nodes, [(int(source), int(target)) for source, target in both.T])


@pytest.mark.parametrize("block", [1, 5, 32])
@given(example=graphs_and_silos(), steps=st.integers(1, 7), mirror=st.booleans())
def test_they_are_the_diagonals_of_the_powers(block: int, example: tuple[Graph, int], steps: int, mirror: bool) -> None:
    """For directed and undirected graphs, and however the columns are cut, column t is the diagonal of A^ to the t."""
    graph = _mirrored(example[0]) if mirror else example[0]
    expected = np.stack([power.diagonal() for power in adjacency_powers(graph, steps)], axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        np.testing.assert_allclose(return_probabilities(graph, steps), expected, atol=1e-13)


@pytest.fixture
def graph() -> Graph:
    edges = np.array([[0, 1, 2, 3, 0, 5], [1, 2, 0, 0, 3, 4]])
    return Graph.from_arrays("small", np.eye(6), np.arange(6) % 2, edges)


def test_rows_of_the_adjacency_are_outgoing_edges_with_a_loop(graph: Graph) -> None:
    """Row v of A + I has a 1 at v and at the targets of v's edges."""
    dense = np.eye(6)
    dense[graph.edges[0], graph.edges[1]] = 1
    assert np.array_equal(looped_adjacency(graph).toarray(), dense)
    assert np.allclose(normalised_adjacency(graph).toarray(), dense / dense.sum(axis=1, keepdims=True))


def test_powers_are_those_of_the_dense_matrix(graph: Graph) -> None:
    """Without pruning, power l is the l-fold product, and its rows sum to 1."""
    first = normalised_adjacency(graph).toarray()
    for power, expected in zip(adjacency_powers(graph, 4), [np.linalg.matrix_power(first, k) for k in range(1, 5)],
                               strict=True):  # fmt: skip
        assert np.allclose(power.toarray(), expected)
        assert np.allclose(power.sum(axis=1), 1)


def test_pruning_keeps_the_largest_entries_of_the_whole_matrix(graph: Graph) -> None:
    """With p = 1, each power from the second on has six entries, none smaller than one that was left out."""
    first, second = adjacency_powers(graph, 2, row_entries=1)
    whole = sparse.csr_array(first @ first)
    assert second.nnz == 6
    left_out = whole - second
    left_out.eliminate_zeros()
    assert second.data.min() >= left_out.data.max()


def test_ties_go_to_the_earlier_entry() -> None:
    """Of equal entries the first in row order is kept, so that the result does not depend on the machine."""
    matrix = sparse.csr_array(np.array([[1.0, 1.0], [1.0, 2.0]]))
    assert np.array_equal(largest_entries(matrix, 2).toarray(), [[1.0, 0.0], [0.0, 2.0]])


def test_powers_are_combined_with_weights(graph: Graph) -> None:
    """Without weights the last power stands alone; with weights the sum is theirs."""
    powers = adjacency_powers(graph, 3)
    assert combined_adjacency(powers) is powers[-1]
    weighted = combined_adjacency(powers, (3.0, 0.5, 0.0, 2.0)).toarray()
    expected = 3 * np.eye(graph.num_nodes) + 0.5 * powers[0].toarray() + 2 * powers[2].toarray()
    assert np.allclose(weighted, expected)
    with pytest.raises(InputError, check=about("weights")):
        combined_adjacency(powers, (1.0, 1.0))


@pytest.mark.parametrize(("hops", "kept", "rule"), [(0, None, "hops"), (2, 0, "kept")])
def test_bad_choices_are_refused(graph: Graph, hops: int, kept: int | None, rule: str) -> None:
    """Hops and kept entries start at 1."""
    with pytest.raises(InputError, check=about(rule)):
        adjacency_powers(graph, hops, kept)
