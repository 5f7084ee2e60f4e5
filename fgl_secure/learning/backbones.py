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
        heard: float [n, 1], number of neighbours that send to it.
    """

    full: torch.Tensor
    heard: torch.Tensor

    def of(self, members: torch.Tensor) -> Degrees:
        """The degrees of some devices, int64 [k]."""
        return Degrees(self.full[members], self.heard[members])


class MessageLayer(nn.Module, ABC):
    """One layer of a graph neural network whose neighbourhood sum is somebody else's business."""

    @abstractmethod
    def message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device sends: float [n, d_in] to [n, d_out]."""

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

    def message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Projects, and divides by the root of the own degree + 1."""
        return h @ self.weight / torch.sqrt(degrees.heard + 1)

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row, divides by the root of the own degree + 1 and adds the bias."""
        return (sums + self.message(h, degrees)) / torch.sqrt(degrees.heard + 1) + self.bias


class PublishedGCNLayer(MessageLayer):
    """The aggregation of HiFGL's public code, which is not Kipf and Welling's.

    A message is divided by the root of 1 + *all* neighbours; the receiver adds its own row unscaled, divides by the
    root of received + 1 and then takes the mean over received + 1 rows.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Projects, and divides by the root of the full degree + 1."""
        return h @ self.weight / torch.sqrt(degrees.full + 1)

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row unscaled, and divides by (received + 1)^(3/2)."""
        return (sums + h @ self.weight) / (degrees.heard + 1) ** 1.5 + self.bias


class SAGELayer(MessageLayer):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017): W_self h + W_neighbour mean(h of neighbours) + b."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.neighbour_weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:  # noqa: ARG002  # the target takes the mean
        """Projects with the neighbour weight."""
        return h @ self.neighbour_weight

    def update(self, h: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Divides the sum by the number of messages and adds the own projection and the bias."""
        return sums / degrees.heard.clamp(min=1) + h @ self.own_weight + self.bias


LayerMaker = Callable[[int, int], MessageLayer]

LAYERS: Mapping[str, LayerMaker] = MappingProxyType({"gcn": GCNLayer, "sage": SAGELayer})
PUBLISHED_LAYERS: Mapping[str, LayerMaker] = MappingProxyType({"gcn": PublishedGCNLayer, "sage": SAGELayer})


def make_layers(make: LayerMaker, widths: tuple[int, ...], seed: int) -> nn.ModuleList:
    """Layers of the given widths with initial weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(make(d_in, d_out) for d_in, d_out in pairwise(widths))
