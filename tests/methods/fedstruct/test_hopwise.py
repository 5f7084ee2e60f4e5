"""Hop by hop, structure embeddings and their gradients are those of the rows that nobody holds."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.structure_features import adjacency_powers, combined_adjacency
from fgl_secure.methods.fedstruct.exchange import HopwiseExchange
from fgl_secure.methods.fedstruct.preset import fedstruct_preset
from fgl_secure.methods.fedstruct.program import FedStructTask, clients_of
from fgl_secure.methods.fedstruct.structure import HOP_GRADIENTS, HOP_SUMS, OWN_HOP_ROWS, HeldRows, Hopwise
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.methods.fedstruct.passes import passed

HOPS, WIDTH = 3, 2
EMBEDDINGS = np.random.default_rng(0).normal(size=(24, WIDTH)).astype(np.float32)


@pytest.fixture
def graph() -> FederatedGraph:
    return two_communities(devices=24, silos=3)


def hopwise(
    graph: FederatedGraph, scheme: Scheme, embeddings: Array = EMBEDDINGS, hops: int = HOPS
) -> tuple[dict[str, Array], Channel]:
    """Embeddings and gradients of all nodes, and the channel that they went over."""
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    found, _ = passed(
        graph, {"neighbours": scheme}, channel, embeddings, lambda comm: Hopwise(comm, hops), crossing=True
    )
    return found, channel


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)], ids=str)
def test_embeddings_and_gradients_are_those_of_the_power(graph: FederatedGraph, scheme: Scheme) -> None:
    """Forward and backward agree with A-bar computed centrally, to the precision of fixed point."""
    found, _ = hopwise(graph, scheme)
    expected = torch.from_numpy(EMBEDDINGS).requires_grad_()
    z = HeldRows(adjacency_powers(graph.graph, HOPS)[-1]).combine(expected)
    torch.autograd.backward(z.pow(2).sum())
    assert expected.grad is not None
    assert np.allclose(found["z"], z.detach().numpy(), atol=1e-4)
    assert np.allclose(found["gradient"], expected.grad.numpy(), atol=1e-4)


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)], ids=str)
def test_embeddings_of_all_hops_are_weighed(graph: FederatedGraph, scheme: Scheme) -> None:
    """Forward and backward agree with the filter computed centrally; nothing more is said than for the last hop."""
    betas = (1.0, -0.5, *[0.25] * (HOPS - 1))
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    found, _ = passed(
        graph, {"neighbours": scheme}, channel, EMBEDDINGS, lambda comm: Hopwise(comm, HOPS, betas=betas), crossing=True
    )
    expected = torch.from_numpy(EMBEDDINGS).requires_grad_()
    z = HeldRows(combined_adjacency(adjacency_powers(graph.graph, HOPS), betas)).combine(expected)
    torch.autograd.backward(z.pow(2).sum())
    assert expected.grad is not None
    assert np.allclose(found["z"], z.detach().numpy(), atol=1e-4)
    assert np.allclose(found["gradient"], expected.grad.numpy(), atol=1e-4)
    plain, run = hopwise(graph, scheme)
    assert not np.allclose(found["z"], plain["z"], atol=1e-2)
    assert channel.transcript.message_count == run.transcript.message_count


def test_nothing_but_sums_over_foreign_neighbours_travels(graph: FederatedGraph) -> None:
    """In the clear every message joins ends of a cross edge; nobody notes a row of a power."""
    _, run = hopwise(graph, Plaintext())
    cross = int(graph.crosses_silos.sum())
    assert {batch.phase for batch in run.transcript.messages} == {Phase.VALUES}
    assert run.transcript.message_count == 2 * HOPS * cross
    view = run.transcript.views(Role.SILO)
    assert not view.own("hop rows")
    assert not view.own("combined rows")
    assert len(view.own(HOP_SUMS)) == len(view.own(OWN_HOP_ROWS)) == len(view.own(HOP_GRADIENTS)) == HOPS


def test_edges_of_one_direction_are_refused(graph: FederatedGraph) -> None:
    """Embeddings travel one way and gradients the other, and degrees are those of both."""
    one_way = graph.edges[:, graph.edges[0] < graph.edges[1]]
    directed = replace(graph, graph=Graph.from_arrays("directed", graph.features, graph.labels, one_way))
    task = FedStructTask(fedstruct_preset("honest", "Cora"), HopwiseExchange(Plaintext()))
    with pytest.raises(InputError, check=about("graph")):
        clients_of(directed, task)
