"""Federated graphs: assignments are checked whole, and edges know whether they cross silos."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.graph import (
    FederatedGraph,
    Graph,
    SplitMasks,
    boundary_nodes,
    degree_one_share,
    random_split,
    within_silos,
)
from fgl_secure.graph.partition import partition
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, graphs_and_silos

PAIRS = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0)]
SILO_OF = [0, 0, 1, 1]


def _mask(*nodes: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isin(np.arange(4), nodes)


MASKS = SplitMasks(train=_mask(0, 2), validation=_mask(1), test=_mask(3))


@pytest.fixture
def graph() -> Graph:
    return graph_from_pairs(4, PAIRS)


@pytest.fixture
def data_class() -> Any:
    with warnings.catch_warnings():  # PyTorch Geometric uses what PyTorch has deprecated
        warnings.simplefilter("ignore")
        from torch_geometric.data import Data
    return Data


@given(graphs_and_silos())
def test_crossing_edges_and_devices_agree_with_looking(example: tuple[Graph, int]) -> None:
    """An edge crosses silos exactly if no silo lists both of its ends, and every device is in one silo."""
    graph, silos = example
    everyone = np.ones(graph.num_nodes, dtype=bool)
    masks = SplitMasks(train=everyone, validation=~everyone, test=~everyone)
    federated = FederatedGraph.from_assignment(graph, partition("random", graph, silos, 0), masks)
    members = [set(federated.devices_of(silo).tolist()) for silo in range(silos)]
    assert sum(len(nodes) for nodes in members) == graph.num_nodes
    assert set[int]().union(*members) == set(range(graph.num_nodes))
    wanted = [not any({int(source), int(target)} <= nodes for nodes in members) for source, target in graph.edges.T]
    assert federated.crosses_silos.tolist() == wanted


def test_arrays_are_read_only_copies(graph: Graph) -> None:
    silo_of, train = np.array(SILO_OF), MASKS.train.copy()
    federated = FederatedGraph.from_assignment(graph, silo_of, SplitMasks(train, MASKS.validation, MASKS.test))
    silo_of[0], train[0] = 1, False
    assert federated.silo_of[0] == 0
    assert federated.train_mask[0]
    for array in (federated.silo_of, federated.train_mask, federated.validation_mask, federated.test_mask):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("silo_of", "message"),
    [
        ([0, 0, 1], "silo_of"),
        ([0, -2, 1, 1], "silo_of"),
        ([0, 0, 2, 2], "silo_of"),
        ([1, 1, 1, 1], "silo_of"),
        ([0, 0, 1, 10**15], "silo_of"),
        ([0.0, 0.0, 1.0, 1.0], "silo_of"),
    ],
)
def test_bad_assignments_are_refused_by_name(graph: Graph, silo_of: list[Any], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        FederatedGraph.from_assignment(graph, silo_of, MASKS)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (SplitMasks(_mask(0, 2), _mask(1, 2), _mask(3)), "masks"),
        (SplitMasks(_mask(0, 2), _mask(3), _mask(3)), "masks"),
        (SplitMasks(_mask(0, 2), _mask(1)[:3], _mask(3)), "masks.validation"),
        (
            SplitMasks(_mask(0, 2) * 0.5, _mask(1), _mask(3)),  # type: ignore[arg-type]
            "masks.train",
        ),
        (SplitMasks(_mask(), _mask(1), _mask(3)), "masks.train"),
        (SplitMasks(_mask(0), _mask(1), _mask(3)), "masks.train"),
        (SplitMasks(_mask(2, 3), _mask(1), _mask(0)), "masks.train"),
    ],
)
def test_bad_masks_are_refused_by_name(graph: Graph, masks: SplitMasks, message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        FederatedGraph.from_assignment(graph, SILO_OF, masks)


@given(graphs_and_silos(), st.integers(0, 100))
def test_restriction_agrees_with_looking_at_each_edge(example: tuple[Graph, int], seed: int) -> None:
    """An edge stays exactly if one of the three masks holds both of its ends."""
    graph, _ = example
    masks = random_split(graph.num_nodes, seed, (0.4, 0.3, 0.3))
    assume(masks.train.any())
    nodes = [set(np.flatnonzero(mask).tolist()) for mask in (masks.train, masks.validation, masks.test)]
    wanted = [edge for edge in graph.edges.T.tolist() if any(set(edge) <= members for members in nodes)]
    federated = FederatedGraph.from_assignment(graph, np.zeros(graph.num_nodes, dtype=int), masks)
    assert federated.restricted_to_split().edges.T.tolist() == wanted


@given(graphs_and_silos(), st.integers(0, 100))
def test_edges_within_silos_are_those_that_do_not_cross(example: tuple[Graph, int], seed: int) -> None:
    """Restricted to silos, an edge stays exactly if one silo holds both of its ends, and nothing else changes."""
    graph, silos = example
    masks = SplitMasks(*(np.full(graph.num_nodes, each) for each in (True, False, False)))
    whole = FederatedGraph.from_assignment(graph, partition("random", graph, silos, seed), masks)
    within = whole.restricted_to_silos()
    silo_of = whole.silo_of.tolist()
    assert within.edges.T.tolist() == [[a, b] for a, b in graph.edges.T.tolist() if silo_of[a] == silo_of[b]]
    assert not within.crosses_silos.any()
    assert within.silo_of is whole.silo_of
    assert not within.edges.flags.writeable


def test_one_silo_has_everything(graph: Graph) -> None:
    """In one silo no edge crosses, all edges and masks stay, and the partition is called none."""
    original = FederatedGraph.from_assignment(graph, SILO_OF, MASKS, "by hand")
    central = original.in_one_silo()
    assert central.num_silos == 1
    assert central.devices_of(0).tolist() == [0, 1, 2, 3]
    assert central.edges is original.edges
    assert central.train_mask is original.train_mask
    assert not central.crosses_silos.any()
    assert (central.partition, original.num_silos) == ("none", 2)
    assert not central.silo_of.flags.writeable


def _data(data_class: Any, **changes: Any) -> Any:
    arrays = {
        "x": torch.arange(8.0, requires_grad=True).reshape(4, 2),
        "y": torch.tensor([0, 1, 2, 1]),
        "edge_index": torch.tensor(PAIRS).T,
        "train_mask": torch.from_numpy(MASKS.train),
        "val_mask": torch.from_numpy(MASKS.validation),
        "test_mask": torch.from_numpy(MASKS.test),
    }
    return data_class(**(arrays | changes))


def test_pyg_data_is_taken_with_its_masks(data_class: Any) -> None:
    """Features, labels, directed edges and 1-D masks of a PyG data object arrive unchanged."""
    federated = FederatedGraph.from_pyg(_data(data_class), SILO_OF, name="mine")
    assert federated.graph.name == "mine"
    assert federated.partition == "given"
    assert not federated.graph.is_symmetric
    assert {tuple(edge) for edge in federated.edges.T.tolist()} == set(PAIRS)
    np.testing.assert_array_equal(federated.features, np.arange(8.0).reshape(4, 2))
    np.testing.assert_array_equal(federated.labels, [0, 1, 2, 1])
    np.testing.assert_array_equal(federated.train_mask, MASKS.train)
    np.testing.assert_array_equal(federated.validation_mask, MASKS.validation)
    np.testing.assert_array_equal(federated.test_mask, MASKS.test)


def test_pyg_data_without_masks_is_split(data_class: Any) -> None:
    ring = torch.stack([torch.arange(50), (torch.arange(50) + 1) % 50])
    data = _data(
        data_class,
        x=torch.ones(50, 1),
        y=torch.zeros(50, dtype=torch.long),
        edge_index=ring,
        **dict.fromkeys(("train_mask", "val_mask", "test_mask")),
    )
    federated = [FederatedGraph.from_pyg(data, np.arange(50) // 25, seed=seed) for seed in (1, 1, 2)]
    sizes = [federated[0].train_mask.sum(), federated[0].validation_mask.sum(), federated[0].test_mask.sum()]
    assert sizes == [30, 10, 10]
    np.testing.assert_array_equal(federated[0].test_mask, federated[1].test_mask)
    assert not np.array_equal(federated[0].test_mask, federated[2].test_mask)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "data"),
        ({"x": None, "edge_index": None}, "data"),
        ({"y": list("abca")}, "y"),
        ({"x": torch.full((4, 2), float("nan"))}, "features"),
        ({"edge_index": torch.tensor([[0], [4]])}, "edges"),
        ({"test_mask": torch.ones(5, dtype=torch.bool)}, "test_mask"),
    ],
)
def test_bad_pyg_data_is_refused_by_name(data_class: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        FederatedGraph.from_pyg(_data(data_class, **changes), SILO_OF)


@given(graphs_and_silos(), st.integers(0, 1000), st.booleans())
def test_redealt_graphs_have_the_same_shape(example: tuple[Graph, int], seed: int, apart: bool) -> None:
    """The same edges between other nodes of the same silos, with their rows and labels; nobody who can move stays."""
    graph, silos = example
    split = random_split(graph.num_nodes, seed)
    everyone = SplitMasks(np.ones_like(split.train), *[np.zeros_like(split.train)] * 2)
    before = FederatedGraph.from_assignment(graph, partition("random", graph, silos, 0), everyone)
    after = before.redealt(seed, split_apart=apart)
    swap = within_silos(before.silo_of, seed)
    np.testing.assert_array_equal(after.silo_of, before.silo_of)
    np.testing.assert_array_equal(before.silo_of[swap], before.silo_of)
    np.testing.assert_array_equal(after.features, before.features[swap])
    np.testing.assert_array_equal(after.labels, before.labels[swap])
    there = {(int(swap[s]), int(swap[t])) for s, t in after.edges.T}
    assert there == {(int(s), int(t)) for s, t in before.edges.T}
    np.testing.assert_array_equal(after.edges, Graph.from_arrays("x", after.features, after.labels, after.edges).edges)
    alone = np.bincount(before.silo_of)[before.silo_of] == 1
    assert ((swap == np.arange(len(swap))) == alone).all()
    assert not any(array.flags.writeable for array in (after.features, after.labels, after.edges, after.train_mask))


@given(graphs_and_silos(), st.integers(0, 1000), st.integers(0, 12))
def test_drawn_devices_keep_all_whom_they_hear_from(example: tuple[Graph, int], seed: int, most: int) -> None:
    """All edges between who stays are kept; rows, labels, masks and silos are theirs, and no silo is empty."""
    numbered, silos = example
    n = numbered.num_nodes
    graph = replace(numbered, stored=np.arange(n, dtype=np.float32)[:, None])
    train, validation, test = np.arange(n) % 3 == np.arange(3)[:, None]
    whole = FederatedGraph(graph, partition("random", graph, silos, 0), train, validation, test, "random")
    some = whole.some_neighbourhoods(most, seed)
    devices = some.features[:, 0].astype(np.int64)
    np.testing.assert_array_equal(devices, np.unique(devices))
    for name in ("features", "labels", "silo_of", "train_mask", "validation_mask", "test_mask"):
        kept = getattr(some, name)
        np.testing.assert_array_equal(kept, getattr(whole, name)[devices])
        assert not kept.flags.writeable
    assert some.num_silos == whole.num_silos
    np.testing.assert_array_equal(devices[some.edges], whole.edges[:, np.isin(whole.edges, devices).all(axis=0)])
    drawn = int(np.random.default_rng(seed).permutation(n)[0])
    assert some.in_degree[np.flatnonzero(devices == drawn)] == whole.in_degree[drawn]
    assert len(devices) <= max(most, 1 + whole.in_degree[drawn]) + silos
    if most >= n:
        assert len(devices) == n
    np.testing.assert_array_equal(whole.some_neighbourhoods(most, seed).features, some.features)


def test_redealt_masks_move_with_the_nodes_or_apart() -> None:
    """Apart, the labels that a silo trains on change; with the nodes, they don't; silos may get the next one's."""
    rng = np.random.default_rng(0)
    large = Graph.from_arrays("x", rng.random((60, 2)), rng.integers(5, size=60), np.empty((2, 0), dtype=np.int64))
    before = FederatedGraph.from_assignment(large, np.arange(60) % 3, random_split(60, 0))

    def trained(each: FederatedGraph) -> list[list[int]]:
        return [np.bincount(each.labels[each.train_mask & (each.silo_of == k)], minlength=5).tolist() for k in range(3)]

    together, apart = before.redealt(1), before.redealt(1, split_apart=True)
    assert trained(together) == trained(before) != trained(apart)
    assert not np.array_equal(together.train_mask, before.train_mask)
    for each in (together, apart):
        assert [(each.train_mask & (each.silo_of == k)).sum() for k in range(3)] == [
            (before.train_mask & (before.silo_of == k)).sum() for k in range(3)
        ]
    moved = before.redealt(1, clients_too=True)
    assert trained(moved) == trained(before)[1:] + trained(before)[:1]


def _federate(graph: Graph, silo_of: np.typing.ArrayLike) -> FederatedGraph:
    everyone = np.ones(graph.num_nodes, dtype=bool)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, ~everyone, ~everyone))


@given(graphs_and_silos())
def test_boundary_agrees_with_looking_at_each_node(example: tuple[Graph, int]) -> None:
    """A node is on the boundary exactly if an edge, in or out, leads to another silo."""
    graph, silos = example
    silo_of = partition("random", graph, silos, 1)
    neighbours: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for source, target in graph.edges.T.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    wanted = [any(silo_of[other] != silo_of[node] for other in neighbours[node]) for node in range(graph.num_nodes)]
    federated = _federate(graph, silo_of)
    assert boundary_nodes(federated).tolist() == wanted


def test_degree_one_counts_incoming_edges_only() -> None:
    """A node with one incoming edge counts; nodes with none, with two, or with only outgoing edges don't."""
    graph = graph_from_pairs(5, [(0, 1), (0, 2), (1, 2), (1, 3)])
    assert degree_one_share(graph) == 0.4
