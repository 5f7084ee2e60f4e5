"""Batch normalisation that can count a row several times, and knows what to do with a single one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional

EPSILON = 1e-5


class BatchNorm(nn.Module):
    """Every column to mean 0 and variance 1, then scale and shift.

    In training a batch is normalised by its own statistics. A batch of one row comes out as the shift: its variance is
    zero.

    Args:
        width: columns.
        kept: whether statistics can be collected, which then normalise outside training; otherwise a batch's own do.
    """

    mean: torch.Tensor | None
    variance: torch.Tensor | None

    def __init__(self, width: int, *, kept: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width) if kept else None)
        self.register_buffer("variance", torch.ones(width) if kept else None)
        self.collected: int | None = None

    def forward(self, rows: torch.Tensor, counts: torch.Tensor | None = None) -> torch.Tensor:
        """Normalises rows.

        Args:
            rows: float32 [r, width].
            counts: float32 [r], how often each row occurs; None counts every one once.
        """
        fixed = self.mean is not None and not self.training
        if not fixed and (counts is not None or len(rows) < 2):
            return self._weighted(rows, rows.new_ones(len(rows)) if counts is None else counts)
        kept = (self.mean, self.variance) if fixed or self.collected is not None else (None, None)
        share = 0.0 if fixed else self._share()
        return functional.batch_norm(rows, *kept, self.weight, self.bias, not fixed, share, EPSILON)

    def _share(self) -> float:
        """The weight of the batch at hand in the mean over all that were collected; 0 where none are."""
        if self.collected is None:
            return 0.0
        self.collected += 1
        return 1 / self.collected

    def _weighted(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        total = counts.sum()
        share = counts / total
        mean = share @ rows
        centred = rows - mean
        variance = share @ centred.square()
        self._keep(mean, variance, float(total))
        return centred * (self.weight * torch.rsqrt(variance + EPSILON)) + self.bias

    def _keep(self, mean: torch.Tensor, variance: torch.Tensor, total: float) -> None:
        if self.collected is None or self.mean is None or self.variance is None or total < 2:
            return
        share = self._share()
        self.mean.lerp_(mean.detach(), share)
        self.variance.lerp_(variance.detach() * (total / (total - 1)), share)


@contextmanager
def collecting(*models: nn.Module) -> Iterator[None]:
    """Within it, batch norms that can keep statistics take the mean over the batches that they see."""
    norms = [part for model in models for part in model.modules() if isinstance(part, BatchNorm)]
    for norm in norms:
        norm.collected = 0 if norm.mean is not None else None
    yield
    for norm in norms:
        norm.collected = None
