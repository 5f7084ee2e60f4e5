from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.attacks.edge_claims import (
    ClaimedEdges,
    ForeignEdges,
    edges_at_neighbours,
    foreign_edges,
    score_foreign_edges,
)
from fgl_secure.attacks.edge_claims import linked_pairs as undirected
from fgl_secure.attacks.neighbourhoods import clients_of
from fgl_secure.runtime import Role
from tests.attacks.recorded import Run, both_ways, federated
from tests.attacks.structure.hop_runs import record_exchange, scale_free


@pytest.fixture(scope="module")
def run() -> Run:
    """An exchange on a path 0 - 1 - 2 - 3 - 4 over three clients."""
    return record_exchange(federated(both_ways([(0, 1), (1, 2), (2, 3), (3, 4)]), [0, 1, 1, 2, 2]))


def test_foreign_edges_are_those_without_an_end_in_the_client(run: Run) -> None:
    """Of the path's four edges client 0 may find three, client 1 one and client 2 two, of which one is in reach."""
    client, lower, upper = foreign_edges(run.truth)
    found = list(zip(client.tolist(), lower.tolist(), upper.tolist(), strict=True))
    assert found == [(0, 1, 2), (0, 2, 3), (0, 3, 4), (1, 3, 4), (2, 0, 1), (2, 1, 2)]
    reach = edges_at_neighbours(run.truth)
    assert [edge for edge, near in zip(found, reach, strict=True) if near] == [(0, 1, 2), (1, 3, 4), (2, 1, 2)]


def test_claims_are_counted_once() -> None:
    """Whoever makes them and in whatever order, and none where there are none."""
    sources, targets = np.array([3, 5, 3, 0, 5], dtype=np.int64), np.array([5, 3, 5, 0, 4], dtype=np.int64)
    assert ClaimedEdges(sources, targets).number == 4
    assert ClaimedEdges(sources[:0], targets[:0]).number == 0


def test_claims_that_touch_the_client_are_dropped(run: Run) -> None:
    """Own edges, pairs of one node and repetitions never become claims."""
    client = clients_of(run.transcript.views(Role.SILO))[1]
    guess = ForeignEdges.claimed(client, np.array([4, 3, 1, 3, 0]), np.array([3, 4, 3, 3, 2]))
    assert list(zip(guess.clients, guess.lower, guess.upper, strict=True)) == [(1, 3, 4)]


def test_scores_count_clients_apart() -> None:
    """One right and one wrong claim of one client: precision one half, recall one of all clients' foreign edges."""
    run = record_exchange(scale_free(60, 3))
    client, lower, upper = foreign_edges(run.truth)
    dense = undirected(run.truth).toarray() + np.eye(60)
    abroad = np.flatnonzero(run.truth.silo_of != client[0])
    a, b = next((a, b) for a in abroad for b in abroad if a < b and not dense[a, b])
    guess = ForeignEdges(client[[0, 0]], np.array([lower[0], a]), np.array([upper[0], b]))
    precision, recall, gain = score_foreign_edges(guess, run.truth, edges_at_neighbours(run.truth))
    assert precision.value == 0.5
    assert recall.value == pytest.approx(1 / len(client))
    assert recall.n <= 60 / 2
    assert gain.value > 0
    assert (precision.context, recall.context) == (True, False)
    assert recall.reachable == edges_at_neighbours(run.truth).mean()
    elsewhere = ForeignEdges(1 - client[[0, 0]], guess.lower, guess.upper)
    assert score_foreign_edges(elsewhere, run.truth, edges_at_neighbours(run.truth))[0].value in (0, 0.5)


def test_all_right_claims_are_a_complete_break() -> None:
    """Whoever names every foreign edge and no other has precision, recall and advantage 1."""
    run = record_exchange(scale_free(60, 3))
    guess = ForeignEdges(*foreign_edges(run.truth))
    reach = np.ones(len(guess.clients), dtype=np.bool_)
    assert [found.value for found in score_foreign_edges(guess, run.truth, reach)] == [1, 1, 1]
    null = score_foreign_edges(guess, run.truth.permuted(1), reach)
    assert null[0].value < 3 * null[0].prior
