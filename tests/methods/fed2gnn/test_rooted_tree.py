"""A rooted tree has a node for every walk from its root that never steps back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from tests.error_codes import about
from tests.methods.fed2gnn import rooted_trees
from tests.methods.fed2gnn.oracles import graph_of, graphs, neighbours_of, walks
from tests.methods.fed2gnn.rooted_trees import RootedTrees, TreeShape, missing_branches, unfold

TRIANGLE_WITH_TAIL = [(0, 1), (0, 2), (1, 2), (2, 3)]


def ends(trees: RootedTrees, root: int, layer: int) -> Counter[int]:
    """What the nodes of one layer of one tree stand for, with their numbers."""
    top = np.arange(trees.shape.size)
    while (trees.shape.father[top] >= 0).any():
        top = np.where(trees.shape.father[top] >= 0, trees.shape.father[top], top)
    return Counter(trees.origin[(top == root) & (trees.shape.layer == layer)].tolist())


def test_a_small_tree_is_as_drawn() -> None:
    """Node 0 of a triangle with a tail: 1 and 2 below it, below 1 is 2, below 2 are 1 and 3, and 3 has no children."""
    trees = unfold(graph_of(TRIANGLE_WITH_TAIL, 4).graph, np.array([0]), 3)
    assert trees.origin.tolist() == [0, 1, 2, 2, 1, 3, 0, 3, 0]
    assert trees.shape.father.tolist() == [-1, 0, 0, 1, 2, 2, 3, 3, 4]
    assert trees.shape.layer.tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3]


def test_the_last_layer_folds_into_one_leaf_a_father() -> None:
    """Node 2 in layer 2 has children 0 and 3, which become one leaf that adds both up; node 3 gets no leaf."""
    folded = unfold(graph_of(TRIANGLE_WITH_TAIL, 4).graph, np.array([0]), 3).folded()
    assert folded.shape.father.tolist() == [-1, 0, 0, 1, 2, 2, 3, 4]
    assert folded.holds.toarray()[-2:].tolist() == [[1, 0, 0, 1], [1, 0, 0, 0]]
    assert folded.at(np.array([2, 2, 3, 1])).tolist() == [2, 2, 3, 3, 2, 1, 0, 0]


@given(graphs(), st.integers(1, 4), st.integers(0, 2**16))
@settings(max_examples=25)
def test_layers_are_walks_that_never_step_back(graph: FederatedGraph, hops: int, pick: int) -> None:
    """Layer k of a tree stands for the ends of all such walks of k steps, as often as there are walks."""
    root, heard = pick % graph.num_devices, neighbours_of(graph.graph)
    trees = unfold(graph.graph, np.array([root]), hops)
    for k in range(1, hops + 1):
        assert ends(trees, 0, k) == Counter(walks(heard, k, root, heard[root]))


@given(graphs(), st.integers(1, 4), st.integers(0, 2**16))
@settings(max_examples=25)
def test_missing_branches_begin_at_other_clients(graph: FederatedGraph, hops: int, pick: int) -> None:
    """Below a node of the local graph are the walks alone whose first step leaves the client."""
    root, heard = pick % graph.num_devices, neighbours_of(graph.graph)
    abroad = [there for there in heard[root] if graph.silo_of[there] != graph.silo_of[root]]
    trees = missing_branches(graph, hops, int(graph.silo_of[root]))
    place = int(np.searchsorted(graph.devices_of(int(graph.silo_of[root])), root))
    assert trees.origin[place] == root
    for k in range(1, hops + 1):
        assert ends(trees, place, k) == Counter(walks(heard, k, root, abroad))


@given(graphs(), st.integers(2, 3))
@settings(max_examples=25)
def test_every_position_above_the_last_layer_has_all_neighbours_of_its_node(graph: FederatedGraph, hops: int) -> None:
    """On local graphs with branches, links, father and children stand for the node's neighbours, each once."""
    trees, heard = missing_branches(graph, hops), neighbours_of(graph.graph)
    source, target = trees.shape.joined
    near: dict[int, list[int]] = {}
    for one, other in zip(target.tolist(), trees.origin[source].tolist(), strict=True):
        near.setdefault(one, []).append(other)
    for position in np.flatnonzero(~trees.shape.leaves).tolist():
        assert sorted(near.get(position, [])) == heard[trees.origin[position]]


def test_graphs_of_clients_are_side_by_side() -> None:
    """All clients at once are the same local graphs and branches as one client after the other."""
    graph = graph_of([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)], 5, [0, 0, 1, 1, 1])
    together, alone = missing_branches(graph, 3), [missing_branches(graph, 3, client) for client in (0, 1)]
    assert together.shape.size == sum(each.shape.size for each in alone)
    assert together.shape.links.shape[1] == sum(each.shape.links.shape[1] for each in alone)
    for root in range(5):
        client, place = int(graph.silo_of[root]), int(np.searchsorted(graph.devices_of(graph.silo_of[root]), root))
        assert all(ends(together, root, k) == ends(alone[client], place, k) for k in range(4))


@pytest.mark.parametrize("pairs", [[], [(0, 1)]], ids=["without edges", "one edge within a client"])
def test_without_cross_edges_nothing_hangs_on_the_local_graph(pairs: list[tuple[int, int]]) -> None:
    """A graph without edges, isolated nodes and clients without cross edges have their own nodes and nothing else."""
    trees = missing_branches(graph_of(pairs, 4, [0, 0, 1, 1]), 2)
    assert trees.origin.tolist() == [0, 1, 2, 3]
    assert trees.shape.links.shape == (2, 2 * len(pairs))
    assert trees.folded().shape.size == trees.shape.roots == 4


def test_bad_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """K = 0, unknown roots, directed graphs and trees beyond all bounds raise errors that say so."""
    graph = graph_of(TRIANGLE_WITH_TAIL, 4, [0, 1, 0, 1])
    one_way = graph.graph.from_arrays("one way", graph.features, graph.labels, np.array([[0], [1]]))
    with pytest.raises(InputError, check=about("hops")):
        unfold(graph.graph, np.array([0]), 0)
    with pytest.raises(InputError, check=about("hops")):
        missing_branches(graph, 0)
    with pytest.raises(InputError, check=about("roots")):
        unfold(graph.graph, np.array([2, 4]), 1)
    with pytest.raises(InputError, check=about("graph")):
        unfold(one_way, np.array([0]), 1)
    monkeypatch.setattr(rooted_trees, "LARGEST_TREES", 5)
    with pytest.raises(InputError, check=about("hops")):
        unfold(graph.graph, np.array([0]), 3)


@pytest.mark.parametrize(
    ("father", "layer", "rule"),
    [
        ([-1, 0], [0, 1, 1], "vectors of one length"),
        ([-1, -1], [0, 1], "father must be in the layer before"),
        ([-1, 0, 0], [0, 1, 2], "father must be in the layer before"),
        ([-1, 0, 1, 2], [0, 1, 2, 3], "layer must ascend from 0 to at most hops=2"),
    ],
)
def test_a_shape_is_checked(father: list[int], layer: list[int], rule: str) -> None:
    """A shape whose layers do not fit its fathers is refused."""
    with pytest.raises(InputError, match=rule):
        TreeShape(2, np.array(father), np.array(layer), np.empty((2, 0), dtype=np.int64))
