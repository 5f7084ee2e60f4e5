"""Where gradient matching starts from: labels that the last bias tells, and rows that nobody knows."""

from __future__ import annotations

import torch
from torch.nn import functional

from fgl_secure.attacks.gradient_matching.reconstruction import SeenGradient

SPREAD = 0.1
"""Spread of first guesses of rows around 1/2. The papers start from unit spread, which no picture has."""
CERTAINTY = 2.0
"""Logit of a label that the last bias tells."""


def first_rows(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """A first guess of rows, float64 [m, d], a leaf that requires gradients."""
    shape = (seen.field.nodes, seen.model.widths[0])
    rows = 0.5 + SPREAD * torch.randn(shape, generator=start, dtype=torch.float64)
    return rows.requires_grad_()


def shuffled_labels(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """The labels that are known, in an order drawn from `start`: int64 [b]."""
    return torch.from_numpy(seen.labels)[torch.randperm(seen.field.batch, generator=start)]


def free_labels(seen: SeenGradient, start: torch.Generator) -> torch.Tensor:
    """Logits [b, c] of labels: a leaf that begins with those that are known, in an order drawn from `start`.

    The last bias tells which labels a batch has and not which row has which, so that labels fixed in a wrong order
    would stay wrong.
    """
    told = functional.one_hot(shuffled_labels(seen, start), seen.model.widths[-1])
    return (CERTAINTY * told.to(torch.float64)).requires_grad_()


def labels_from(logits: torch.Tensor) -> torch.Tensor:
    """Labels as the loss takes them: probabilities [b, c] of several nodes; of one node the label int64 [1] itself."""
    return logits.softmax(dim=1) if len(logits) > 1 else logits.argmax(dim=1)
