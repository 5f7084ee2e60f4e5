"""Return probabilities: the diagonals of powers that are written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.graph import Graph
from fgl_secure.graph import structure_features as module
from fgl_secure.graph.structure_features import adjacency_powers, return_probabilities
from tests.graph.strategies import graph_from_pairs, graphs_and_silos


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
