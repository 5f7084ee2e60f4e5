"""What FedVN's model, virtual nodes and edge generators are trained on, and what predictions are scored by."""

from __future__ import annotations

import torch
from torch.nn import functional


def decoupling_loss(virtual: torch.Tensor, floor: float = 1e-12) -> torch.Tensor:
    """Mean squared correlation of virtual nodes (Eq. 7), ||Sigma||_F^2 / M^2.

    The correlation with a virtual node whose entries are all equal is undefined; it counts as 0. So at the initial
    Q = 0 the loss and its gradient are zero, and the task's loss moves Q first. Behind that the gradient is as large
    as virtual nodes are short, without end unless short ones count as longer than they are.

    Args:
        virtual: Q, float32 [M, d].
        floor: centred virtual nodes that are shorter than this count as so long.
    """
    centred = functional.normalize(virtual - virtual.mean(dim=1, keepdim=True), eps=floor)
    return (centred @ centred.T).square().mean()


def contrast_loss(sums: torch.Tensor, local: torch.Tensor, everywhere: torch.Tensor, tau: float) -> torch.Tensor:
    """Score-contrastive loss (Eq. 8): graphs' scores near their client's, and away from everybody's.

    Args:
        sums: the sums of the score vectors of each graph's nodes, float32 [b, M].
        local: s_local, float32 [M].
        everywhere: s_global, float32 [M].
        tau: temperature.
    """
    near = functional.cosine_similarity(sums, local[None])
    far = functional.cosine_similarity(sums, everywhere[None])
    return functional.softplus((far - near) / tau).mean()


def task_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy for labels int64 [b], squared error for values float32 [b]."""
    if targets.is_floating_point():
        return functional.mse_loss(outputs[:, 0], targets)
    return functional.cross_entropy(outputs, targets)


def penalties(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What a prediction is scored by, float32 [b]: 1 where a label is right, or the absolute error of a value."""
    if targets.is_floating_point():
        return (outputs[:, 0] - targets).abs()
    return (outputs.argmax(dim=1) == targets).to(outputs.dtype)


Weights = tuple[torch.Tensor, ...]


def descend(weights: Weights, gradients: Weights, rate: float) -> None:
    """One step of gradient descent, in place."""
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(gradient, alpha=rate)
