"""A hierarchy from a graph, and sums between its parties."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from fgl_secure import FixedPoint, Hierarchy, LagrangeCode, ckks_sum
from fgl_secure.errors import FglSecureError, FieldRangeError, InputError
from fgl_secure.runtime import Role
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities(devices=40, silos=4)
ROWS = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize("scheme", ["plaintext", "secmp", "relay-coded[small_groups=skip]", "relay-coded"])
def test_neighbours_are_summed(scheme: str) -> None:
    """Under each scheme the sums are those of plain addition, where they are computed."""
    there = Hierarchy(GRAPH)
    found = there.sum_neighbours(ROWS, scheme)
    expected = np.zeros_like(ROWS)
    np.add.at(expected, GRAPH.edges[1], ROWS[GRAPH.edges[0]])
    assert np.allclose(found.sums[found.exact], expected[found.exact], atol=1e-3)
    assert not found.sums[found.terms == 0].any()
    assert found.exact.mean() > 0.5
    assert found.sent > 0


def test_sums_over_others_are_said_to_be() -> None:
    """Small sums that are filled with rows from two hops away are not exact, and differ from the neighbours'."""
    path = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    there, rows = Hierarchy.from_graph(path, silos=[0, 0, 1, 1]), np.array([[1.0], [2.0], [3.0], [4.0]])
    filled = there.sum_neighbours(rows, "relay-coded")
    assert not filled.exact.any()
    assert filled.terms.min() > 0
    assert not there.sum_neighbours(rows).terms.any()
    assert there.sum_neighbours(rows, "plaintext").exact.all()


def test_a_graph_of_edges_alone_is_taken() -> None:
    """As Data without features, whose isolated nodes count, or as an edge_index."""
    data = SimpleNamespace(edge_index=np.array([[0, 1], [1, 0]]), num_nodes=5)
    assert Hierarchy.from_graph(data, 2).graph.num_devices == 5


def test_its_parties_are_those_of_the_graph() -> None:
    there = Hierarchy.from_graph([[0, 1, 1, 2], [1, 0, 2, 1]], silos=[0, 0, 1])
    assert dict(there.parties.counts) == {Role.SERVER: 1, Role.SILO: 2, Role.DEVICE: 3}
    assert there.devices_of(0).tolist() == [0, 1]
    assert repr(there) == "Hierarchy(devices=3, silos=2, edges between silos=2)"


def test_a_sum_under_ckks_is_the_sum() -> None:
    """Up to half a unit per client, as the result states."""
    matrices = [np.random.default_rng(each).normal(size=(4, 5)) for each in range(3)]
    found = ckks_sum(matrices)
    assert np.abs(found.total - sum(matrices)).max() <= found.error < 1e-6
    assert found.sent > 100_000


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: ckks_sum([np.ones((2, 2))]), InputError, "matrices"),
        (lambda: ckks_sum([np.ones((2, 2)), np.ones(2)]), InputError, "matrices"),
        (lambda: ckks_sum([np.ones(2), np.array([1, np.inf])]), InputError, "matrices"),
        (lambda: ckks_sum([np.ones(2), np.array(["a", "b"])]), InputError, "matrices"),
        (lambda: ckks_sum([np.ones(2), np.ones(2)], bound=0.5), FieldRangeError, "entries"),
        (lambda: Hierarchy(GRAPH).sum_neighbours(ROWS[1:]), InputError, "rows"),
        (lambda: Hierarchy(GRAPH).sum_neighbours(ROWS, "ckks"), InputError, "scheme"),
        (lambda: Hierarchy.from_graph(np.ones((3, 3)), 2), InputError, "graph"),
        (lambda: Hierarchy.from_graph(np.ones((2, 3)), 2), InputError, "graph"),
        (lambda: Hierarchy.from_graph([[0, 1], [1, 0]], 2.0), InputError, "silos"),
        (lambda: LagrangeCode(K=cast(int, 2.0), T=1, N=9), InputError, "K, T and N"),
        (lambda: FixedPoint.for_values(np.ones(2), degree=cast(int, 2.0)), InputError, "terms and degree"),
        (
            lambda: LagrangeCode(N=4).decode(np.zeros((4, 1), np.int64), range(4), degree=cast(int, 1.0)),
            InputError,
            "degree",
        ),
        (lambda: Hierarchy.from_graph([[0, 10**9], [10**9, 0]], 2), InputError, "edge_index"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], error: type[FglSecureError], name: str) -> None:
    with pytest.raises(error, check=about(name)):
        call()
