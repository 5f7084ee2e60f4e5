"""Hop by hop, structure embeddings and their gradients are those of the rows that nobody holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import adjacency_powers, combined_adjacency
from fgl_secure.methods.fedstruct.structure_sum import HOP_GRADIENTS, HOP_SUMS, OWN_HOP_ROWS, HeldRows, Hopwise
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from tests.graphs import two_communities

HOPS, WIDTH = 3, 2


@pytest.fixture
def graph() -> FederatedGraph:
    return two_communities(devices=24, silos=3)


def channel(graph: FederatedGraph, scheme: Scheme, recording: Recording | None = None) -> Channel:
    return Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), recording)


def embeddings(graph: FederatedGraph) -> torch.Tensor:
    return torch.randn(graph.num_devices, WIDTH, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1)], ids=str)
@pytest.mark.parametrize("weights", [None, (0.2, 0.0, 0.5)])
def test_embeddings_and_gradients_are_those_of_the_powers(
    graph: FederatedGraph, scheme: Scheme, weights: tuple[float, ...] | None
) -> None:
    """Forward and backward agree with A-bar computed centrally, to the precision of fixed point."""
    rows = combined_adjacency(adjacency_powers(graph.graph, HOPS), weights)
    found, expected = embeddings(graph), embeddings(graph)
    torch.autograd.backward(
        Hopwise(graph, channel(graph, scheme), scheme, WIDTH, HOPS, weights)(found, Step(0)).pow(2).sum()
    )
    torch.autograd.backward(HeldRows(rows)(expected, Step(0)).pow(2).sum())
    assert found.grad is not None
    assert expected.grad is not None
    assert torch.allclose(found.grad, expected.grad, atol=1e-4)


def test_nothing_but_sums_over_foreign_neighbours_travels(graph: FederatedGraph) -> None:
    """Under plaintext every message joins ends of a cross edge; nobody notes a row of a power."""
    run = channel(graph, Plaintext(), Recording.everything())
    torch.autograd.backward(Hopwise(graph, run, Plaintext(), WIDTH, HOPS)(embeddings(graph), Step(0)).sum())
    cross = int(graph.crosses_silos.sum())
    assert {batch.phase for batch in run.transcript.messages} == {Phase.VALUES}
    assert run.transcript.message_count == 2 * HOPS * cross
    view = run.transcript.views(Role.SILO)
    assert not view.own("hop rows")
    assert not view.own("combined rows")
    assert len(view.own(HOP_SUMS)) == len(view.own(OWN_HOP_ROWS)) == len(view.own(HOP_GRADIENTS)) == HOPS


def test_what_a_client_notes_is_its_own(graph: FederatedGraph) -> None:
    """Hop sums, own rows and gradients are noted for the client whose node they belong to."""
    run = channel(graph, Plaintext(), Recording.everything())
    torch.autograd.backward(Hopwise(graph, run, Plaintext(), WIDTH, HOPS)(embeddings(graph), Step(0)).sum())
    for name in (HOP_SUMS, OWN_HOP_ROWS, HOP_GRADIENTS):
        for rows in run.transcript.views(Role.SILO).own(name):
            assert np.array_equal(graph.silo_of[rows.values[:, 0].astype(int)], rows.observers)


def test_small_groups_are_left_out_and_the_degree_follows(graph: FederatedGraph) -> None:
    """With k_min 3, a node with fewer foreign neighbours averages over those that it hears of."""
    scheme = Plaintext(minimum_group=3)
    ones = torch.ones(graph.num_devices, 1)
    combined = Hopwise(graph, channel(graph, scheme), scheme, 1, 2)(ones, Step(0))
    assert torch.allclose(combined, ones)


@pytest.mark.parametrize(
    ("hops", "weights", "rule"),
    [(0, None, "hops must be at least 1; found 0"), (2, (1.0,), "weights must have one number for each of 2 powers")],
)
def test_bad_choices_are_refused(
    graph: FederatedGraph, hops: int, weights: tuple[float, ...] | None, rule: str
) -> None:
    """Hops start at 1, and every power has its weight."""
    with pytest.raises(InputError, match=rule):
        Hopwise(graph, channel(graph, Plaintext()), Plaintext(), WIDTH, hops, weights)
