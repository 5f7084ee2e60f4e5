"""What the server of a federation knows of the model whose gradients it receives: enough to compute them itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.attacks.gradient_layout import Activation, Convolution, Layout, layout_of
from fgl_secure.attacks.propagation import propagated
from fgl_secure.errors import InputError

__all__ = ["Activation", "Convolution", "GradientModel", "Layout", "layout_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GradientModel:
    """A graph neural network with one or two layers, at the weights of one round.

    A client's gradient is that of the mean cross-entropy over its batch, in the parameters of `layout`.

    Attributes:
        convolution: how layers aggregate.
        widths: d_in, the hidden width where there are two layers, and the number of classes c.
        weights: float64 [P], the global weights that clients started the round from, in the order of `layout`.
        activation: between two layers.
        hops: the power of the averaging matrix under `Convolution.SGC`; 1 otherwise.
        round: the round whose gradients were taken at these weights; attacks read that round alone.
        rate: what a client's vector is divided by to give a gradient: 1 where clients send gradients, minus learning
            rate times local steps where they send the difference of their weights (then only nearly a gradient after
            more than one step).
        sizes: for each silo by index, over how many nodes it takes its gradient, as the server knows it that weighs by
            them; empty where it does not.
    """

    convolution: Convolution
    widths: tuple[int, ...]
    weights: Floats
    activation: Activation = Activation.RELU
    hops: int = 1
    round: int = 0
    rate: float = 1.0
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        deepest = 1 if self.convolution is Convolution.SGC else 2
        if not 1 <= self.layers <= deepest or min(self.widths) < 1:
            raise InputError(f"widths must be positive, of 1 to {deepest} layers; found {self.widths}")
        if self.weights.shape != (self.layout.size,):
            raise InputError(f"weights must have shape [{self.layout.size}]; found {list(self.weights.shape)}")
        if self.hops < 1 or (self.hops > 1 and self.convolution is not Convolution.SGC):
            raise InputError(f"hops must be 1, or more under sgc; found {self.hops} under {self.convolution}")
        if not self.rate:
            raise InputError("rate must not be 0")

    @property
    def layers(self) -> int:
        """How many layers of parameters: 1 or 2."""
        return len(self.widths) - 1

    @property
    def reach(self) -> int:
        """From how many hops away a node's row reaches the logits of a batch."""
        return self.hops if self.convolution is Convolution.SGC else self.layers

    @property
    def layout(self) -> Layout:
        """Parameters in order: of each layer "weight" and "bias", or "own_weight", "neighbour_weight" and "bias"."""
        return layout_of(self.convolution, self.widths)

    @property
    def first_weights(self) -> tuple[str, ...]:
        """Names of the first layer's weights, whose gradients have the rows that entered as their column space."""
        return tuple(name for name in self.layout.names if name.startswith("0.") and name.endswith("weight"))

    @property
    def last_bias(self) -> str:
        """Name of the last bias, whose gradient is the mean of soft-max less one-hot over the batch."""
        return f"{self.layers - 1}.bias"

    def gradients(self, vectors: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What clients sent, [..., P], as gradients by name; see `rate`."""
        return self.layout.split(vectors / vectors.dtype.type(self.rate))

    def parameters(self, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
        """The weights as fresh leaves that require gradients."""
        laid = self.layout.split(self.weights)
        return {name: torch.tensor(values, dtype=dtype, requires_grad=True) for name, values in laid.items()}

    def logits(self, x: torch.Tensor, adjacency: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Float [n, c] of rows [n, d_in]; arguments as for `gradient`."""
        h = x
        for layer in range(self.layers):
            h = self._layer(h if layer == 0 else self.activation.of(h), adjacency, weights, f"{layer}.")
        return h

    def gradient(
        self, x: torch.Tensor, adjacency: torch.Tensor, labels: torch.Tensor, batch: torch.Tensor
    ) -> torch.Tensor:
        """The gradient of the mean cross-entropy over a batch; can itself be differentiated in x, adjacency, labels.

        Second derivatives are useful under a smooth activation only.

        Args:
            x: float [n, d_in], whose dtype everything is computed in.
            adjacency: float [n, n] without loops, entry [target, source], any weights in [0, 1], symmetric under GCN
                and SGC; or int64 [2, m], sources above targets, of edges that count once each.
            labels: int64 [b], or float [b, c] of probabilities.
            batch: int64 [b], rows of x.

        Returns:
            Float [P], in the order of `layout`.
        """
        weights = self.parameters(x.dtype)
        loss = functional.cross_entropy(self.logits(x, adjacency, weights)[batch], labels)
        parts = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return torch.cat([part.reshape(-1) for part in parts])

    def _layer(
        self, h: torch.Tensor, adjacency: torch.Tensor, weights: Mapping[str, torch.Tensor], name: str
    ) -> torch.Tensor:
        if self.convolution is Convolution.SAGE:
            means = propagated(h @ weights[f"{name}neighbour_weight"], adjacency, mean=True)
            return h @ weights[f"{name}own_weight"] + means + weights[f"{name}bias"]
        rows = h @ weights[f"{name}weight"]
        for _ in range(self.hops):
            rows = propagated(rows, adjacency, mean=False)
        return rows + weights[f"{name}bias"]
