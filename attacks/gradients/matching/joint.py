"""Features and edges of a receptive field together, from a gradient and the field's sizes alone.

Every pair of nodes has a weight sigmoid(theta), the same in both directions, and neighbours are taken to be alike and
few (GLG, Sinha et al. 2024; FedGIG, Xiao et al. 2024). Only edges that some average of the batch depends on can be
found: between nodes at the rim of a field there is nothing to see.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.matching.descent import (
    cosine_distance,
    first_rows,
    free_labels,
    labels_from,
    signed_descent,
    smoothness,
    sparsity,
    total_variation,
)
from fgl_secure.attacks.gradients.matching.reconstruction import (
    Effort,
    Reconstruction,
    SeenGradient,
    nearest,
    reconstruction,
)
from fgl_secure.errors import InputError

RATE = 0.05
ALIKE = 1e-2
"""Weight of smoothness over the guessed edges."""
FEW = 1e-3
"""Weight of the mean degree."""
VARIATION = 1e-4
DOUBT = 0.3
"""Spread of the first guesses of theta around 0, an even chance."""
MOST_NODES = 64
"""Larger fields have more pairs than a gradient can tell apart."""


def features_and_edges(seen: SeenGradient, effort: Effort) -> Reconstruction:
    """Rows in [0, 1], labels and a weight for every pair; reads of the field its sizes only."""
    if seen.field.nodes > MOST_NODES:
        raise InputError(f"field must have up to {MOST_NODES} nodes for edges to be sought; found {seen.field.nodes}")
    return nearest([_one(seen, effort.steps, start) for start in effort.starts()])


def likeliest_edges(weights: NDArray[np.float64], pairs: int) -> NDArray[np.bool_]:
    """The so many pairs of largest weight as a symmetric matrix [m, m]: a threshold at a known number of edges."""
    size = len(weights)
    rows, columns = np.triu_indices(size, 1)
    kept = np.argsort(-weights[rows, columns], kind="stable")[:pairs]
    chosen = np.zeros((size, size), dtype=np.bool_)
    chosen[rows[kept], columns[kept]] = True
    return np.asarray(chosen | chosen.T)


def _one(seen: SeenGradient, steps: int, start: torch.Generator) -> Reconstruction:
    x, logits, goal = first_rows(seen, start), free_labels(seen, start), torch.from_numpy(seen.gradient)
    size = seen.field.nodes
    ends = torch.triu_indices(size, size, 1)
    theta = (DOUBT * torch.randn(ends.shape[1], generator=start, dtype=torch.float64)).requires_grad_()

    def adjacency() -> torch.Tensor:
        upper = torch.zeros((size, size), dtype=torch.float64).index_put((ends[0], ends[1]), theta.sigmoid())
        return upper + upper.T

    def distance(weights: torch.Tensor) -> torch.Tensor:
        return cosine_distance(seen.of(x, weights, labels_from(logits)), goal)

    def objective() -> torch.Tensor:
        weights = adjacency()
        prior = ALIKE * smoothness(x, weights) + FEW * sparsity(weights)
        if seen.image_shape is not None:
            prior = prior + VARIATION * total_variation(x, seen.image_shape)
        return distance(weights) + prior

    leaves = [x, *([theta] if ends.shape[1] else []), *([logits] if len(logits) > 1 else [])]
    signed_descent(objective, leaves, x, steps, RATE)
    found = adjacency().detach()
    return reconstruction(x, logits, distance(found), found)
