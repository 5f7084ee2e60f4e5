"""Rows and labels of a receptive field with known edges, from its gradient.

Deep leakage from gradients (DLG, Zhu et al. 2019), and with labels read first (iDLG, Zhao et al. 2020).

L-BFGS on the squared distance of gradients. The papers' inputs are pictures; here they are the rows of a receptive
field with known edges. Rows that a gradient does not determine (neighbours that enter through an average alone) stay
near the first guess.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from fgl_secure.attacks.gradients.matching.descent import (
    cosine_distance,
    first_rows,
    free_labels,
    labels_from,
    quasi_newton,
    shuffled_labels,
    signed_descent,
    smoothness,
    squared_distance,
    total_variation,
)
from fgl_secure.attacks.gradients.matching.reconstruction import (
    Effort,
    Reconstruction,
    SeenGradient,
    nearest,
    reconstruction,
)


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


RATE = 0.1
"""Size of the first steps, of features in [0, 1] (the paper's)."""
VARIATION = 1e-4
"""Weight of total variation where rows are pictures; the paper's range is 1e-6 to 1e-1."""
ALIKE = 1e-4
"""Weight of smoothness over the known edges, which chooses among the rows that give one average."""


def inverting_gradients(seen: SeenGradient, effort: Effort) -> Reconstruction:
    """Rows in [0, 1]; the label of one node as the last bias tells it, those of several free from there on.

    The paper takes labels as known.
    """
    return nearest([_one_inverted(seen, effort.steps, start) for start in effort.starts()])


def _one_inverted(seen: SeenGradient, steps: int, start: torch.Generator) -> Reconstruction:
    x, logits = first_rows(seen, start), free_labels(seen, start)
    edges, goal = torch.from_numpy(seen.field.counted), torch.from_numpy(seen.gradient)
    adjacency = torch.from_numpy(seen.field.adjacency)

    def distance() -> torch.Tensor:
        return cosine_distance(seen.of(x, edges, labels_from(logits)), goal)

    def objective() -> torch.Tensor:
        prior = ALIKE * smoothness(x, adjacency)
        if seen.image_shape is not None:
            prior = prior + VARIATION * total_variation(x, seen.image_shape)
        return distance() + prior

    signed_descent(objective, (x, logits) if len(logits) > 1 else (x,), x, steps, RATE)
    return reconstruction(x, logits, distance())
