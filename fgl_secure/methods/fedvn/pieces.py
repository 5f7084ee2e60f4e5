"""What graph isomorphism networks and virtual nodes are made of."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.methods.fedvn.norms import BatchNorm


class Dropout:
    """Drops units by a generator of its own: equal seeds give equal bits on every device.

    Args:
        probability: of dropping a unit.
        draws: where masks come from.
    """

    def __init__(self, probability: float, draws: np.random.Generator) -> None:
        self._probability, self._draws = probability, draws

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """The values with some units zero and the others scaled up."""
        if self._probability == 0:
            return values
        kept = torch.from_numpy(self._kept(values.numel())).reshape(values.shape).to(values.device)
        return values * (kept.to(values.dtype) * (1 / (1 - self._probability)))

    def _kept(self, count: int) -> NDArray[np.uint8]:
        if self._probability == 0.5:  # one random bit a unit
            drawn = np.frombuffer(self._draws.bytes(-(-count // 8)), dtype=np.uint8)
            return np.unpackbits(drawn, count=count)
        return (self._draws.random(count, dtype=np.float32) >= self._probability).astype(np.uint8)


class Linear(nn.Module):
    """A linear layer with PyTorch's initial distribution, drawn from a generator."""

    def __init__(self, inputs: int, outputs: int, draws: torch.Generator) -> None:
        super().__init__()
        edge = 1 / np.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-edge, edge, generator=draws))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-edge, edge, generator=draws))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """From [..., inputs] to [..., outputs]."""
        return functional.linear(values, self.weight, self.bias)


class GINLayer(nn.Module):
    """Linear, batch norm, ReLU, linear of what a node hears from its neighbours and itself; batch norm."""

    def __init__(self, hidden: int, *, kept: bool, draws: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(hidden, 2 * hidden, draws)
        self.inner = BatchNorm(2 * hidden, kept=kept)
        self.second = Linear(2 * hidden, hidden, draws)
        self.outer = BatchNorm(hidden, kept=kept)

    def forward(self, projected: torch.Tensor, counts: torch.Tensor | None = None) -> torch.Tensor:
        """What comes after the first linear map.

        Args:
            projected: `first` of what nodes hear, float32 [r, 2 hidden].
            counts: how many nodes each row stands for, float32 [r]; None means one.
        """
        found: torch.Tensor = self.outer(self.second(functional.relu(self.inner(projected, counts))), counts)
        return found


class VirtualUpdate(nn.Module):
    """CB_vn of Eq. 6: linear, batch norm, ReLU, linear, batch norm, ReLU; every virtual node has its own norms."""

    def __init__(self, hidden: int, virtual_nodes: int, *, kept: bool, draws: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(hidden, 2 * hidden, draws)
        self.inner = BatchNorm(2 * hidden * virtual_nodes, kept=kept)
        self.second = Linear(2 * hidden, hidden, draws)
        self.outer = BatchNorm(hidden * virtual_nodes, kept=kept)

    def forward(self, heard: torch.Tensor) -> torch.Tensor:
        """From h_m plus what it heard [b, M, hidden] to the next h_m."""
        inner = functional.relu(self.inner(self.first(heard).flatten(1)))
        found: torch.Tensor = self.outer(self.second(inner.reshape(*heard.shape[:2], -1)).flatten(1))
        return functional.relu(found).reshape(heard.shape)


def active(values: torch.Tensor, drop: Dropout | None) -> torch.Tensor:
    """ReLU, and dropout in training."""
    return dropped(functional.relu(values), drop)


def dropped(values: torch.Tensor, drop: Dropout | None) -> torch.Tensor:
    """Dropout in training."""
    return values if drop is None else drop(values)
