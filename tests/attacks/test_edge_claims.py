from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.edge_claims import ForeignEdges, edges_at_neighbours, foreign_edges, score_foreign_edges
from fgl_secure.attacks.neighbourhoods import clients_of, undirected_adjacency
from fgl_secure.attacks.recovery import ClaimedTerms, RecoveredRows, score_claimed_terms, score_recovered_rows
from fgl_secure.attacks.row_space import row_basis, solver
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Direction, Party, Role, Step
from tests.attacks.recorded import Run, both_ways, federated, record, star_and_path, whole_numbers
from tests.attacks.structure.structure_runs import record_exchange, scale_free


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


def test_scores_count_clients_apart() -> None:
    """One right and one wrong claim of one client: precision one half, recall one of all clients' foreign edges."""
    run = record_exchange(scale_free(60, 3))
    client, lower, upper = foreign_edges(run.truth)
    dense = undirected_adjacency(run.truth.edges, 60).toarray() + np.eye(60)
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
    null = score_foreign_edges(guess, run.truth.permute(1), reach)
    assert null[0].value < 3 * null[0].prior


def test_clients_know_their_edges_and_whose_their_neighbours_are(run: Run) -> None:
    """Client 1 of the path owns 1 and 2, sees 0 and 3 and their owners, and nothing of 4."""
    client = clients_of(run.transcript.views(Role.SILO))[1]
    assert client.index == 1
    assert np.flatnonzero(client.owned).tolist() == [1, 2]
    assert client.client_of.tolist() == [0, 1, 1, 2, -1]
    assert client.outside.tolist() == [0, 3]
    assert np.stack(client.crossing.nonzero()).T.tolist() == [[1, 0], [2, 3]]


def test_a_coalition_is_one_client(run: Run) -> None:
    """Two clients that pool what they know own the nodes of both."""
    (both,) = clients_of(run.transcript.view([Party(Role.SILO, 0), Party(Role.SILO, 2)]))
    assert np.flatnonzero(both.owned).tolist() == [0, 3, 4]
    assert both.outside.tolist() == [1, 2]


@given(st.integers(0, 10_000))
def test_determined_unknowns_are_the_same_in_all_solutions(seed: int) -> None:
    """What a solver reads is right; what it does not read differs between two solutions of the same equations."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((4, 6)) < 0.35).astype(np.float64)
    secret = rng.normal(size=(6, 3))
    solution = solver(matrix)
    assert solution.weights @ (matrix @ secret) == pytest.approx(secret[solution.unknowns], abs=1e-9)
    basis = row_basis(matrix)
    free = np.eye(6) - basis.T @ basis  # every change that no sum shows
    moved = np.abs(free).max(axis=1) > 1e-6
    assert np.flatnonzero(~moved).tolist() == solution.unknowns.tolist()


def test_prior_is_the_most_frequent_row_of_the_attacked_messages() -> None:
    """Three messages with one row and one with another: naming the first is right in three of four."""
    values = np.array([[1.0], *[[2.0]] * 8])
    run = record(star_and_path(), Plaintext(), values)
    devices = run.transcript.parties.ids(Role.DEVICE)
    guess = RecoveredRows(Step(0, 0), devices[[0, 1, 2, 3]], values[[0, 1, 2, 0]])
    (found,) = score_recovered_rows([guess], run.truth)
    assert found.value == pytest.approx(3 / 4)
    assert found.prior == pytest.approx(3 / 4)
    assert found.random == 0
    assert found.finding.startswith("3 of 4 rows of 1 coordinates read exactly")
    assert "33.3% of all such messages" in found.finding  # 4 of the 12 that were sent


def test_gradients_are_scored_apart_from_embeddings() -> None:
    """What was read on the way back has a figure of its own, which misses on the way there leave alone."""
    forward, backward = Step(0, 0), Step(0, 0, Direction.BACKWARD)
    run = record(star_and_path(), Plaintext(), whole_numbers(9, 4, 40))
    embeddings = run.truth.embeddings[forward]
    truth = replace(run.truth, embeddings={forward: embeddings, backward: -embeddings})
    devices = run.transcript.parties.ids(Role.DEVICE)
    guess = [RecoveredRows(forward, devices, embeddings + 1), RecoveredRows(backward, devices, -embeddings)]
    found = score_recovered_rows(guess, truth)
    assert [(each.metric, each.value, each.n) for each in found] == [
        ("exact recovery", 0, 9),
        ("exact gradients", 1, 9),
    ]
    assert [each.metric for each in score_recovered_rows(guess[1:], truth)] == ["exact gradients"]


def test_rows_of_zeros_count_neither_for_nor_against() -> None:
    """A row of zeros is no secret: reading it is no success, misreading it no failure, and alone it is no figure."""
    values = whole_numbers(9, 4, 40)
    values[[0, 1]] = 0
    run = record(star_and_path(), Plaintext(), values)
    devices, read = run.transcript.parties.ids(Role.DEVICE), values.copy()
    read[[1, 2]] += 1
    (found,) = score_recovered_rows([RecoveredRows(Step(0, 0), devices, read)], run.truth)
    assert found.value == pytest.approx(6 / 7)
    assert found.n == 7
    assert found.prior == pytest.approx(1 / 7)
    assert score_recovered_rows([RecoveredRows(Step(0, 0), devices[:2], values[:2])], run.truth) == ()


def test_claimed_terms_are_matched_as_multisets() -> None:
    """A row that two neighbours have counts twice if claimed twice, and once if claimed once or in another sum."""
    values = np.array([[1.0], [2.0], [2.0], [3.0], [4.0], *[[9.0]] * 4])
    run = record(star_and_path(), Plaintext(), values)
    devices = run.transcript.parties.ids(Role.DEVICE)
    centre = devices[[0, 0, 0, 0, 6]]
    guess = ClaimedTerms(Step(0, 0), centre, np.array([[2.0], [2.0], [2.0], [5.0], [3.0]]))
    read, exact = score_claimed_terms(guess, run.truth)
    assert (read.metric, read.context, exact.metric, exact.context) == ("messages read", False, "precision", True)
    assert read.value == pytest.approx(2 / 12)
    assert exact.value == pytest.approx(2 / 5)
    assert read.prior == exact.prior == pytest.approx(4 / 12)  # the ends of the path and its middle share a row
    assert read.finding == "2 of 12 rows are read exactly out of sums; 2 of 5 rows that are claimed are right."
