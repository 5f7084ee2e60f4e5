"""Inverting gradients (Geiping et al. 2020): the angle of gradients, an image prior, and signs of slopes."""

from __future__ import annotations

import torch

from fgl_secure.attacks.gradient_matching.descent import signed_descent
from fgl_secure.attacks.gradient_matching.distances import cosine_distance
from fgl_secure.attacks.gradient_matching.reconstruction import (
    Effort,
    Reconstruction,
    SeenGradient,
    nearest,
    reconstruction,
)
from fgl_secure.attacks.gradient_matching.regularisers import smoothness, total_variation
from fgl_secure.attacks.gradient_matching.starts import first_rows, free_labels, labels_from

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
    return nearest([_one(seen, effort.steps, start) for start in effort.starts()])


def _one(seen: SeenGradient, steps: int, start: torch.Generator) -> Reconstruction:
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
