"""What FedStruct is compared with: who sees what."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_reproduction.tables.fedstruct_baselines import (
    CENTRAL_GNN,
    CENTRAL_MLP,
    FEDAVG_GNN,
    FEDAVG_MLP,
    FEDSGD_DGCN,
    FEDSGD_GNN,
    LOCAL_GNN,
    FedStructBaseline,
    SharedParts,
    baseline_job,
    train_baseline,
)
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedstruct.preset import AccuracyAveraging, FeatureModelKind, FedStructPreset, Weighting
from fgl_secure.runtime import Channel
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.typing import Array
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = FedStructPreset("quick", 4, 0.02, 0.02, 1e-3, 0.0, (6,), 2, (6, 5), (7,), 3)


@pytest.mark.parametrize("baseline", [CENTRAL_GNN, CENTRAL_MLP, FEDAVG_GNN, FEDSGD_GNN, FEDSGD_DGCN, LOCAL_GNN])
def test_baselines_train(baseline: FedStructBaseline) -> None:
    """Every baseline runs its rounds and has an accuracy."""
    result = train_baseline(baseline, GRAPH, QUICK)
    assert result.rounds == QUICK.epochs
    assert result.accuracy.test is not None
    assert result.losses[-1] < result.losses[0]


def test_central_and_fedsgd_agree_for_one_client() -> None:
    """With one client there is nothing to lose."""
    one = two_communities(silos=1)
    assert train_baseline(CENTRAL_GNN, one, QUICK).losses == train_baseline(FEDSGD_GNN, one, QUICK).losses


def test_a_perceptron_does_not_care_who_has_what() -> None:
    """With labelled nodes weighed alike, FedSGD without edges is central training."""
    federated = replace(CENTRAL_MLP, sharing=FEDSGD_GNN.sharing)
    preset = replace(QUICK, averaging=AccuracyAveraging.POOLED)
    ours, theirs = train_baseline(federated, GRAPH, preset), train_baseline(CENTRAL_MLP, GRAPH, preset)
    assert np.allclose(ours.losses, theirs.losses, atol=1e-6)


def test_local_models_know_their_own_client_alone() -> None:
    """Other features and labels at client 1 change its share of right predictions and loss, and none of client 0's."""
    changed = Graph.from_arrays(
        "changed", GRAPH.features + 3 * np.sin(np.outer(GRAPH.silo_of == 1, np.arange(8))), GRAPH.labels, GRAPH.edges
    )
    before, after = (_local_parameters(graph) for graph in (GRAPH, replace(GRAPH, graph=changed)))
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])


def _local_parameters(graph: FederatedGraph) -> list[Array]:
    return _parameters(graph, SharedParts.NOTHING)


def _parameters(
    graph: FederatedGraph, sharing: SharedParts, preset: FedStructPreset = QUICK, *, own_ends: bool = False
) -> list[Array]:
    """Of all clients after one round."""
    baseline = FedStructBaseline("a GNN", FeatureModelKind.SAGE, sharing)
    job = baseline_job(baseline, graph, preset, own_ends=own_ends)
    process = job.open(Channel(hierarchy_of(graph), SimulationCoins(0)))
    process.begin()
    process.round(0)
    return [program.report["theta"] for program in process.programs]


def test_a_local_model_is_what_its_client_would_train_by_itself() -> None:
    """On its subgraph, as the only client of a run: nothing of the others is in it."""
    members = GRAPH.devices_of(1)
    number = np.full(GRAPH.num_devices, -1)
    number[members] = np.arange(len(members))
    edges = number[GRAPH.edges]
    inside = edges[:, (edges >= 0).all(axis=0)]
    own = Graph.from_arrays("own", GRAPH.features[members], GRAPH.labels[members], inside)
    masks = SplitMasks(GRAPH.train_mask[members], GRAPH.validation_mask[members], GRAPH.test_mask[members])
    lone = FederatedGraph.from_assignment(own, [0] * len(members), masks, "none")
    assert np.allclose(_local_parameters(GRAPH)[1], _local_parameters(lone)[0], atol=1e-6)


def test_a_client_without_labelled_nodes_is_refused() -> None:
    """It has nothing to train on by itself; where all train one model it may add nothing."""
    idle = replace(GRAPH, train_mask=GRAPH.train_mask & (GRAPH.silo_of == 0))
    with pytest.raises(InputError, match="client 1 has none"):
        train_baseline(LOCAL_GNN, idle, QUICK)
    assert train_baseline(FEDSGD_GNN, idle, QUICK).rounds == QUICK.epochs


def test_fedavg_is_the_mean_of_what_clients_learn_alone() -> None:
    """After one round: each client's own step from the same start, weighed by labelled nodes."""
    alone = [_parameters(GRAPH, SharedParts.NOTHING)[silo] for silo in range(GRAPH.num_silos)]
    weights = np.bincount(GRAPH.silo_of[GRAPH.train_mask], minlength=GRAPH.num_silos) / GRAPH.train_mask.sum()
    together = _parameters(GRAPH, SharedParts.MODELS)
    expected = sum(weight * own for weight, own in zip(weights, alone, strict=True))
    for own in together:
        np.testing.assert_allclose(own, expected, atol=1e-6)
    assert not np.allclose(together[0], alone[0], atol=1e-4)


def test_fedavg_weighs_clients_by_nodes_where_the_preset_does() -> None:
    preset = replace(QUICK, weighting=Weighting.NODES)
    alone = _parameters(GRAPH, SharedParts.NOTHING, preset)
    weights = np.bincount(GRAPH.silo_of) / GRAPH.num_devices
    expected = sum(weight * own for weight, own in zip(weights, alone, strict=True))
    np.testing.assert_allclose(_parameters(GRAPH, SharedParts.MODELS, preset)[0], expected, atol=1e-6)


OWN_ENDS = replace(QUICK, selection=None)
NORMS = 2 * GRAPH.graph.num_features
"""Parameters of the LayerNorm, which are the first."""


def test_with_own_ends_fedavg_averages_all_but_norms() -> None:
    """After a round that another one follows; a LayerNorm is where the client's own step left it."""
    alone = _parameters(GRAPH, SharedParts.NOTHING, OWN_ENDS)
    together = _parameters(GRAPH, SharedParts.MODELS, OWN_ENDS, own_ends=True)
    mean = _parameters(GRAPH, SharedParts.MODELS)[0]
    for own, lone in zip(together, alone, strict=True):
        np.testing.assert_array_equal(own[:NORMS], lone[:NORMS])
        np.testing.assert_allclose(own[NORMS:], mean[NORMS:], atol=1e-6)
    assert not np.allclose(alone[0][:NORMS], alone[1][:NORMS], atol=1e-4)


def test_with_own_ends_fedavg_ends_before_the_last_mean() -> None:
    """After the last round each client has its own step."""
    last = replace(OWN_ENDS, epochs=1)
    alone = _parameters(GRAPH, SharedParts.NOTHING, last)
    together = _parameters(GRAPH, SharedParts.MODELS, last, own_ends=True)
    np.testing.assert_array_equal(together, alone)
    assert not np.allclose(together[0], together[1], atol=1e-4)


def test_with_own_ends_each_client_is_tested_with_its_own_model() -> None:
    """Where each client has one label, its own step leads there, and the mean does not."""
    graph = Graph.from_arrays("apart", GRAPH.features, GRAPH.silo_of, GRAPH.edges)
    apart, last = replace(GRAPH, graph=graph), replace(OWN_ENDS, epochs=1, learning_rate=1.0)
    own, mean = (train_baseline(FEDAVG_MLP, apart, last, own_ends=each).accuracy.test for each in (True, False))
    assert own == 1
    assert mean is not None
    assert mean < 1


def test_central_and_fedavg_agree_for_one_client() -> None:
    """With one client there is nothing to average."""
    one = two_communities(silos=1)
    ours, theirs = train_baseline(FEDAVG_MLP, one, QUICK), train_baseline(CENTRAL_MLP, one, QUICK)
    np.testing.assert_allclose(ours.losses, theirs.losses, atol=1e-6)
