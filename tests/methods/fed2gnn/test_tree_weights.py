"""Proposition 1: a root's embedding on its tree is that of its node on the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import Network, gcn, graph_of, graphs, on_tree, random_graph, sage
from tests.methods.fed2gnn.rooted_trees import (
    FoldedTrees,
    gcn_rows,
    gcn_weights,
    missing_branches,
    published_scale,
    sage_weights,
    unfold,
)

Reals = NDArray[np.float64]
CASES = (graphs(), st.integers(1, 4), st.integers(0, 2**32 - 1))
UNEVEN = graph_of([(0, 1), (1, 2), (1, 3), (2, 3), (3, 4), (3, 5)], 6, [0, 0, 1, 1, 0, 1])


def trees_of(graph: FederatedGraph, hops: int, *, alone: bool) -> FoldedTrees:
    """Trees of up to 5 nodes side by side, or the branches that all clients miss on their local graphs."""
    if not alone:
        return missing_branches(graph, hops).folded()
    return unfold(graph.graph, np.arange(min(5, graph.num_devices)), hops).folded()


def gcn_on(trees: FoldedTrees, graph: FederatedGraph, network: Network, scale: Reals | None = None) -> Reals:
    """Embeddings of the roots, with biases times the factors."""
    weights = gcn_weights(trees.shape, trees.at(graph.in_degree), scale)
    rows = gcn_rows(trees, graph.in_degree, scale) @ graph.features.astype(np.float64)
    return on_tree(weights, rows, network, bias_scale=scale)[: trees.shape.roots]


def sage_on(trees: FoldedTrees, graph: FederatedGraph, network: Network) -> Reals:
    """Embeddings of the roots."""
    weights = sage_weights(trees.shape, trees.at(graph.in_degree))
    rows = trees.holds @ graph.features.astype(np.float64)
    return on_tree(weights, rows, network, own=True)[: trees.shape.roots]


@pytest.mark.parametrize("alone", [True, False], ids=["trees alone", "missing branches"])
@given(*CASES)
@settings(max_examples=30)
def test_gcn_roots_have_their_nodes_embeddings(alone: bool, graph: FederatedGraph, hops: int, seed: int) -> None:
    """For any graph and K, with biases; by trees alone, and by local graphs with the branches they miss."""
    network = Network.drawn(hops, seed, bias=1.0)
    found = gcn_on(trees_of(graph, hops, alone=alone), graph, network)
    np.testing.assert_allclose(found, gcn(graph.graph, network)[: len(found)], atol=1e-5)


@pytest.mark.parametrize("alone", [True, False], ids=["trees alone", "missing branches"])
@given(*CASES)
@settings(max_examples=30)
def test_sage_roots_have_their_nodes_embeddings(alone: bool, graph: FederatedGraph, hops: int, seed: int) -> None:
    """The same for GraphSAGE's mean."""
    network = Network.drawn(hops, seed, bias=1.0)
    found = sage_on(trees_of(graph, hops, alone=alone), graph, network)
    np.testing.assert_allclose(found, sage(graph.graph, network)[: len(found)], atol=1e-5)


@given(*CASES)
@settings(max_examples=30)
def test_appendix_a_factors_pass_through_relu(graph: FederatedGraph, hops: int, seed: int) -> None:
    """With the factors of Appendix A, or any positive ones, roots have their nodes' embeddings just as well."""
    network, trees = Network.drawn(hops, seed, bias=1.0), trees_of(graph, hops, alone=False)
    drawn = np.exp(np.random.default_rng(seed).normal(size=trees.shape.size))
    drawn[: trees.shape.roots] = 1.0
    for scale in (published_scale(trees.shape, trees.at(graph.in_degree)), drawn):
        found = gcn_on(trees, graph, network, scale)
        np.testing.assert_allclose(found, gcn(graph.graph, network), atol=1e-5)


def test_without_factors_any_activation_will_do() -> None:
    """tanh does not commute with factors: 1 everywhere is right for it, those of Appendix A are not."""
    network, trees = Network.drawn(2, 0, width=1), trees_of(UNEVEN, 2, alone=False)
    degrees, x = trees.at(UNEVEN.in_degree), UNEVEN.features.astype(np.float64)
    expected = gcn(UNEVEN.graph, network, np.tanh)

    def found(scale: Reals | None) -> Reals:
        weights, rows = gcn_weights(trees.shape, degrees, scale), gcn_rows(trees, UNEVEN.in_degree, scale) @ x
        return on_tree(weights, rows, network, activation=np.tanh)[:6]

    np.testing.assert_allclose(found(None), expected, atol=1e-12)
    assert np.abs(found(published_scale(trees.shape, degrees)) - expected).max() > 1e-3


def test_biases_need_the_factors_too() -> None:
    """Under factors, a bias that is added as it is spoils the embedding."""
    network, trees = Network.drawn(2, 1, width=1, bias=1.0), trees_of(UNEVEN, 2, alone=False)
    scale = published_scale(trees.shape, trees.at(UNEVEN.in_degree))
    network = Network(network.own, [np.abs(w) for w in network.weights], [np.abs(b) for b in network.biases])
    weights = gcn_weights(trees.shape, trees.at(UNEVEN.in_degree), scale)
    rows = gcn_rows(trees, UNEVEN.in_degree, scale) @ UNEVEN.features.astype(np.float64)
    expected = gcn(UNEVEN.graph, network)
    np.testing.assert_allclose(on_tree(weights, rows, network, bias_scale=scale)[:6], expected, atol=1e-12)
    assert np.abs(on_tree(weights, rows, network)[:6] - expected).max() > 1e-3


def test_published_factors_are_those_of_appendix_a() -> None:
    """K = 2: a neighbour holds sqrt(3 / D) of its features, its leaf sqrt(2) of the scaled sum, and four weights agree.

    They are the self-loop, child to root, root to child, and leaf to child.
    """
    trees = unfold(UNEVEN.graph, np.array([1]), 2).folded()  # root 1 with D = 4; position 3 is node 3 with D = 5
    scale = published_scale(trees.shape, trees.at(UNEVEN.in_degree))
    leaf = int(np.flatnonzero(trees.shape.father == 3)[0])
    assert (scale[3], scale[leaf]) == pytest.approx((np.sqrt(3 / 5), np.sqrt(2)))
    P = gcn_weights(trees.shape, trees.at(UNEVEN.in_degree), scale)
    assert P[3, 3] == pytest.approx(1 / 5)
    assert P[0, 3] == pytest.approx(1 / (np.sqrt(3) * np.sqrt(4)))
    assert P[3, leaf] == pytest.approx(np.sqrt(3) / (np.sqrt(2) * 5))
    assert P[3, 0] == pytest.approx(np.sqrt(3) / (5 * np.sqrt(4)))
    assert P[3, 0] != pytest.approx(np.sqrt(3) / (4 * np.sqrt(5)))  # as printed


def printed(trees: FoldedTrees, graph: FederatedGraph) -> tuple[sparse.csr_array, Reals]:
    """Appendix A as printed: the weight from root i to child m has D_i and D_m exchanged."""
    D = trees.at(graph.in_degree) + 1.0
    scale = published_scale(trees.shape, trees.at(graph.in_degree))
    weights = gcn_weights(trees.shape, trees.at(graph.in_degree), scale).tolil()
    for m in np.flatnonzero(trees.shape.layer == 1):
        i = trees.shape.father[m]
        weights[m, i] = np.sqrt(3) / (D[i] * np.sqrt(D[m]))
    return sparse.csr_array(weights), gcn_rows(trees, graph.in_degree, scale) @ graph.features.astype(np.float64)


def test_the_printed_weight_is_right_for_equal_degrees_only() -> None:
    """On a ring, where all degrees are equal, Appendix A as printed gives the embedding; elsewhere it does not."""
    network = Network.drawn(2, 0, width=1)
    network = Network(network.own, [np.abs(weight) for weight in network.weights], network.biases)
    ring = graph_of([(v, (v + 1) % 6) for v in range(6)], 6, [0, 1] * 3)
    for graph, right in ((ring, True), (UNEVEN, False)):
        trees = unfold(graph.graph, np.arange(6), 2).folded()
        found = on_tree(*printed(trees, graph), network)[:6]
        assert np.allclose(found, gcn(graph.graph, network), atol=1e-5) is right


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_one_wrong_weight_is_enough(backbone: str, hops: int) -> None:
    """Whichever message's weight is off by a tenth, some root's embedding is off: none is there for nothing."""
    network, trees = Network.drawn(hops, 0, width=1), trees_of(UNEVEN, hops, alone=False)
    own, positive = ([np.abs(weight) for weight in kind] for kind in (network.own, network.weights))
    network, x = Network(own, positive, network.biases), UNEVEN.features.astype(np.float64)
    if backbone == "gcn":
        weights, rows = gcn_weights(trees.shape, trees.at(UNEVEN.in_degree)), gcn_rows(trees, UNEVEN.in_degree) @ x
        expected = gcn(UNEVEN.graph, network)
    else:
        weights, rows = sage_weights(trees.shape, trees.at(UNEVEN.in_degree)), trees.holds @ x
        expected = sage(UNEVEN.graph, network)
    assert len(weights.data)
    for entry in range(len(weights.data)):
        wrong = weights.copy()
        wrong.data[entry] *= 1.1
        assert np.abs(on_tree(wrong, rows, network, own=backbone == "sage")[:6] - expected).max() > 1e-5


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_a_step_back_is_noticed(backbone: str) -> None:
    """A leaf that also holds the features of its father's father, as plain sums of neighbours do, spoils embeddings."""
    trees, network = trees_of(UNEVEN, 2, alone=True), Network.drawn(2, 0, width=1)
    own, positive = ([np.abs(weight) for weight in kind] for kind in (network.own, network.weights))
    network, holds = Network(own, positive, network.biases), trees.holds.tolil()
    for leaf in np.flatnonzero(trees.shape.leaves):
        grandfather = trees.shape.father[trees.shape.father[leaf]]
        holds[leaf, trees.holds[[grandfather]].indices[0]] += 1
    broken = FoldedTrees(trees.shape, sparse.csr_array(holds))
    run, expected = (gcn_on, gcn) if backbone == "gcn" else (sage_on, sage)
    assert np.allclose(run(trees, UNEVEN, network), expected(UNEVEN.graph, network)[:5], atol=1e-5)
    assert not np.allclose(run(broken, UNEVEN, network), expected(UNEVEN.graph, network)[:5], atol=1e-5)


@pytest.mark.parametrize(
    "graph",
    [
        graph_of([], 3, [0, 1, 0]),
        graph_of([(0, 1)], 4, [0, 0, 1, 1]),
        graph_of([(0, 1), (1, 2)], 5, [0, 1, 0, 2, 2]),
        graph_of([(0, 1), (1, 2)], 3),
    ],
    ids=["without edges", "clients without cross edges", "a client without cross edges", "one client"],
)
@pytest.mark.parametrize("hops", [1, 3])
def test_graphs_with_nothing_to_unfold_work(graph: FederatedGraph, hops: int) -> None:
    """Isolated nodes, no edges, no cross edges: embeddings are those of the graph all the same."""
    network, trees = Network.drawn(hops, 0, width=1, bias=1.0), missing_branches(graph, hops).folded()
    np.testing.assert_allclose(gcn_on(trees, graph, network), gcn(graph.graph, network), atol=1e-12)
    np.testing.assert_allclose(sage_on(trees, graph, network), sage(graph.graph, network), atol=1e-12)


def test_deeper_networks_need_deeper_trees() -> None:
    """Trees of K layers do not serve a network of K + 1."""
    graph, network = random_graph(30, 45, 3, 0), Network.drawn(3, 0)
    expected = gcn(graph.graph, network)
    assert np.allclose(gcn_on(missing_branches(graph, 3).folded(), graph, network), expected, atol=1e-5)
    assert not np.allclose(gcn_on(missing_branches(graph, 2).folded(), graph, network), expected, atol=1e-5)


def test_bad_arguments_are_refused() -> None:
    """Counts and factors must be one a position, in range."""
    trees = missing_branches(UNEVEN, 2).folded()
    counts, t = trees.at(UNEVEN.in_degree), trees.shape.size
    with pytest.raises(InputError, check=about("neighbours")):
        gcn_weights(trees.shape, UNEVEN.in_degree)
    with pytest.raises(InputError, check=about("neighbours")):
        sage_weights(trees.shape, counts - counts.max() - 1 + counts.max())
    with pytest.raises(InputError, check=about("scale")):
        gcn_weights(trees.shape, counts, np.zeros(t))
