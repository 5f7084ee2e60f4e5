"""Which runs attacks on generators read, which they must break, and what everybody knows of a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GENERATORS = "gradients of generators"
"""Scenario: what clients of FedSage+ tell each other in a round for generators."""

FEDSAGE = "fedsage in the clear, few generated rows"
"""Control, as FedSage+ makes it."""


class Layers(NamedTuple):
    """The parameters of a generator, or a gradient of them.

    Attributes:
        weight: float64 [latent, width].
        bias: float64 [width].
        last: float64 [width, d].
        last_bias: float64 [d].
    """

    weight: Floats
    bias: Floats
    last: Floats
    last_bias: Floats


@dataclass(frozen=True, slots=True)
class GeneratorShape:
    """The widths of every client's generator, and how its gradients are sent.

    Attributes:
        latent: columns of what it generates from.
        width: of its hidden layer.
        features: d, columns of what it generates.
        fraction_bits: of the integers that gradients are rounded to.
        cross: what a client weighs the loss of another one with.
    """

    latent: int
    width: int
    features: int
    fraction_bits: int
    cross: float

    def layers(self, flat: Floats) -> Layers:
        """Parameters float [P], one after the other, as they belong together."""
        sizes = (self.latent * self.width, self.width, self.width * self.features, self.features)
        weight, bias, last, last_bias = np.split(np.asarray(flat, dtype=np.float64), np.cumsum(sizes)[:-1])
        return Layers(weight.reshape(self.latent, self.width), bias, last.reshape(self.width, self.features), last_bias)
