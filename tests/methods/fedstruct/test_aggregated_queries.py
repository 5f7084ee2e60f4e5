"""Answers to weighted queries give the embeddings that held rows give, as far as they are answered."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import adjacency_powers, combined_adjacency
from fgl_secure.methods.fedstruct.aggregated_queries import AggregatedQueries
from fgl_secure.methods.fedstruct.gradients import AtOwners
from fgl_secure.methods.fedstruct.structure_sum import HeldRows
from fgl_secure.protocols.query_audit import AuditRule
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.runtime.view import ReceivedRows
from fgl_secure.training.parties import hierarchy_of
from tests.graphs import two_communities

EVERYTHING = AuditRule(1.0, 1)


@pytest.fixture
def graph() -> FederatedGraph:
    return two_communities(devices=24, silos=3)


@pytest.fixture
def rows(graph: FederatedGraph) -> sparse.csr_array:
    return combined_adjacency(adjacency_powers(graph.graph, 2))


def channel(graph: FederatedGraph) -> Channel:
    return Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())


def embeddings(graph: FederatedGraph) -> torch.Tensor:
    return torch.randn(graph.num_devices, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


def answers_in(run: Channel) -> tuple[ReceivedRows, np.ndarray]:
    (answers,) = run.transcript.views(Role.SILO).messages(Phase.QUERY_ANSWERS)
    assert answers.payload is not None
    return answers, answers.payload


@pytest.mark.parametrize("delivered", [False, True])
def test_answered_queries_give_what_held_rows_give(
    graph: FederatedGraph, rows: sparse.csr_array, delivered: bool
) -> None:
    """With a rule that refuses nothing, embeddings and gradients are those of A-bar, also where owners are told."""
    delivery = AtOwners() if delivered else None
    found, expected = embeddings(graph), embeddings(graph)
    torch.autograd.backward(
        AggregatedQueries(graph, channel(graph), rows, EVERYTHING, delivery)(found, Step(0)).pow(2).sum()
    )
    torch.autograd.backward(HeldRows(rows)(expected, Step(0)).pow(2).sum())
    assert found.grad is not None
    assert expected.grad is not None
    assert torch.allclose(found.grad, expected.grad, atol=1e-5)


def test_answers_are_the_weighted_sums_of_their_queries(graph: FederatedGraph, rows: sparse.csr_array) -> None:
    """Client j answers client i's query for node v with the sum of A-bar_vu g(s_u) over its own nodes u."""
    run, values = channel(graph), embeddings(graph)
    AggregatedQueries(graph, run, rows, EVERYTHING)(values, Step(0))
    answers, payload = answers_in(run)
    dense, g = rows.toarray(), values.detach().numpy()
    for receiver, sender, answer in zip(answers.receivers, answers.senders, payload, strict=True):
        node = int(answer[0])
        theirs = graph.devices_of(int(sender) - 1)
        assert graph.silo_of[node] == receiver - 1
        assert np.allclose(answer[1:], dense[node, theirs] @ g[theirs], atol=1e-5)


@pytest.mark.parametrize("pooled", [False, True])
def test_what_is_answered_obeys_the_rule(graph: FederatedGraph, rows: sparse.csr_array, pooled: bool) -> None:
    """Per requester, or for all of them together, no node's leverage exceeds tau among the answered queries."""
    run = channel(graph)
    queries = AggregatedQueries(graph, run, rows, AuditRule(0.6, 2), pooled=pooled)
    queries(embeddings(graph), Step(0))
    answers, payload = answers_in(run)
    dense = rows.toarray()
    assert 0 < queries.refused < queries.asked
    for owner in range(3):
        theirs = graph.devices_of(owner)
        for receivers in [[0, 1, 2]] if pooled else [[0], [1], [2]]:
            chosen = (answers.senders == owner + 1) & np.isin(answers.receivers - 1, receivers)
            block = dense[payload[chosen, 0].astype(int)][:, theirs]
            assert _leverage(block) <= 0.6 + 1e-9
            assert (np.count_nonzero(block, axis=1) >= 2).all()


def _leverage(block: np.ndarray) -> float:
    if not len(block):
        return 0.0
    _, values, right = np.linalg.svd(block, full_matrices=False)
    return float((right[values > 1e-9 * values[0]] ** 2).sum(axis=0).max())


def test_pooled_audits_answer_less(graph: FederatedGraph, rows: sparse.csr_array) -> None:
    """Assuming that requesters pool their answers leaves fewer to give."""
    alone, pooled = (
        AggregatedQueries(graph, channel(graph), rows, AuditRule(0.6, 2), pooled=pooled).refused
        for pooled in (False, True)
    )
    assert pooled > alone


def test_counting_answers_what_gives_nodes_away(graph: FederatedGraph, rows: sparse.csr_array) -> None:
    """The published rule answers queries that bring a node's leverage to 1."""
    run = channel(graph)
    queries = AggregatedQueries(graph, run, rows, None, width=256)
    queries(embeddings(graph), Step(0))
    assert queries.refused == 0
    assert queries.leverage.max() > 1 - 1e-9
    dense = rows.toarray()
    exposed = [
        _leverage(dense[graph.devices_of(i)][:, graph.devices_of(j)]) for i in range(3) for j in range(3) if i != j
    ]
    assert max(exposed) > 1 - 1e-9


def test_the_published_count_refuses_in_order(graph: FederatedGraph, rows: sparse.csr_array) -> None:
    """With Eq. 49's limit, m queries over m nodes at most, some clients refuse; labelled nodes have asked first."""
    assert AggregatedQueries(graph, channel(graph), rows, None, width=1).refused > 0
