"""Steps of stochastic gradient descent."""

from __future__ import annotations

import torch

Weights = tuple[torch.Tensor, ...]


def descend(weights: Weights, gradients: Weights, rate: float) -> None:
    """One step of gradient descent, in place."""
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(gradient, alpha=rate)


def pulled(gradients: Weights, weights: Weights, anchors: Weights, mu: float) -> Weights:
    """The gradients with that of FedProx's term (mu / 2) |w - w_server|^2 added (Li et al. 2020, Eq. 2)."""
    return tuple(
        gradient + mu * (weight.detach() - anchor)
        for gradient, weight, anchor in zip(gradients, weights, anchors, strict=True)
    )
