from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.knowledge import Candidates
from fgl_secure.attacks.gradients.model import (
    Activation,
    Convolution,
    GradientModel,
    ReceptiveField,
    averaging,
    layout_of,
    means,
    receptive_field,
)
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.audit_runs import fresh_model
from tests.attacks.gradients.gradient_runs import clusters
from tests.error_codes import about

Floats = NDArray[np.float64]
EDGES = np.array([[0, 1, 1, 2, 3, 4, 0, 2], [1, 0, 2, 1, 4, 3, 2, 0]])
NODES = 6
KINDS = [(Convolution.GCN, (5, 4, 3), 1), (Convolution.GCN, (5, 3), 1), (Convolution.SAGE, (5, 4, 3), 1),
         (Convolution.SAGE, (5, 3), 1), (Convolution.SGC, (5, 3), 2)]  # fmt: skip


def drawn(
    convolution: Convolution, widths: tuple[int, ...], hops: int = 1, activation: Activation = Activation.SOFTPLUS
) -> GradientModel:
    weights = np.random.default_rng(0).normal(size=layout_of(convolution, widths).size)
    return GradientModel(convolution, widths, weights, activation, hops)


def rows() -> Floats:
    return np.random.default_rng(1).normal(size=(NODES, 5))


def dense() -> Floats:
    adjacency = np.zeros((NODES, NODES))
    adjacency[EDGES[1], EDGES[0]] = 1
    return adjacency


def loss(model: GradientModel, weights: Floats, labels: NDArray[np.int64], batch: NDArray[np.int64]) -> float:
    """The mean cross-entropy, written down once more with numpy."""
    adjacency = dense()
    looped, degree = adjacency + np.eye(NODES), adjacency.sum(axis=1)
    average = looped / np.sqrt(np.outer(degree + 1, degree + 1))
    mean = adjacency / np.maximum(degree, 1)[:, None]
    parts, h = model.layout.split(weights), rows()
    for layer in range(model.layers):
        h = h if layer == 0 else np.log1p(np.exp(h))
        bias = parts[f"{layer}.bias"]
        if model.convolution is Convolution.SAGE:
            h = h @ parts[f"{layer}.own_weight"] + mean @ h @ parts[f"{layer}.neighbour_weight"] + bias
        else:
            h = np.linalg.matrix_power(average, model.hops) @ h @ parts[f"{layer}.weight"] + bias
    logits = h[batch]
    return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(batch)), labels]).mean())


@pytest.mark.parametrize(("convolution", "widths", "hops"), KINDS)
def test_gradients_are_slopes_of_the_loss(convolution: Convolution, widths: tuple[int, ...], hops: int) -> None:
    """Every entry is the slope of the mean cross-entropy in that parameter, by differences, edges or matrix alike."""
    model, labels, batch = drawn(convolution, widths, hops), np.array([0, 2, 1]), np.array([1, 5, 2])
    x, chosen, wanted = torch.tensor(rows()), torch.tensor(batch), torch.tensor(labels)
    by_edges = model.gradient(x, torch.tensor(EDGES), wanted, chosen).detach().numpy()
    by_matrix = model.gradient(x, torch.tensor(dense()), wanted, chosen).detach().numpy()
    slopes, step = np.empty(model.layout.size), 1e-6
    for entry in range(model.layout.size):
        there = np.eye(1, model.layout.size, entry)[0] * step
        up, down = (loss(model, model.weights + sign * there, labels, batch) for sign in (1, -1))
        slopes[entry] = (up - down) / (2 * step)
    assert by_edges == pytest.approx(slopes, abs=1e-8)
    assert by_matrix == pytest.approx(by_edges, abs=1e-14)


def test_differences_of_weights_become_gradients() -> None:
    """A client that sends new weights less old ones is read as gradients by its rate."""
    weights = np.zeros(layout_of(Convolution.GCN, (2, 2)).size)
    model = GradientModel(Convolution.GCN, (2, 2), weights, rate=-0.1)
    assert model.gradients(np.full((1, 6), 0.5))["0.bias"].tolist() == [[-5.0, -5.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GradientModel(Convolution.GCN, (5, 4, 4, 3), np.zeros(59)), "widths"),
        (lambda: GradientModel(Convolution.SGC, (5, 4, 3), np.zeros(39)), "widths"),
        (lambda: GradientModel(Convolution.GCN, (5, 0), np.zeros(0)), "widths"),
        (lambda: GradientModel(Convolution.GCN, (5, 3), np.zeros(17)), "weights"),
        (lambda: GradientModel(Convolution.GCN, (5, 3), np.zeros(18), hops=2), "hops"),
        (lambda: GradientModel(Convolution.SGC, (5, 3), np.zeros(18), hops=0), "hops"),
        (lambda: GradientModel(Convolution.GCN, (5, 3), np.zeros(18), rate=0.0), "rate"),
        (lambda: layout_of(Convolution.GCN, (5, 3)).split(np.zeros((2, 17))), "flat"),
        (lambda: Candidates(rows(), EDGES, np.zeros(5, dtype=np.int64)), "features"),
        (lambda: Candidates(rows(), EDGES[0], np.zeros(6, dtype=np.int64)), "edges"),
        (lambda: Candidates(rows(), EDGES + 2, np.zeros(6, dtype=np.int64)), "edges"),
    ],
)  # fmt: skip
def test_refuses_what_does_not_fit(make: object, message: str) -> None:
    """Widths, weights, hops, rates and candidates that make no sense are refused with what was found."""
    assert callable(make)
    with pytest.raises(InputError, check=about(message)):
        make()


def test_candidates_have_the_rows_that_enter() -> None:
    """Rows are averaged as the convolution does it, own rows and means of neighbours apart under GraphSAGE."""
    known = Candidates(rows(), EDGES, np.full(NODES, -1))
    looped = dense() + np.eye(NODES)
    average = looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=1)))
    assert averaging(EDGES, NODES).toarray() == pytest.approx(average)
    assert known.entering(drawn(Convolution.GCN, (5, 4, 3)))["0.weight"] == pytest.approx(average @ rows())
    twice = known.entering(drawn(Convolution.SGC, (5, 3), 2))["0.weight"]
    assert twice == pytest.approx(average @ average @ rows())
    sage = known.entering(drawn(Convolution.SAGE, (5, 4, 3)))
    assert np.array_equal(sage["0.own_weight"], rows())
    assert sage["0.neighbour_weight"] == pytest.approx(means(EDGES, NODES).toarray() @ rows())
    assert not sage["0.neighbour_weight"][5].any()
    with pytest.raises(InputError, check=about("features")):
        known.entering(drawn(Convolution.GCN, (4, 3)))


NONE = np.empty((2, 0), dtype=np.int64)


def gradients(graph: FederatedGraph, convolution: Convolution, *, stubs: bool = True) -> tuple[torch.Tensor, ...]:
    """The gradient of two nodes on the whole graph, and on their receptive field."""
    model, batch = fresh_model(graph, convolution), np.array([7, 3])
    field, members = receptive_field(graph.edges, batch, model.reach)
    labels, x = torch.from_numpy(graph.labels[batch]), torch.tensor(graph.features, dtype=torch.float64)
    edges = field.edges_with_loops if stubs else field.edges
    whole = model.gradient(x, torch.tensor(graph.edges), labels, torch.from_numpy(batch))
    return whole, model.gradient(x[members], torch.from_numpy(edges), labels, torch.arange(2))


@pytest.mark.parametrize("convolution", Convolution)
def test_a_field_is_all_that_a_gradient_depends_on(convolution: Convolution) -> None:
    whole, local = gradients(clusters(nodes=80, silos=1, words=6), convolution)
    assert torch.allclose(whole, local, atol=1e-12)


def test_neighbours_outside_count() -> None:
    """Broken twin: without neighbours beyond the field degrees are wrong, and so is the gradient of a GCN."""
    whole, local = gradients(clusters(nodes=80, silos=1, words=6), Convolution.GCN, stubs=False)
    assert not torch.allclose(whole, local, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"batch": 0}, "batch"), ({"batch": 4}, "batch"), ({"edges": NONE.astype(np.float64)}, "edges"),
     ({"edges": np.array([[0], [3]])}, "edges"), ({"outside": np.zeros(2, dtype=np.int64)}, "outside"),
     ({"outside": np.full(3, -1)}, "outside")],
)  # fmt: skip
def test_fields_are_checked(changed: dict[str, Any], told: str) -> None:
    good = ReceptiveField(3, 1, NONE, np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, check=about(told)):
        replace(good, **changed)
