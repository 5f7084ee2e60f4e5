"""Powers of the normalised adjacency against dense matrices."""

import numpy as np
import pytest
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.graph.structure_features import (
    adjacency_powers,
    combined_adjacency,
    largest_entries,
    looped_adjacency,
    normalised_adjacency,
)
from tests.error_codes import about


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
    first, second = adjacency_powers(graph, 2, kept=1)
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
