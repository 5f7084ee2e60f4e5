"""The two losses of FedSpray (KDD 2024, Eqs. 5 to 7 and 11 to 13)."""

from __future__ import annotations

import torch
from torch.nn import functional


def divergence(targets: torch.Tensor, learner: torch.Tensor) -> torch.Tensor:
    """Mean Kullback-Leibler divergence KL(target || learner) over nodes.

    Args:
        targets: float32 [m, C], logarithms of the distributions to come close to.
        learner: float32 [m, C], logits of those that come closer.
    """
    return functional.kl_div(functional.log_softmax(learner, dim=1), targets, log_target=True, reduction="batchmean")


def network_loss(
    scores: torch.Tensor,
    labelled: torch.Tensor,
    labels: torch.Tensor,
    targets: torch.Tensor,
    taught: torch.Tensor | None,
    teaching: float,
) -> torch.Tensor:
    """L_G = L_G_CE + lambda_1 L_G_KD of a client's network (Eq. 7).

    Args:
        scores: float32 [m, C], the network's, of all nodes.
        labelled: int64 [t], places of labelled nodes.
        labels: int64 [t], their labels.
        targets: float32 [m, C], logarithms of the encoder's soft targets p of all nodes.
        taught: int64 [k], places of the nodes in the second term; None takes all, as Eq. 6 does.
        teaching: lambda_1.
    """
    truth = functional.cross_entropy(scores[labelled], labels)
    if taught is None:
        return truth + teaching * divergence(targets, scores)
    return truth + teaching * divergence(targets[taught], scores[taught])


def encoder_loss(
    classified: torch.Tensor, projected: torch.Tensor, labels: torch.Tensor, predicted: torch.Tensor, learning: float
) -> torch.Tensor:
    """L_F = L_F_CE + lambda_2 L_F_KD of encoder and proxies (Eq. 11), over a client's labelled nodes.

    Args:
        classified: float32 [t, C], logits of p.
        projected: float32 [t, C], logits of q.
        labels: int64 [t].
        predicted: float32 [t, C], logarithms of the network's predictions.
        learning: lambda_2.
    """
    return functional.cross_entropy(projected, labels) + learning * divergence(predicted, classified)
