"""How a model's layers compute, and in which order their parameters stand in a flat vector."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.errors import InputError


class Convolution(StrEnum):
    """How a layer aggregates; A is the 0/1 adjacency and D the degrees, loops included where A + I stands."""

    GCN = "gcn"
    """D^-1/2 (A + I) D^-1/2 H W + b in every layer (Kipf and Welling 2017)."""
    SAGE = "sage"
    """H W_own + mean of the neighbours' rows of H, W_neighbour + b; the mean of none is 0 (Hamilton et al. 2017)."""
    SGC = "sgc"
    """(D^-1/2 (A + I) D^-1/2)^hops X W + b, one layer (Wu et al. 2019)."""


class Activation(Enum):
    """What stands between two layers."""

    RELU = "relu"
    SOFTPLUS = "softplus"
    """Smooth, for attacks that differentiate gradients; most like ReLU."""
    SIGMOID = "sigmoid"
    """Smooth, as the first papers on gradient inversion use it."""

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """Applies it entry by entry."""
        return _ACTIVATIONS[self](rows)


_ACTIVATIONS = {
    Activation.RELU: torch.relu,
    Activation.SOFTPLUS: functional.softplus,
    Activation.SIGMOID: torch.sigmoid,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """In which order parameters are laid out in a flat vector; each in row-major order.

    Attributes:
        names: of the parameters, "<layer>.<parameter>", layers from 0.
        shapes: of the parameters; a weight is [d_in, d_out], so that a layer computes H @ W.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """P, the number of entries."""
        return sum(prod(shape) for shape in self.shapes)

    def split(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The parameters of vectors [..., P], each [..., *shape]."""
        if flat.shape[-1:] != (self.size,):
            raise InputError(f"flat must have {self.size} entries in its last axis; found shape {list(flat.shape)}")
        ends = np.cumsum([prod(shape) for shape in self.shapes])
        parts = np.split(flat, ends[:-1], axis=-1)
        laid = zip(self.names, parts, self.shapes, strict=True)
        return {name: part.reshape(*flat.shape[:-1], *shape) for name, part, shape in laid}


def layout_of(convolution: Convolution, widths: tuple[int, ...]) -> Layout:
    """The layout of a model's parameters, before there are any weights; see `GradientModel.layout`."""
    sage = convolution is Convolution.SAGE
    kinds = ("own_weight", "neighbour_weight", "bias") if sage else ("weight", "bias")
    laid = [
        (f"{layer}.{kind}", (d_out,) if kind == "bias" else (d_in, d_out))
        for layer, (d_in, d_out) in enumerate(pairwise(widths))
        for kind in kinds
    ]
    return Layout(tuple(name for name, _ in laid), tuple(shape for _, shape in laid))
