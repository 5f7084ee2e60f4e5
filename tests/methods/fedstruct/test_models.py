"""The models of FedStruct: fast forms against the formulas they stand for."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.structure_features import normalised_adjacency
from fgl_secure.methods.fedstruct.client import (
    DecoupledGCN,
    FixedRows,
    Sage,
    SageLayer,
    feature_model,
    neighbour_means,
    without_last_loops,
)
from fgl_secure.methods.fedstruct.preset import (
    AccuracyAveraging,
    FeatureModelKind,
    FedStructPreset,
    Stepping,
    Weighting,
    fedstruct_preset,
)
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.presets import Selection
from fgl_secure.training.sparse_products import SparseMatrix
from tests.error_codes import about
from tests.graphs import two_communities

CPU = torch.device("cpu")
GRAPH = two_communities()
PRESET = FedStructPreset("quick", 4, 0.02, 0.02, 1e-3, 0.5, (6,), 2, (6, 5), (7,), 3)


def silent() -> CoinDropout:
    return CoinDropout(0.5, 0)


def norm_of(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    return norm


@pytest.mark.parametrize("share", [0.05, 0.9], ids=["sparse", "dense"])
def test_fixed_rows_are_a_layer_norm_and_a_linear_layer(share: float) -> None:
    """Value and all gradients are torch's, whichever way the rows are kept, and for a row of zeros too."""
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(12, 40)) * (rng.random((12, 40)) < share)).astype(np.float32)
    rows[3] = 0
    torch.manual_seed(0)
    norm, linear = norm_of(40), nn.Linear(40, 5)
    fast = FixedRows(rows, CPU).product(norm, linear)
    slow = linear(norm(torch.from_numpy(rows)))
    assert torch.allclose(fast, slow, atol=1e-5)
    weights = [*norm.parameters(), *linear.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad((fast**2).sum(), weights), torch.autograd.grad((slow**2).sum(), weights), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def inputs() -> NDArray[np.float32]:
    return GRAPH.features.copy()


def test_a_decoupled_gcn_multiplies_outputs_by_powers() -> None:
    """f is (D^-1 (A + I))^L of the perceptron's outputs."""
    adjacency = normalised_adjacency(GRAPH.graph)
    model = DecoupledGCN((8, 6, 2), SparseMatrix(adjacency), 3).eval()
    plain = model.perceptron(FixedRows(inputs(), CPU), silent())
    power = torch.from_numpy(np.linalg.matrix_power(adjacency.toarray(), 3).astype(np.float32))
    assert torch.allclose(model(FixedRows(inputs(), CPU), silent()), power @ plain, atol=1e-5)


def test_sage_takes_means_over_neighbours() -> None:
    """Two layers and a head are the formula of GraphSAGE after a LayerNorm, ReLU between the layers alone."""
    mean = neighbour_means(GRAPH)
    model = Sage((8, 6, 5), 2, SparseMatrix(mean)).eval()
    h, m = model.norm(torch.from_numpy(inputs())), torch.from_numpy(mean.toarray().astype(np.float32))
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, SageLayer)
        h = torch.relu(h) if number else h
        h = layer.own(h) + layer.neighbours(m @ h) + layer.bias
    assert torch.allclose(model(FixedRows(inputs(), CPU), silent()), model.head(h), atol=1e-5)


def directed(edges: list[list[int]], nodes: int, clients: list[int] | None = None) -> FederatedGraph:
    graph = Graph.from_arrays("small", np.eye(nodes), np.zeros(nodes, dtype=np.int64), edges)
    everything, nothing = np.ones(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, clients or [0] * nodes, SplitMasks(everything, nothing, nothing))


def test_forgotten_loops_are_those_after_the_last_node_with_an_edge() -> None:
    """Each client by itself: isolated nodes before its last joined node keep their loop, later ones lose it."""
    graph = directed([[0, 4, 1, 3], [4, 0, 3, 1]], 8, [0, 1, 0, 1, 0, 1, 0, 1])
    kept = without_last_loops(normalised_adjacency(graph.graph), graph).sum(axis=1)
    assert np.allclose(kept, [1, 1, 1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("kind", FeatureModelKind)
def test_f_sees_local_edges_alone(kind: FeatureModelKind) -> None:
    """Features of another client's nodes do not change a node's scores, and those of its own client's do."""
    model = feature_model(GRAPH, replace(PRESET, feature_model=kind), CPU).eval()
    changed = inputs().copy()
    changed[GRAPH.silo_of == 1] += np.arange(8)
    moved = (model(FixedRows(changed, CPU), silent()) - model(FixedRows(inputs(), CPU), silent())).abs().sum(dim=1)
    assert moved[torch.from_numpy(GRAPH.silo_of == 0)].max() == 0
    assert moved[torch.from_numpy(GRAPH.silo_of == 1)].min() > 0


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("Cora", (0.002, 5e-4, 40, 2, 10, (64,), (256,))),
        ("CiteSeer", (0.002, 5e-4, 60, 2, 20, (64,), (128, 64))),
        ("PubMed", (0.008, 1e-3, 125, 2, 20, (128,), (128,))),
        ("Chameleon", (0.003, 3e-4, 60, 1, 1, (64,), (256,))),
        ("Photo", (0.005, 1e-3, 150, 1, 3, (256,), (256,))),
    ],
)
def test_settings_are_those_of_table_5(dataset: str, expected: tuple[object, ...]) -> None:
    """Rates, decay, rounds, layers and widths are the printed ones, with d_s = 256 and p = 30, in both presets."""
    for chosen in (fedstruct_preset(name, dataset) for name in ("honest", "paper")):
        printed = (chosen.learning_rate, chosen.weight_decay, chosen.epochs, chosen.feature_hops, chosen.hops)
        assert (*printed, chosen.feature_hidden, chosen.structure_hidden) == expected
        assert (chosen.structure_rate, chosen.structure_width, chosen.kept) == (expected[0], 256, 30)


def test_presets_differ_in_named_switches_alone() -> None:
    """`paper` is the public code's way of weighing, losing, averaging and reporting; everything else is the same."""
    honest, paper = fedstruct_preset("honest", "Cora"), fedstruct_preset("paper", "Cora")
    differing = {each.name for each in fields(honest) if getattr(honest, each.name) != getattr(paper, each.name)}
    assert differing == {"name", "weighting", "double_softmax", "forgotten_loops", "averaging", "selection"}
    assert (honest.weighting, honest.averaging, honest.selection) == (
        Weighting.LABELLED, AccuracyAveraging.POOLED, Selection.VALIDATION,
    )  # fmt: skip
    assert not honest.double_softmax
    assert not honest.forgotten_loops
    assert paper.selection is None
    assert paper.stepping is Stepping.ADAM
    assert paper.feature_model is FeatureModelKind.DGCN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"hops": 0}, "hops"),
        ({"structure_width": 0}, "structure_width"),
        ({"kept": 0}, "kept"),
        ({"dropout": 1.0}, "dropout"),
        ({"feature_model": FeatureModelKind.SAGE, "sage_widths": ()}, "sage_widths"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        _changed(fedstruct_preset("honest", "Cora"), change)


def _changed(preset: FedStructPreset, change: dict[str, object]) -> FedStructPreset:
    return replace(preset, **change)  # type: ignore[arg-type]
