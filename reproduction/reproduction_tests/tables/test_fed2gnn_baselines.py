"""What Fed2GNN is compared with sees what its name says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_reproduction.tables.fed2gnn_baselines import Fed2GNNBaseline, Seen, baseline_of, seen_by
from fgl_secure.schemes import server_scheme
from fgl_secure.training.one_process import OneProcess
from tests.methods.fed2gnn.oracles import graph_of
from tests.methods.fed2gnn.small import PLAIN, QUICK, channel_of, some_digits

GRAPH = some_digits(200, 3)
PATH = graph_of([[0, 1], [1, 2], [2, 3], [3, 4]], 5, [0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("baseline", "hops", "nodes"),
    [(Fed2GNNBaseline.FEDAVG, 2, 2), (Fed2GNNBaseline.FULL, 1, 3), (Fed2GNNBaseline.FULL, 2, 4)],
)
def test_a_client_has_so_many_hops(baseline: Fed2GNNBaseline, hops: int, nodes: int) -> None:
    """On a path of five nodes, of which it has the first two."""
    seen, reach = seen_by(PATH, baseline, hops)
    process = OneProcess(PATH, {}, channel_of(PATH), lambda talk: Seen(talk, PLAIN, seen, reach))
    first = process.programs[0]
    assert isinstance(first, Seen)
    assert (first.surroundings().neighbours @ torch.ones(nodes, 1)).shape == (nodes, 1)
    assert first.silo.nodes.tolist() == [0, 1]


def test_without_cross_edges_fedavg_lacks_nothing() -> None:
    """FedAvg and FedAvg-Full then are one, bit for bit; with cross edges they are not."""
    apart = GRAPH.restricted_to_silos()
    one, same, other = (
        baseline_of(graph, baseline, PLAIN).train().losses
        for graph, baseline in (
            (apart, Fed2GNNBaseline.FEDAVG),
            (apart, Fed2GNNBaseline.FULL),
            (GRAPH, Fed2GNNBaseline.FULL),
        )
    )
    assert one == same
    assert one != other


def test_central_training_does_not_depend_on_who_has_what() -> None:
    """One party has everything: other clients, the same result."""
    other = some_digits(200, 5)
    central = Fed2GNNBaseline.CENTRAL
    assert baseline_of(GRAPH, central, QUICK).train().losses == baseline_of(other, central, QUICK).train().losses


def test_masked_models_average_to_the_same() -> None:
    """Pairwise masking of what clients send changes no bit of FedAvg."""
    channel = channel_of(GRAPH)
    scheme = server_scheme("pairwise-masking")
    masked = baseline_of(GRAPH, Fed2GNNBaseline.FEDAVG, QUICK, scheme=scheme).train(channel)
    assert masked.losses == baseline_of(GRAPH, Fed2GNNBaseline.FEDAVG, QUICK).train().losses


def test_the_latent_map_can_be_shared_or_not() -> None:
    """What Fed2GNN is compared with starts from the same mapped features, unless the preset says otherwise."""
    shared, own = (
        baseline_of(GRAPH, Fed2GNNBaseline.FULL, replace(QUICK, shared_latent=share)).train().losses
        for share in (True, False)
    )
    plain = baseline_of(GRAPH, Fed2GNNBaseline.FULL, replace(QUICK, latent=None)).train().losses
    assert own == plain
    assert shared != plain


def test_adam_may_start_anew_every_round() -> None:
    """The first round is the same, later ones are not."""
    going_on, anew = (
        baseline_of(GRAPH, Fed2GNNBaseline.FEDAVG, replace(PLAIN, keep_moments=keep)).train().losses
        for keep in (True, False)
    )
    assert going_on[:2] == anew[:2]
    assert not np.allclose(going_on[3:], anew[3:])
