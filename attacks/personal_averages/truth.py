"""What is secret about personal averages: models, and the labels that they are trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Truth
from fgl_secure.attacks.truth import moved_on

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ModelTruth(Truth):
    """What clients' models are, and what they are trained on.

    Attributes:
        models: float64 [clients, P], as they went into the averages.
        label_shares: float64 [clients, classes], how often each label occurs among a client's training nodes.
    """

    models: Floats
    label_shares: Floats

    def permuted(self, seed: int) -> ModelTruth:  # noqa: ARG002  # clients move on by one
        """Every client's secrets at the next client."""
        return ModelTruth(moved_on(self.models), moved_on(self.label_shares))
