"""HiFGL for node regression against errors computed with dense matrices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.backbones import maker
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import node_regression
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.backbones import make_layers
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parameters import overwrite
from fgl_secure.training.presets import HONEST
from fgl_secure.typing import Floats
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import apart

QUICK = replace(HONEST, epochs=4, hidden=8)
WHOLE = two_communities(devices=40, silos=2)
UNCHOSEN = replace(WHOLE, validation_mask=np.zeros(40, dtype=np.bool_))
"""Without validation devices the last round is reported, whose model is in the report."""


def mean_of_neighbours(graph: FederatedGraph, scale: float = 1.0) -> Floats:
    """Return as target [n] the mean of a feature over a device and its neighbours."""
    adjacency = np.eye(graph.num_devices)
    adjacency[graph.edges[1], graph.edges[0]] = 1
    targets: Floats = scale * (adjacency @ graph.features[:, 0]) / adjacency.sum(axis=1)
    return targets


def dense_predictions(graph: FederatedGraph, theta: Floats | None = None) -> Floats:
    """Return the outputs [n] of Kipf and Welling's layers, of the first weights or of given ones."""
    layers = make_layers(maker("gcn"), QUICK.widths(graph.graph.num_features, 1), 0)
    if theta is not None:
        overwrite(list(layers.parameters()), theta)
    adjacency = torch.eye(graph.num_devices)
    adjacency[tuple(torch.tensor(graph.edges).flip(0))] = 1
    scale = adjacency.sum(dim=1).rsqrt()
    propagation, h = scale[:, None] * adjacency * scale, torch.tensor(graph.features)
    for number, layer in enumerate(layers):
        weight, bias = layer.parameters()
        h = propagation @ (torch.relu(h) if number else h) @ weight + bias
    outputs: Floats = h[:, 0].detach().double().numpy()
    return outputs


def trained(graph: FederatedGraph, targets: Floats, scheme: Scheme | None = None, epochs: int = 4) -> TrainingResult:
    """Return a short run under repeatable randomness."""
    job = node_regression(graph, targets, scheme or Plaintext(), replace(QUICK, epochs=epochs))
    return job.train(job.channel(SimulationCoins(0)))


def test_losses_and_errors_are_those_of_dense_matrices() -> None:
    """The first loss is the mean squared error; RMSE and MAE are those of the reported model's predictions."""
    targets, test = mean_of_neighbours(UNCHOSEN), UNCHOSEN.test_mask
    result = trained(UNCHOSEN, targets)
    first = (dense_predictions(UNCHOSEN) - targets)[UNCHOSEN.train_mask]
    assert result.losses[0] == pytest.approx(np.mean(first**2), rel=1e-5)
    errors = dense_predictions(UNCHOSEN, result.report["theta"]) - targets
    assert result.accuracy.test == pytest.approx(np.sqrt(np.mean(errors[test] ** 2)), rel=1e-4)
    assert float(result.report["test MAE"]) == pytest.approx(np.abs(errors[test]).mean(), rel=1e-4)
    own = [np.sqrt(np.mean(errors[test & (UNCHOSEN.silo_of == silo)] ** 2)) for silo in range(2)]
    assert result.accuracy.per_silo == pytest.approx(own, rel=1e-4)
    assert result.accuracy.validation is None


def test_the_round_with_the_least_error_is_reported() -> None:
    """Training beats the mean of the training devices, and validation devices choose the least error."""
    targets = mean_of_neighbours(WHOLE)
    result = trained(WHOLE, targets, epochs=60)
    constant = targets[WHOLE.test_mask] - targets[WHOLE.train_mask].mean()
    assert result.accuracy.test is not None
    assert result.accuracy.test < 0.7 * np.sqrt(np.mean(constant**2))
    assert result.accuracy.validation is not None
    first = (dense_predictions(WHOLE) - targets)[WHOLE.validation_mask]
    assert result.accuracy.validation < np.sqrt(np.mean(first**2))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_secured_sums_give_the_errors_of_plain_ones(scale: float) -> None:
    """Also of large targets, whose gradients and errors exceed those of classes."""
    targets = mean_of_neighbours(WHOLE, scale)
    plain, secured = (trained(WHOLE, targets, scheme) for scheme in (Plaintext(), RelayCoded(k_min=1)))
    assert secured.losses == pytest.approx(plain.losses, rel=1e-3)
    assert secured.accuracy.test == pytest.approx(plain.accuracy.test, rel=1e-3)
    assert float(secured.report["test MAE"]) == pytest.approx(float(plain.report["test MAE"]), rel=1e-3)


def test_processes_train_what_one_process_trains() -> None:
    """Reports of silos in processes of their own have the same bits."""
    graph = two_communities(devices=60, silos=3)
    job = node_regression(graph, mean_of_neighbours(graph), Plaintext(), QUICK)
    process = job.open(job.channel(SimulationCoins(0)))
    process.begin()
    assert [process.round(number) for number in range(5)] == [True, True, True, True, False]
    found = apart(job)
    for silo, program in enumerate(process.programs):
        for key, value in program.report.items():
            assert np.array_equal(found[silo][key], value, equal_nan=True), key


@pytest.mark.parametrize(
    "targets", [np.zeros(39), np.full(40, np.nan), np.zeros((40, 1)), np.full(40, 1e4), np.full(40, 1j), ["a"] * 40]
)
def test_targets_are_one_finite_number_per_device(targets: Any) -> None:
    with pytest.raises(InputError, check=about("targets")):
        node_regression(WHOLE, targets, Plaintext(), QUICK)
