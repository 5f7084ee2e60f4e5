"""Deep leakage from gradients (DLG, Zhu et al. 2019), and with labels read first (iDLG, Zhao et al. 2020).

L-BFGS on the squared distance of gradients. The papers' inputs are pictures; here they are the rows of a receptive
field with known edges. Rows that a gradient does not determine (neighbours that enter through an average alone) stay
near the first guess.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from fgl_secure.attacks.gradient_matching.descent import quasi_newton
from fgl_secure.attacks.gradient_matching.distances import squared_distance
from fgl_secure.attacks.gradient_matching.reconstruction import (
    Effort,
    Reconstruction,
    SeenGradient,
    nearest,
    reconstruction,
)
from fgl_secure.attacks.gradient_matching.starts import first_rows, shuffled_labels


def deep_leakage(seen: SeenGradient, effort: Effort) -> Reconstruction:
    """DLG: rows and soft labels together."""
    return nearest([_one_dlg(seen, effort.steps, start) for start in effort.starts()])


def improved_deep_leakage(seen: SeenGradient, effort: Effort) -> Reconstruction:
    """iDLG: labels from the last bias, then rows alone.

    The paper is about one node. Of several the last bias does not tell which row has which label, so that every try
    draws an order, and the try with the nearest gradient is kept.
    """
    return nearest([_one_idlg(seen, effort.steps, start) for start in effort.starts()])


def _one_dlg(seen: SeenGradient, steps: int, start: torch.Generator) -> Reconstruction:
    x, edges, goal = first_rows(seen, start), torch.from_numpy(seen.field.counted), torch.from_numpy(seen.gradient)
    shape = (seen.field.batch, seen.model.widths[-1])
    logits = torch.randn(shape, generator=start, dtype=torch.float64).requires_grad_()

    def distance() -> torch.Tensor:
        return squared_distance(seen.of(x, edges, logits.softmax(dim=1)), goal)

    quasi_newton(distance, (x, logits), steps)
    return reconstruction(x, logits, distance())


def _one_idlg(seen: SeenGradient, steps: int, start: torch.Generator) -> Reconstruction:
    x, edges, goal = first_rows(seen, start), torch.from_numpy(seen.field.counted), torch.from_numpy(seen.gradient)
    labels = shuffled_labels(seen, start)

    def distance() -> torch.Tensor:
        return squared_distance(seen.of(x, edges, labels), goal)

    quasi_newton(distance, (x,), steps)
    return reconstruction(x, functional.one_hot(labels, seen.model.widths[-1]), distance())
