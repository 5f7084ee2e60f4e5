"""Sets of graphs: every rule is checked, and batches and the union are the graphs that they came from."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import SplitMasks
from fgl_secure.graph.graph_sets import GraphSet
from tests.error_codes import about
from tests.graph.strategies import graph_sets

YES, NO = True, False


def arguments(**changed: Any) -> dict[str, Any]:
    """Two clients with a path of three nodes and an edge, and one graph of one node for validation."""
    given_ = {
        "name": "small",
        "features": np.arange(6.0).reshape(6, 1),
        "edges": np.array([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]),
        "graph_of": [0, 0, 0, 1, 1, 2],
        "targets": [2, 0, 1],
        "client_of": [0, 1, 0],
        "masks": SplitMasks(np.array([YES, YES, NO]), np.array([NO, NO, YES]), np.array([NO, NO, NO])),
        "shift": "size",
    }
    return {**given_, **changed}


def small(**changed: Any) -> GraphSet:
    return GraphSet.from_arrays(**arguments(**changed))


def test_counts() -> None:
    """A set counts its graphs, clients, classes and features, and knows the graphs of a client."""
    sets = small()
    assert (sets.num_graphs, sets.num_clients, sets.num_classes, sets.num_features) == (3, 2, 3, 1)
    assert sets.graphs_of(0).tolist() == [0, 2]
    assert repr(sets) == "GraphSet('small', graphs=3, clients=2, nodes=6, edges=6, features=1)"
    with pytest.raises(InputError, check=about("client")):
        sets.graphs_of(2)


def test_types_of_edges_follow_their_edges() -> None:
    """From any order of edges, into the set and into a client's part of it; the same in both directions."""
    edges = np.array([[3, 1, 0, 2, 1, 4], [4, 2, 1, 1, 0, 3]])
    sets = small(edges=edges, edge_types=[7, 5, 0, 5, 0, 7])
    kind = {(0, 1): 0, (1, 0): 0, (1, 2): 5, (2, 1): 5, (3, 4): 7, (4, 3): 7}
    assert sets.edge_types is not None
    assert [kind[source, target] for source, target in sets.edges.T.tolist()] == sets.edge_types.tolist()
    assert sets.only(1).edge_types.tolist() == [7, 7]  # type: ignore[union-attr]
    assert small().edge_types is None
    for wrong in ([7, 5, 0, 5, 0], [7, 5, 0, 5, 0, 6], [-1, 5, 0, 5, 0, -1], [0.5] * 6):
        with pytest.raises(InputError, check=about("edge_types")):
            small(edges=edges, edge_types=wrong)


def test_arrays_are_copied_and_read_only() -> None:
    """A later change of the caller's arrays changes nothing, and nobody can change the set's."""
    client_of = np.array([0, 1, 0])
    sets = small(client_of=client_of)
    client_of[:] = 7
    assert sets.client_of.tolist() == [0, 1, 0]
    for array in (sets.features, sets.edges, sets.graph_of, sets.targets, sets.client_of, sets.train, sets.edge_starts):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edges": [[0, 1], [1, 0.5]]}, "edges"),
        ({"edges": [[2, 3], [3, 2]]}, "edges"),
        ({"edges": [[0, 1, 1], [1, 0, 2]]}, "edges"),
        ({"graph_of": [0, 0, 0, 1, 1]}, "graph_of"),
        ({"graph_of": [1, 1, 1, 2, 2, 3]}, "graph_of"),
        ({"graph_of": [0, 0, 0, 2, 2, 3]}, "graph_of"),
        ({"graph_of": [0, 0, 0, 1, 1, 0]}, "graph_of"),
        ({"targets": [0, 1]}, "targets"),
        ({"targets": [0, -1, 1]}, "targets"),
        ({"targets": [0.0, np.nan, 1.0]}, "targets"),
        ({"targets": ["a", "b", "c"]}, "targets"),
        ({"client_of": [0, 2, 0]}, "client_of"),
        ({"client_of": [0, -1, 0]}, "client_of"),
        ({"client_of": [0, 1]}, "client_of"),
        ({"client_of": [0, 1, 2]}, "masks.train"),
        ({"node_types": True, "features": np.ones((6, 2))}, "features"),
        ({"node_types": True, "features": np.full((6, 1), 0.5)}, "features"),
        ({"features": np.full((6, 1), np.inf)}, "features"),
        ({"features": np.zeros((0, 1))}, "features"),
    ],
)
def test_broken_rules_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        small(**changed)


def test_masks_must_be_disjoint_and_of_graphs() -> None:
    every, nobody = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
    with pytest.raises(InputError, check=about("masks")):
        small(masks=SplitMasks(every, nobody, every))
    with pytest.raises(InputError, check=about("masks.train")):
        small(masks=SplitMasks(np.ones(6, dtype=bool), nobody, nobody))


@given(graph_sets(), st.data())
def test_batch_is_its_graphs(sets: GraphSet, data: st.DataObject) -> None:
    """Each graph of a batch has the features, the edges and the target that it has in the set, repeated ones too."""
    ids = data.draw(st.lists(st.integers(0, sets.num_graphs - 1), min_size=1, max_size=8))
    batch = sets.batch(ids)
    assert batch.graph_of.tolist() == sorted(batch.graph_of.tolist())
    for place, graph in enumerate(ids):
        nodes, own = np.flatnonzero(sets.graph_of == graph), np.flatnonzero(batch.graph_of == place)
        np.testing.assert_array_equal(batch.features[own], sets.features[nodes])
        in_set = sets.edges[:, np.isin(sets.edges[1], nodes)] - nodes[0]
        in_batch = batch.edges[:, np.isin(batch.edges[1], own)] - own[0]
        np.testing.assert_array_equal(in_batch, in_set)
        assert batch.targets[place] == sets.targets[graph]
    assert batch.edges.shape[1] == sum(int((sets.graph_of[sets.edges[1]] == graph).sum()) for graph in ids)


@pytest.mark.parametrize("ids", [[], [3], [-1], [[0]]])
def test_batches_of_nothing_are_refused(ids: list[Any]) -> None:
    with pytest.raises(InputError, check=about("ids")):
        small().batch(np.array(ids, dtype=np.int64))


@given(graph_sets())
def test_union_has_the_nodes_of_all_graphs(sets: GraphSet) -> None:
    """A node of the union has the silo, label and masks of its graph; no edge crosses silos."""
    union = sets.union()
    np.testing.assert_array_equal(union.silo_of, sets.client_of[sets.graph_of])
    np.testing.assert_array_equal(union.train_mask, sets.train[sets.graph_of])
    np.testing.assert_array_equal(union.test_mask, sets.test[sets.graph_of])
    np.testing.assert_array_equal(union.edges, sets.edges)
    assert not union.crosses_silos.any()
    if sets.num_classes:
        np.testing.assert_array_equal(union.labels, sets.targets[sets.graph_of])
