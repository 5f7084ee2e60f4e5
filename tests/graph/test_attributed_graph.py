"""Graphs: canonical edges, read-only arrays, and errors that name the culprit."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from tests.error_codes import about
from tests.graph.strategies import Edge, graph_from_pairs, pairs

FEATURES = np.arange(12.0).reshape(4, 3)
LABELS = np.array([0, 1, 2, 1])
EDGES = np.array([[0, 1, 2], [1, 2, 3]])


@given(pairs())
def test_edges_are_the_sorted_set_of_pairs(example: tuple[int, list[Edge]]) -> None:
    """The edges are the distinct pairs that are no self-loops, by target and then by source."""
    num_nodes, given_pairs = example
    wanted = sorted({(target, source) for source, target in given_pairs if source != target})
    edges = graph_from_pairs(num_nodes, given_pairs).edges
    assert edges.dtype == np.int64
    assert edges.shape == (2, len(wanted))
    assert [(int(target), int(source)) for source, target in edges.T] == wanted


@given(pairs())
def test_degree_and_symmetry_agree_with_counting(example: tuple[int, list[Edge]]) -> None:
    num_nodes, given_pairs = example
    distinct = {pair for pair in given_pairs if pair[0] != pair[1]}
    graph = graph_from_pairs(num_nodes, given_pairs)
    assert graph.in_degree.tolist() == [sum(target == node for _, target in distinct) for node in range(num_nodes)]
    assert graph.in_degree.dtype == np.int64
    assert graph.is_symmetric == all((target, source) in distinct for source, target in distinct)


def test_sizes_dtypes_and_repr() -> None:
    """A graph knows its sizes, stores float32 and int64, and prints sizes instead of data."""
    graph = Graph.from_arrays("g", FEATURES, LABELS.astype(np.uint8), EDGES.astype(np.int32), image_shape=(1, 3))
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (4, 3, 3)
    assert graph.image_shape == (1, 3)
    assert graph.features.dtype == np.float32
    assert graph.labels.dtype == np.int64
    assert graph.edges.dtype == np.int64
    assert repr(graph) == "Graph('g', nodes=4, edges=3, features=3, classes=3)"


@given(st.integers(-2, 12), st.lists(st.integers(-40, 40), min_size=4, max_size=4), st.booleans())
def test_bits_of_features_are_the_fewest(shift: int, units: list[int], large: bool) -> None:
    """Behind the binary point, against fractions; None beyond 8, and where features are large."""
    features = np.ldexp(np.array(units, dtype=float), -shift)[:, None] + large * 2.0**20
    graph = Graph.from_arrays("g", features, LABELS, EDGES)
    bits = max(Fraction(float(each)).denominator for each in graph.features.ravel()).bit_length() - 1
    assert graph.feature_bits == (bits if bits <= 8 and not large else None)


def test_arrays_are_read_only_copies() -> None:
    """A graph's arrays refuse writing, and the caller's arrays stay writable and apart from them."""
    features, labels, edges = FEATURES.astype(np.float32), LABELS.astype(np.int64), EDGES.copy()
    graph = Graph.from_arrays("g", features, labels, edges)
    features[0, 0], labels[0], edges[0, 0] = 99.0, 99, 3
    assert (graph.features[0, 0], graph.labels[0], graph.edges[0, 0]) == (0.0, 0, 0)
    for array in (graph.features, graph.labels, graph.edges):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def _with(array: np.ndarray[Any, Any], index: tuple[int, ...], value: float) -> np.ndarray[Any, Any]:
    changed = array.copy()
    changed[index] = value
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": _with(FEATURES, (2, 1), np.nan)}, "features"),
        ({"features": _with(FEATURES, (3, 0), -np.inf)}, "features"),
        ({"features": _with(FEATURES, (1, 2), 1e300)}, "features"),
        ({"features": FEATURES.astype(complex)}, "features"),
        ({"features": FEATURES.ravel()}, "features"),
        ({"features": np.empty((0, 3))}, "features"),
        ({"features": np.empty((4, 0))}, "features"),
        ({"labels": LABELS[:3]}, "labels"),
        ({"labels": LABELS[:, None]}, "labels"),
        ({"labels": LABELS.astype(float)}, "labels"),
        ({"labels": _with(LABELS, (2,), -1)}, "labels"),
        ({"edges": EDGES.T}, "edges"),
        ({"edges": EDGES[0]}, "edges"),
        ({"edges": EDGES.astype(float)}, "edges"),
        ({"edges": _with(EDGES, (1, 1), 9000)}, "edges"),
        ({"edges": _with(EDGES, (0, 2), -1)}, "edges"),
        ({"image_shape": (2, 2)}, "image_shape"),
        ({"image_shape": (-1, -3)}, "image_shape"),
    ],
)
def test_bad_arrays_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"name": "g", "features": FEATURES, "labels": LABELS, "edges": EDGES}
    Graph.from_arrays(**arguments)
    with pytest.raises(InputError, check=about(message)):
        Graph.from_arrays(**(arguments | change))
