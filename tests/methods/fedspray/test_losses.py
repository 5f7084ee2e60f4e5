"""FedSpray's losses against sums written out node by node."""

import math

import numpy as np
import pytest
import torch

from fgl_secure.methods.fedspray.client import divergence, encoder_loss, network_loss


def softmax(row: list[float]) -> list[float]:
    """Of one row of logits."""
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def kullback_leibler(target: list[float], learner: list[float]) -> float:
    """KL(target || learner) of two distributions."""
    return sum(t * math.log(t / q) for t, q in zip(target, learner, strict=True))


def logits(seed: int, nodes: int = 7, classes: int = 3) -> torch.Tensor:
    """Any scores."""
    return torch.tensor(np.random.default_rng(seed).normal(size=(nodes, classes)), dtype=torch.float64)


@pytest.mark.parametrize("taught", [None, [0, 1, 4, 6]])
def test_the_networks_loss_is_equations_5_to_7(taught: list[int] | None) -> None:
    """Mean cross-entropy over labelled nodes plus lambda_1 times the mean divergence of y from p over those taught."""
    scores, targets, labelled, labels = logits(0), torch.log_softmax(logits(1), dim=1), [0, 1, 4], [2, 0, 1]
    places = None if taught is None else torch.tensor(taught)
    found = network_loss(scores, torch.tensor(labelled), torch.tensor(labels), targets, places, 5.0)
    y, p = [softmax(row) for row in scores.tolist()], [softmax(row) for row in logits(1).tolist()]
    truth = sum(-math.log(y[i][label]) for i, label in zip(labelled, labels, strict=True)) / 3
    nodes = range(7) if taught is None else taught
    teaching = sum(kullback_leibler(p[i], y[i]) for i in nodes) / len(nodes)
    assert found.item() == pytest.approx(truth + 5 * teaching)


def test_the_encoders_loss_is_equations_11_to_13() -> None:
    """Mean cross-entropy of q plus lambda_2 times the mean divergence of p from y, over labelled nodes."""
    classified, projected, predicted, labels = logits(2, 4), logits(3, 4), logits(4, 4), [1, 1, 0, 2]
    logarithms = torch.log_softmax(predicted, dim=1)
    found = encoder_loss(classified, projected, torch.tensor(labels), logarithms, 0.5)
    p, q, y = ([softmax(row) for row in each.tolist()] for each in (classified, projected, predicted))
    truth = sum(-math.log(q[i][label]) for i, label in enumerate(labels)) / 4
    learning = sum(kullback_leibler(y[i], p[i]) for i in range(4)) / 4
    assert found.item() == pytest.approx(truth + 0.5 * learning)


def test_the_divergence_takes_the_target_first() -> None:
    """KL(target || learner) and not the other way round, and zero for equal distributions."""
    one, two = logits(5), logits(6)
    there, back = divergence(torch.log_softmax(one, 1), two), divergence(torch.log_softmax(two, 1), one)
    assert abs(there.item() - back.item()) > 0.01
    assert divergence(torch.log_softmax(one, 1), one).item() == pytest.approx(0, abs=1e-12)
