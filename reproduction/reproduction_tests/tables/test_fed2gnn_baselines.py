"""What Fed2GNN is compared with sees what its name says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_reproduction.tables.fed2gnn_baselines import (
    Fed2GNNBaseline,
    VisibleGraphClient,
    baseline_of,
    nodes_within,
    seen_by,
    surroundings,
)
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.training.node_models import backbone_of
from fgl_secure.training.one_process import OneProcess
from tests.methods.fed2gnn.oracles import graph_of, random_graph
from tests.methods.fed2gnn.small import PLAIN, QUICK, channel_of, some_digits, train, true_children
from tests.methods.fed2gnn.test_completed_graph import CPU, completed, scores
from tests.training.processes.runs import agree, apart, in_lockstep

GRAPH = some_digits(200, 3)
PATH = graph_of([[0, 1], [1, 2], [2, 3], [3, 4]], 5, [0, 0, 1, 1, 1])


@pytest.mark.parametrize(
    ("baseline", "hops", "nodes"),
    [(Fed2GNNBaseline.FEDAVG, 2, 2), (Fed2GNNBaseline.FULL, 1, 3), (Fed2GNNBaseline.FULL, 2, 4)],
)
def test_a_client_has_so_many_hops(baseline: Fed2GNNBaseline, hops: int, nodes: int) -> None:
    """On a path of five nodes, of which it has the first two."""
    seen, reach = seen_by(PATH, baseline, hops)
    process = OneProcess(PATH, {}, channel_of(PATH), lambda comm: VisibleGraphClient(comm, PLAIN, seen, reach))
    first = process.programs[0]
    assert isinstance(first, VisibleGraphClient)
    assert (first.surroundings().neighbours @ torch.ones(nodes, 1)).shape == (nodes, 1)
    assert first.silo.nodes.tolist() == [0, 1]


def test_without_cross_edges_fedavg_lacks_nothing() -> None:
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


def test_features_go_through_the_latent_map_or_not() -> None:
    """What Fed2GNN is compared with starts from mapped features as it does itself, unless there is no map."""
    mapped, plain = (
        baseline_of(GRAPH, Fed2GNNBaseline.FULL, preset).train().losses
        for preset in (QUICK, replace(QUICK, latent=None))
    )
    assert mapped != plain


def test_adam_may_start_anew_every_round() -> None:
    """The first round is the same, later ones are not."""
    going_on, anew = (
        baseline_of(GRAPH, Fed2GNNBaseline.FEDAVG, replace(PLAIN, keep_moments=keep)).train().losses
        for keep in (True, False)
    )
    assert going_on[:2] == anew[:2]
    assert not np.allclose(going_on[3:], anew[3:])


@pytest.mark.parametrize("baseline", [Fed2GNNBaseline.FEDAVG, Fed2GNNBaseline.FULL])
def test_baselines_are_those_of_one_process(baseline: Fed2GNNBaseline) -> None:
    """Under masks, put down after each turn."""
    job = baseline_of(GRAPH, baseline, QUICK, scheme=PairwiseMasking())
    expected = in_lockstep(job.open(channel_of(GRAPH)))
    agree(apart(job, put_down=True), expected)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_true_children_train_like_full_neighbourhoods(backbone: str) -> None:
    """With what is there in place of what was decoded, every round is that of FedAvg-Full, up to rounding."""
    ours = train(GRAPH, PLAIN, backbone=backbone, children=true_children(GRAPH, PLAIN, backbone))
    full = baseline_of(GRAPH, Fed2GNNBaseline.FULL, PLAIN, backbone=backbone).train()
    np.testing.assert_allclose(ours.losses, full.losses, rtol=1e-5)
    assert ours.accuracy == full.accuracy
    less = baseline_of(GRAPH, Fed2GNNBaseline.FEDAVG, PLAIN, backbone=backbone).train()
    assert np.abs(np.array(ours.losses) - less.losses).max() > 1e-3


def test_one_client_needs_nobody() -> None:
    """Without cross edges the completed graph is the whole graph: central training, in the latent space or not."""
    graph = GRAPH.in_one_silo()
    ours = train(graph, PLAIN)
    central = baseline_of(GRAPH, Fed2GNNBaseline.CENTRAL, PLAIN).train()
    np.testing.assert_allclose(ours.losses, central.losses, rtol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["gcn", "sage", "dagnn"]), st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000), st.booleans()
)
def test_true_trees_give_the_scores_of_the_whole_graph(
    backbone: str, hops: int, silos: int, seed: int, summed: bool
) -> None:
    """A client's own nodes score the same, for every model and depth; with last layers summed up for GCN and GraphSAGE.

    DAGNN's perceptron is not linear, so that a sum of rows is no row to it, and its last layer is left as it is.
    """
    graph = random_graph(20, 25, silos, seed)
    kind = backbone_of(backbone).propagation
    decoded = hops - 1 if summed and backbone != "dagnn" else hops
    seen, reach = seen_by(graph, Fed2GNNBaseline.FULL, hops)
    for client in range(graph.num_silos):
        own = len(graph.devices_of(client))
        trees = completed(graph, client, hops, decoded, kind).surroundings(kind)
        nodes = nodes_within(seen, graph.devices_of(client), reach)
        wanted = scores(backbone, hops, surroundings(seen, nodes, seen.features[nodes], kind, CPU), own)
        torch.testing.assert_close(scores(backbone, hops, trees, own), wanted, rtol=1e-3, atol=1e-4)
