"""What gradient matching works on and what it gives: inputs are sought whose gradient is the one that was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.model import GradientModel
from fgl_secure.attacks.gradients.receptive_field import ReceptiveField
from fgl_secure.errors import InputError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SeenGradient:
    """A gradient, and what its observer knows of the small graph behind it.

    Attributes:
        model: the model, at the weights that the gradient was taken at.
        gradient: float64 [P], in the order of the model's layout, of the mean loss over the batch.
        field: the nodes behind it. Attacks that also look for edges use its sizes alone.
        labels: int64 [b], the labels of the batch as its observer reads them, in no order of significance.
        image_shape: (height, width) where the rows are pictures, else None.
        clip: the norm that the gradient was cut down to if it was longer, else None.
    """

    model: GradientModel
    gradient: Floats
    field: ReceptiveField
    labels: Ids
    image_shape: tuple[int, int] | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.gradient.shape != (self.model.layout.size,):
            raise InputError(f"gradient must have shape [{self.model.layout.size}]; found {list(self.gradient.shape)}")

        if self.labels.shape != (self.field.batch,):
            raise InputError(f"labels must have shape [{self.field.batch}]; found {list(self.labels.shape)}")

    def of(self, x: torch.Tensor, adjacency: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What rows [m, d], an adjacency as the model takes it, and labels of the batch would have shown: [P]."""
        gradient = self.model.gradient(x, adjacency, labels, torch.arange(self.field.batch))
        return gradient if self.clip is None else gradient * (self.clip / gradient.norm()).clamp(max=1)


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """What an attack makes of one gradient.

    Attributes:
        features: float64 [m, d], the rows of the field, those of the batch first.
        labels: int64 [b], of the batch.
        distance: between the gradient of these inputs and the one that was seen, as the attack measures it.
        adjacency: float64 [m, m], a weight in [0, 1] for every pair where edges were looked for, else None.
    """

    features: Floats
    labels: Ids
    distance: float
    adjacency: Floats | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How long an attack tries.

    Attributes:
        steps: of the optimiser, in each try.
        restarts: tries, of which the one with the least distance is kept.
        seed: of the first guesses.
    """

    steps: int
    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.restarts < 1 or self.seed < 0:
            raise InputError(
                f"steps and restarts must be at least 1 and seed 0; found {self.steps}, {self.restarts}, {self.seed}"
            )

    def starts(self) -> tuple[torch.Generator, ...]:
        """One source of first guesses for each try; no privacy rests on them."""
        return tuple(torch.Generator().manual_seed(self.seed + each) for each in range(self.restarts))


def reconstruction(
    x: torch.Tensor, logits: torch.Tensor, distance: torch.Tensor, adjacency: torch.Tensor | None = None
) -> Reconstruction:
    """What a try has arrived at: rows [m, d], labels as the largest of logits [b, c], and weights of pairs [m, m].

    A try that left the finite numbers is as far from the gradient as can be.
    """
    rows, last = x.detach().numpy().copy(), float(distance.detach())
    far = not (math.isfinite(last) and np.isfinite(rows).all())
    weights = None if adjacency is None else adjacency.detach().numpy().copy()
    labels = logits.detach().argmax(dim=1).numpy().astype(np.int64)
    return Reconstruction(np.nan_to_num(rows), labels, math.inf if far else last, weights)


def nearest(tries: Sequence[Reconstruction]) -> Reconstruction:
    """The try whose gradient is nearest to the one that was seen."""
    return min(tries, key=lambda each: each.distance)
