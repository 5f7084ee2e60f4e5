"""What FedStruct is compared with: who sees what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fedstruct.baselines import (
    CENTRAL_GNN,
    CENTRAL_MLP,
    FEDSGD_DGCN,
    FEDSGD_GNN,
    LOCAL_GNN,
    FedStructBaseline,
    LocalModels,
    alone,
    train_baseline,
)
from fgl_secure.methods.fedstruct.presets import Averaging, FeatureModelKind, FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct
from fgl_secure.runtime import Step
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = FedStructPreset("quick", 4, 0.02, 0.02, 1e-3, 0.0, (6,), 2, (6, 5), (7,), 3)


@pytest.mark.parametrize("baseline", [CENTRAL_GNN, CENTRAL_MLP, FEDSGD_GNN, FEDSGD_DGCN, LOCAL_GNN])
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
    preset = replace(QUICK, averaging=Averaging.POOLED)
    ours, theirs = train_baseline(federated, GRAPH, preset), train_baseline(CENTRAL_MLP, GRAPH, preset)
    assert np.allclose(ours.losses, theirs.losses, atol=1e-6)


def test_local_models_know_their_own_client_alone() -> None:
    """Other features and labels at client 1 change its scores and none of client 0's."""
    changed = Graph.from_arrays(
        "changed",
        GRAPH.features + 3 * np.sin(np.outer(GRAPH.silo_of == 1, np.arange(8))),
        np.where(GRAPH.silo_of == 1, 1 - GRAPH.labels, GRAPH.labels),
        GRAPH.edges,
    )
    before, after = (_local_scores(graph) for graph in (GRAPH, replace(GRAPH, graph=changed)))
    here = torch.from_numpy(GRAPH.silo_of == 0)
    assert torch.equal(before[here], after[here])
    assert not torch.equal(before[~here], after[~here])


def _local_scores(graph: FederatedGraph) -> torch.Tensor:
    preset = replace(QUICK, feature_model=FeatureModelKind.SAGE)
    models = LocalModels(graph, preset, 0, None)
    models.round(0)
    return models.predict(Step(1, evaluation=True))


def test_a_client_alone_is_its_subgraph() -> None:
    """Nodes are renumbered, edges between them stay, masks follow; its model is what it would train by itself."""
    own = alone(GRAPH, 1)
    members = GRAPH.devices_of(1)
    inside = GRAPH.restricted_to_silos().edges
    inside = inside[:, GRAPH.silo_of[inside[0]] == 1]
    assert np.array_equal(members[own.edges], inside)
    assert np.array_equal(own.train_mask, GRAPH.train_mask[members])
    preset = replace(QUICK, feature_model=FeatureModelKind.SAGE)
    lone = FedStruct(own, preset, None)
    lone.round(0)
    scores = lone.predict(Step(1))
    assert torch.equal(_local_scores(GRAPH)[torch.from_numpy(members)], scores)


def test_classes_that_a_client_lacks_are_never_predicted() -> None:
    """Their score is minus infinity."""
    graph = Graph.from_arrays("poor", np.eye(4), [0, 1, 0, 0], [[0, 2], [1, 3]])
    everything, nothing = np.ones(4, dtype=np.bool_), np.zeros(4, dtype=np.bool_)
    federated = FederatedGraph.from_assignment(graph, [0, 0, 1, 1], SplitMasks(everything, nothing, nothing))
    scores = LocalModels(federated, QUICK, 0, None).predict(Step(0))
    assert torch.isinf(scores).tolist() == [[False, False], [False, False], [False, True], [False, True]]


def test_a_client_without_labelled_nodes_is_refused() -> None:
    """It has nothing to train on."""
    idle = replace(GRAPH, train_mask=GRAPH.train_mask & (GRAPH.silo_of == 0))
    with pytest.raises(InputError, match="client 1 has none"):
        alone(idle, 1)
