"""Affine maps whose weights lie as products with sparse matrices want them."""

from __future__ import annotations

import torch
from torch import nn


class Affine(nn.Module):
    """The map x W + b.

    `torch.nn.Linear` keeps the transpose of W, which a sparse product would copy in every step.

    Args:
        features: rows of W.
        outputs: columns of W.

    Attributes:
        weight: W, float32 [features, outputs]; zeros until drawn.
        bias: b, float32 [outputs]; zeros until drawn.
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 [m, features] to [m, outputs]."""
        return torch.addmm(self.bias, x, self.weight)
