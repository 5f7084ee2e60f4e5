"""Training FedStruct: which round is reported, how accuracies are averaged, and how A-bar is applied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.graph.adjacency_powers import adjacency_powers
from fgl_secure.methods.fedstruct.presets import Averaging, FedStructPreset
from fgl_secure.methods.fedstruct.program import Structure, Trainee
from fgl_secure.methods.fedstruct.training import Repeated, accuracy_of, run_rounds, shared_rows, train_fedstruct
from fgl_secure.runtime import Step
from fgl_secure.training.presets import Selection
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = FedStructPreset("quick", 5, 0.02, 0.02, 1e-3, 0.3, (6,), 2, (6, 5), (7,), 3, structure_width=8)


def lopsided() -> FederatedGraph:
    """Client 0 has one tested node, client 1 has three and one that only trains, client 2 has none that is tested."""
    graph = Graph.from_arrays("lopsided", np.eye(7), np.zeros(7, dtype=np.int64), np.empty((2, 0), dtype=np.int64))
    train = np.array([1, 0, 1, 0, 0, 0, 1], dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, [0, 0, 1, 1, 1, 1, 2], SplitMasks(train, np.zeros(7, bool), ~train))


@pytest.mark.parametrize(
    ("averaging", "expected"),
    [(Averaging.POOLED, 2 / 4), (Averaging.CLIENTS, (1 + 1 / 3) / 2), (Averaging.NODES, (2 * 1 + 4 / 3) / 6)],
)
def test_averages_over_clients(averaging: Averaging, expected: float) -> None:
    """Pooled, plain and by numbers of nodes; a client without tested nodes counts in none of them."""
    correct = np.array([0, 1, 0, 1, 0, 0, 1], dtype=np.bool_)
    found = accuracy_of(lopsided(), correct, averaging)
    assert found.test == pytest.approx(expected)
    assert found.per_silo == (1.0, 1 / 3, None)
    assert found.validation is None


class Scripted(Trainee):
    """Right about so many nodes of each community after each round."""

    def __init__(self, right: list[int]) -> None:
        self._right, self._rounds = right, 0

    @property
    def parameters(self) -> int:
        return 0

    def round(self, number: int) -> float:
        self._rounds = number + 1
        return 0.0

    def predict(self, step: Step) -> torch.Tensor:
        assert step == Step(self._rounds, evaluation=True)
        labels = np.where(np.arange(40) < self._right[self._rounds - 1], GRAPH.labels, 1 - GRAPH.labels)
        return torch.eye(2)[torch.from_numpy(labels)]


@pytest.mark.parametrize(
    ("selection", "selected", "right"), [(Selection.VALIDATION, 3, 30), (None, 5, 10), (Selection.TEST, 3, 30)]
)
def test_the_reported_round(selection: Selection | None, selected: int, right: int) -> None:
    """The best round on the chosen nodes, or the last one whatever its accuracy."""
    method = Scripted([20, 25, 30, 20, 10])
    result = run_rounds(method, GRAPH, replace(QUICK, selection=selection))
    assert result.selected_round == selected
    assert result.rounds == 5
    assert result.accuracy.test == pytest.approx((np.arange(40) < right)[GRAPH.test_mask].mean())


def test_progress_is_told_of_every_round() -> None:
    """Once a round, with the number done and the number in all."""
    seen: list[tuple[int, int]] = []
    structure = Structure(shared_rows(GRAPH.graph, 3, None))
    train_fedstruct(GRAPH, QUICK, structure, progress=lambda done, most: seen.append((done, most)))
    assert seen == [(done, 5) for done in range(1, 6)]


@pytest.mark.parametrize("kept", [None, 2, 1000])
def test_shared_rows_are_the_last_power(kept: int | None) -> None:
    """Pruned or not, forward and backward are the dense product with the oracle's power."""
    power = torch.from_numpy(adjacency_powers(GRAPH.graph, 3, kept)[-1].toarray().astype(np.float32))
    values = torch.randn(40, 2, requires_grad=True)
    z = shared_rows(GRAPH.graph, 3, kept)(values, Step(0))
    assert torch.allclose(z, power @ values, atol=1e-6)
    (gradient,) = torch.autograd.grad((z**2).sum(), values)
    assert torch.allclose(gradient, 2 * power.T @ z, atol=1e-5)


def test_a_power_below_one_is_refused() -> None:
    """There is no product to take."""
    with pytest.raises(InputError, match="times must be at least 1; found 0"):
        Repeated(shared_rows(GRAPH.graph, 1, 5), 0)
