"""Features that stay sparse until somebody needs them laid out."""

import gc
import weakref

import numpy as np
import pytest
from scipy.sparse import csr_array

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, attributed_graph
from fgl_secure.graph.partition import random_split
from fgl_secure.training.silo import Silo
from tests.error_codes import about

ROWS = (np.random.default_rng(0).random((40, 30)) < 0.1) * np.float32(0.5)
LABELS, EDGES = np.arange(40) % 3, np.random.default_rng(1).integers(0, 40, (2, 90))
DENSE = Graph.from_arrays("g", ROWS, LABELS, EDGES)


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """The same graph with features that count as large."""
    monkeypatch.setattr(attributed_graph, "LARGE", 1)
    graph = Graph.from_arrays("g", csr_array(ROWS), LABELS, EDGES)
    assert isinstance(graph.stored, attributed_graph.SparseRows)
    return graph


def test_features_are_the_same(sparse: Graph) -> None:
    """Whole, of some nodes, of silos, and of other inputs; few of them are laid out at once."""
    assert np.array_equal(sparse.features, DENSE.features)
    assert sparse.features.dtype == np.float32
    assert (sparse.num_nodes, sparse.num_features, repr(sparse)) == (40, 30, repr(DENSE))
    assert sparse.feature_bits == DENSE.feature_bits == 1
    some = np.array([7, 3, 3])
    assert np.array_equal(sparse.features_of(some), DENSE.features_of(some))
    one, other = (FederatedGraph.from_assignment(g, np.arange(40) % 4, random_split(40, 0)) for g in (sparse, DENSE))
    assert np.array_equal(one.redealt(5).features, other.redealt(5).features)
    assert np.array_equal(one.some_neighbourhoods(9, 0).features, other.some_neighbourhoods(9, 0).features)
    for silo in range(4):
        assert np.array_equal(Silo.of(one, silo).features, Silo.of(other, silo).features)
    assert isinstance(Graph.from_arrays("g", csr_array(ROWS[:2]), LABELS[:2], EDGES[:, :0]).num_nodes, int)


def test_features_are_laid_out_while_somebody_holds_them(sparse: Graph) -> None:
    """Twice the same array, and none when nobody has it any more; nobody can write to it."""
    first = sparse.features
    assert sparse.features is first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_features_that_are_no_numbers_are_refused(value: float) -> None:
    rows = ROWS.astype(np.float64)
    rows[5, 2] = value
    for given in (rows, csr_array(rows)):
        with pytest.raises(InputError, check=about("features")):
            Graph.from_arrays("g", given, LABELS, EDGES)
