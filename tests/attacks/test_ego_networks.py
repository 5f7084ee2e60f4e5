from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.neighbourhoods import ego_networks, neighbour_degrees, undirected
from fgl_secure.attacks.structure.nsf_views import degree_hashes, neighbour_sums, one_hot
from tests.attacks.structure.structure_runs import fedstar, one_hot_degrees, return_probabilities


def drawn(seed: int, size: int = 14) -> tuple[nx.Graph, np.ndarray]:
    graph = nx.gnp_random_graph(size, 0.25, seed=seed)
    pairs = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    return graph, np.concatenate([pairs, pairs[::-1]], axis=1)


def same_groups(names: np.ndarray, keys: list[object]) -> bool:
    """Whether names are equal just where keys are."""
    return all((names[i] == names[j]) == (keys[i] == keys[j]) for i in range(len(keys)) for j in range(len(keys)))


@given(st.integers(0, 10_000))
def test_names_tell_ego_networks_apart(seed: int) -> None:
    """Names are equal just where triangles and sorted neighbour degrees are; degrees are networkx's."""
    graph, edges = drawn(seed)
    degrees, names = ego_networks(undirected(edges, 14))
    triangles = nx.triangles(graph)
    around = [tuple(sorted(graph.degree[w] for w in graph[v])) for v in graph]
    assert degrees.tolist() == [graph.degree[v] for v in graph]
    assert same_groups(names, [(triangles[v], around[v]) for v in graph])
    assert same_groups(neighbour_degrees(undirected(edges, 14)), list(around))


def test_loops_and_repeated_edges_count_once() -> None:
    """An edge given both ways or twice is one, and a loop is none."""
    matrix = undirected(np.array([[0, 1, 0, 2], [1, 0, 1, 2]]), 3)
    assert matrix.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


@given(st.integers(0, 10_000))
def test_return_probabilities_say_what_the_formulas_say(seed: int) -> None:
    """Degrees, sums of reciprocals and squares with triangles agree with sums over the graph, in single precision."""
    graph, edges = drawn(seed)
    rows = fedstar(edges, np.zeros(14, dtype=np.int64)).astype(np.float32).astype(np.float64)
    found = neighbour_sums(rows)
    assert found is not None
    looped = {v: graph.degree[v] + 1 for v in graph}
    corners = [[(a, b) for a in graph[v] for b in graph[v] if graph.has_edge(a, b)] for v in graph]
    closed = [sum(1 / (looped[a] * looped[b]) for a, b in pairs) for pairs in corners]
    assert found.degrees.tolist() == [graph.degree[v] for v in graph]
    assert found.reciprocals == pytest.approx([sum(1 / looped[w] for w in graph[v]) for v in graph], abs=1e-5)
    squares = [sum(1 / looped[w] ** 2 for w in graph[v]) + closed[v] for v in graph]
    assert found.squares == pytest.approx(squares, abs=1e-5)


def test_other_features_are_no_return_probabilities() -> None:
    """One-hot degrees, random numbers and a single column say nothing of walks."""
    _, edges = drawn(0)
    owners = np.zeros(14, dtype=np.int64)
    for rows in (
        one_hot_degrees(edges, owners),
        np.random.default_rng(0).random((14, 5)),
        return_probabilities(edges, owners)[:, :1],
        np.empty((0, 5)),
    ):
        assert neighbour_sums(rows) is None


def test_hashes_are_of_degrees_where_there_is_no_more() -> None:
    """One-hot degrees are hashed as degrees, and what is no degree is not hashed at all."""
    _, edges = drawn(0)
    rows = one_hot_degrees(edges, np.zeros(14, dtype=np.int64))
    hashes = degree_hashes(rows)
    assert hashes is not None
    assert hashes[:, 0].tolist() == rows.argmax(axis=1).tolist()
    assert one_hot(rows * 2) is None
    assert degree_hashes(np.random.default_rng(0).random((4, 3))) is None
