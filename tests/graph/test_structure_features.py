"""Structure features: what each says of small graphs, and the names they go by."""

import numpy as np
import pytest
from hypothesis import given

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Graph
from fgl_secure.graph.graphlets import graphlet_degrees
from fgl_secure.graph.structure_features import (
    STRUCTURE_FEATURES,
    hop2vec_start,
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
