"""Layers split into what a source computes, what is summed on the way, and what a target computes.

HiFGL calls this neighbour-agnostic aggregation (4.2.1, Eqs. 2 and 3): a source scales by its own degree, a target by
its own. Both project on the source's side (4.2.3, step 1a), so a message is as wide as the layer's output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import nn


@dataclass(frozen=True, slots=True, eq=False)
class Degrees:
    """What each device knows of its own neighbourhood.

    Attributes:
        full: float [n, 1], number of neighbours in the graph.
        heard: float [n, 1], number of neighbours that it exchanges messages with.
        summed: float [n, 1], number of messages in the sum that it gets: `heard`, or 0 where a scheme refuses a sum
            over so few.
    """

    full: torch.Tensor
    heard: torch.Tensor
    summed: torch.Tensor

    def of(self, members: torch.Tensor) -> Degrees:
        """The degrees of some devices, int64 [k]."""
        return Degrees(self.full[members], self.heard[members], self.summed[members])


Watch = Callable[[nn.Parameter, torch.Tensor | None, torch.Tensor], None]
"""Given a parameter, the rows [n, d_in] that it was multiplied with (None for a bias), and the result [n, d_out]."""


class MessageLayer(nn.Module, ABC):
    """One layer of a graph neural network whose neighbourhood sum is somebody else's business.

    Attributes:
        watch: told of every product with a parameter and of every bias added, where devices' gradients are needed.
    """

    watch: Watch | None = None

    def project(self, h: torch.Tensor, weight: nn.Parameter) -> torch.Tensor:
        """The product h @ weight, [n, d_in] to [n, d_out]."""
        product = h @ weight
        if self.watch is not None:
            self.watch(weight, h, product)
        return product

    def shift(self, h: torch.Tensor, bias: nn.Parameter) -> torch.Tensor:
        """The sum h + bias."""
        shifted = h + bias
        if self.watch is not None:
            self.watch(bias, None, shifted)
        return shifted

    @property
    @abstractmethod
    def message_weight(self) -> nn.Parameter:
        """[d_in, d_out], what a source projects with."""

    @abstractmethod
    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """What a source multiplies its row with, float [n, 1]."""

    def message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device sends: float [n, d_in] to [n, d_out]."""
        return self.project(h, self.message_weight) * self.source_scale(degrees)

    def raw_message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device sends where the sum is projected by its target, so that it outlives the weights: [n, d_in]."""
        return h * self.source_scale(degrees)

    @abstractmethod
    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device makes of its own h [n, d_in] and the sum [n, d_out] of its neighbours' messages."""


class GCNLayer(MessageLayer):
    """Graph convolution (Kipf and Welling 2017, Eq. 2): D^-1/2 (A + I) D^-1/2 X W + b with D = diag(degree + 1).

    The device's own row is added on the spot and never sent.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def message_weight(self) -> nn.Parameter:
        """The one weight of the layer."""
        return self.weight

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """One over the root of the own degree + 1."""
        return torch.rsqrt(degrees.heard + 1)

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row, divides by the root of the number of summed rows + 1 and adds the bias."""
        root = torch.sqrt(degrees.summed + 1)
        return self.shift((sums + self.project(h, self.weight) / root) / root, self.bias)


class PublishedGCNLayer(MessageLayer):
    """The aggregation of HiFGL's public code, which is not Kipf and Welling's.

    A message is divided by the root of 1 + *all* neighbours; the receiver adds its own row unscaled, divides by the
    root of received + 1 and then takes the mean over received + 1 rows.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def message_weight(self) -> nn.Parameter:
        """The one weight of the layer."""
        return self.weight

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """One over the root of the full degree + 1."""
        return torch.rsqrt(degrees.full + 1)

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row unscaled, and divides by (received + 1)^(3/2)."""
        return self.shift((sums + self.project(h, self.weight)) / (degrees.summed + 1) ** 1.5, self.bias)


class SAGELayer(MessageLayer):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017): W_self h + W_neighbour mean(h of neighbours) + b."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.neighbour_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def message_weight(self) -> nn.Parameter:
        """The neighbour weight."""
        return self.neighbour_weight

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """1: the target takes the mean."""
        return torch.ones_like(degrees.heard)

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Divides the sum by the number of messages and adds the own projection and the bias."""
        return self.shift(sums / degrees.summed.clamp(min=1) + self.project(h, self.own_weight), self.bias)


LayerMaker = Callable[[int, int], MessageLayer]

LAYERS: Mapping[str, LayerMaker] = MappingProxyType({"gcn": GCNLayer, "sage": SAGELayer})
PUBLISHED_LAYERS: Mapping[str, LayerMaker] = MappingProxyType({"gcn": PublishedGCNLayer, "sage": SAGELayer})


def make_layers(make: LayerMaker, widths: tuple[int, ...], seed: int) -> nn.ModuleList:
    """Layers of the given widths with initial weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(make(d_in, d_out) for d_in, d_out in pairwise(widths))
