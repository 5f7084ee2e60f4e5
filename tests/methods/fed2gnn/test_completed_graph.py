"""With the true nodes in the trees, a completed graph is as good as the whole neighbourhood."""

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.hop_sums import HopSums, hop_sums
from fgl_secure.methods.fed2gnn.program import (
    CompletedGraph,
    DecodedChildren,
    TreeLevel,
    complete,
    roots_of,
    sent_values,
)
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.node_models import Matrix, Propagation, Surroundings, degree_weights, make_model
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import graph_of, random_graph
from tests.methods.fed2gnn.small import TrueChildren, channel_of

CPU = torch.device("cpu")
NO_DROPOUT = CoinDropout(0.0, 0)


def with_sums(graph: FederatedGraph, hops: int, kind: Propagation) -> tuple[np.ndarray, HopSums, np.ndarray]:
    degree = graph.in_degree.astype(np.float64)
    values = sent_values(graph.features.astype(np.float64), degree, kind)
    foreign = np.bincount(graph.edges[1, graph.crosses_silos], minlength=graph.num_devices)
    return values, hop_sums(graph, values, hops, Plaintext(), channel_of(graph)), foreign


def completed(graph: FederatedGraph, client: int, hops: int, decoded: int, kind: Propagation) -> CompletedGraph:
    values, sums, foreign = with_sums(graph, hops, kind)
    children = TrueChildren(graph, values, sums.mu[: hops - 1], 2.5)
    return complete(graph, client, roots_of(graph, client, values, sums, foreign), children, decoded, kind)


def scores(backbone: str, hops: int, surroundings: Surroundings, own: int) -> torch.Tensor:
    model = make_model(backbone, (3, 5, 2), hops, seed=1).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.fill_(0.3)
        found: torch.Tensor = model(surroundings, NO_DROPOUT)[:own]
    return found


def whole(graph: FederatedGraph, kind: Propagation) -> Surroundings:
    source, target = graph.edges
    weights = degree_weights(source, target, np.ones(len(source)), graph.in_degree.astype(np.float64), kind)
    return Surroundings(Matrix(sparse.csr_array(graph.features.astype(np.float64))), Matrix(weights))


@pytest.mark.parametrize(("backbone", "kind"), [("gcn", Propagation.SYMMETRIC), ("sage", Propagation.MEAN)])
def test_models_see_no_difference(backbone: str, kind: Propagation) -> None:
    """A client's nodes score as on the whole graph."""
    graph = random_graph(20, 25, 3, 4)
    expected = scores(backbone, 3, whole(graph, kind), graph.num_devices)
    for client in range(graph.num_silos):
        nodes = graph.devices_of(client)
        found = scores(backbone, 3, completed(graph, client, 3, 2, kind).surroundings(kind), len(nodes))
        assert torch.allclose(found, expected[nodes], atol=1e-4)


def test_a_forgotten_level_shows() -> None:
    """With a level of means above the last the scores differ: the comparison above can fail."""
    graph = random_graph(20, 25, 3, 4)
    kind, own = Propagation.SYMMETRIC, len(graph.devices_of(0))
    exact, coarse = (completed(graph, 0, 3, decoded, kind).surroundings(kind) for decoded in (2, 1))
    assert (scores("gcn", 3, exact, own) - scores("gcn", 3, coarse, own)).abs().max() > 1e-3


def test_one_tree_by_hand() -> None:
    """Node 0 is alone at its client and joined to 1, which has neighbours 2 and 3 as well."""
    graph = graph_of([[0, 1], [1, 2], [1, 3]], 4, [0, 1, 1, 1], np.array([[1.0], [2.0], [5.0], [7.0]]))
    found = completed(graph, 0, 2, 1, Propagation.MEAN)
    assert found.rows[:, 0].tolist() == [1, 2, 6]  # the root, its child, and the mean of 5 and 7
    assert sorted(zip(found.source, found.target, found.count, strict=True)) == [
        (0, 1, 1),
        (1, 0, 1),
        (1, 2, 1),
        (2, 1, 2),
    ]
    assert found.neighbours[:2].tolist() == [1, 3]


def test_a_client_without_cross_edges_has_its_local_graph() -> None:
    """No tree hangs on it, however deep trees are."""
    graph = graph_of([[0, 1], [2, 3]], 5, [0, 0, 1, 1, 1])
    found = completed(graph, 0, 3, 2, Propagation.SYMMETRIC)
    assert len(found.rows) == 2
    assert sorted(zip(found.source, found.target, strict=True)) == [(0, 1), (1, 0)]
    alone = completed(graph, 1, 3, 2, Propagation.SYMMETRIC)  # node 4 is isolated
    assert len(alone.rows) == 3


def test_more_levels_than_sums_are_refused() -> None:
    graph = graph_of([[0, 1]], 2, [0, 1])
    with pytest.raises(InputError, check=about("decoded")):
        completed(graph, 0, 2, 3, Propagation.MEAN)


def test_a_mean_keeps_the_sum() -> None:
    """One node for a level, times what it stands for, is the sum of the level; so are sums further below."""
    rng = np.random.default_rng(0)
    nobody = np.full(3, -1)
    level = TreeLevel(
        nobody, rng.normal(size=(3, 2)), rng.normal(size=(3, 4, 2)), np.array([3.0, 0.0, 0.2]), np.ones(3), np.ones(3),
        np.arange(3), nobody,
    )  # fmt: skip
    found = DecodedChildren({}, 10, 2.0, 100).mean(level)
    assert found.parent.tolist() == [0, 2]
    assert found.count.tolist() == [3, 1]
    np.testing.assert_allclose(found.value * found.count[:, None], level.below[[0, 2], 0])
    np.testing.assert_allclose(found.below * found.count[:, None, None], level.below[[0, 2], 1:])


def test_what_is_summed_is_that_of_appendix_a() -> None:
    """GCN sums x / sqrt(degree + 1), and x itself for an isolated node; the mean sums x."""
    rows = np.full((3, 1), 2.0)
    degrees = np.array([1.0, 3.0, 0.0])
    np.testing.assert_allclose(sent_values(rows, degrees, Propagation.SYMMETRIC)[:, 0], [2**0.5, 1, 2])
    np.testing.assert_array_equal(sent_values(rows, degrees, Propagation.MEAN), rows)
