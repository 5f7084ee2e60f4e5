"""Layers split into what a source computes, what is summed on the way, and what a target computes.

HiFGL calls this neighbour-agnostic aggregation (4.2.1, Eqs. 2 and 3): a source scales by its own degree, a target by
its own. Both project on the source's side (4.2.3, step 1a), so a message is as wide as the layer's output.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar, cast

import numpy as np
import torch
from torch import nn

from fgl_secure.errors import InputError
from fgl_secure.training.parameters import overwrite
from fgl_secure.training.presets import Preset
from fgl_secure.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Degrees:
    """What each device knows of its own neighbourhood.

    Attributes:
        full: float [n, 1], number of neighbours in the graph.
        partners: float [n, 1], number of neighbours that it exchanges messages with.
        summed: float [n, 1], number of messages in the sum that it gets: `partners`, or 0 where a scheme refuses a sum
            over so few.
    """

    full: torch.Tensor
    partners: torch.Tensor
    summed: torch.Tensor

    def of(self, members: torch.Tensor) -> Degrees:
        """The degrees of some devices, int64 [k]."""
        return Degrees(self.full[members], self.partners[members], self.summed[members])

    def scaled_to_full(self, sums: torch.Tensor) -> torch.Tensor:
        """Return sums [n, d] times full / summed: of all neighbours where all are summed, else estimates of that."""
        return sums * (self.full / self.summed.clamp(min=1))


_Watch = Callable[[nn.Parameter, torch.Tensor | None, torch.Tensor], None]
"""Given a parameter, the rows [n, d_in] that it was multiplied with (None for a bias), and the result [n, d_out]."""


class MessageLayer(nn.Module, ABC):
    """One layer of a graph neural network whose neighbourhood sum is another party's business.

    Attributes:
        watch: told of every product with a parameter and of every bias added, where devices' gradients are needed.
        watched_alone: whether weights get their gradients from what is watched: autograd need not work them out.

    Examples:
        class MyLayer(MessageLayer): ...  # whole in examples/own/two_heads.py
    """

    watch: _Watch | None = None
    watched_alone = False
    projects_sums: ClassVar[bool] = True
    """Whether the sum of raw rows can be projected by its target: see `raw_message`."""

    def project(self, h: torch.Tensor, weight: nn.Parameter) -> torch.Tensor:
        """The product h @ weight, [n, d_in] to [n, d_out]."""
        if self.watched_alone and torch.is_grad_enabled():
            product = h @ weight.detach()
            product.requires_grad_()
        else:
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

    @property
    def message_width(self) -> int:
        """Entries of a message."""
        return self.message_weight.shape[1]

    @abstractmethod
    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """What a source multiplies its row with, float [n, 1]."""

    def local_state(self, h: torch.Tensor) -> torch.Tensor:
        """What a device makes its message of, and keeps until the sum is there: its row h [n, d_in], or more of it."""
        return h

    def message(self, state: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device sends, of what it keeps: float [n, d_out]."""
        return self.project(state, self.message_weight) * self.source_scale(degrees)

    def raw_message(self, h: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device sends where the sum is projected by its target, so that it outlives the weights: [n, d_in]."""
        return h * self.source_scale(degrees)

    @abstractmethod
    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """What a device makes of what it kept and of the sum [n, d_out] of its neighbours' messages."""


def _glorot(d_in: int, d_out: int) -> nn.Parameter:
    """Initial weights [d_in, d_out] of Glorot and Bengio (2010), as Kipf and Welling take them."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))


def _as_linear(d_in: int, *shape: int) -> nn.Parameter:
    """Initial values of `torch.nn.Linear`: uniform, of magnitude up to one over the root of its d_in inputs."""
    return nn.Parameter(nn.init.uniform_(torch.empty(shape), -(d_in**-0.5), d_in**-0.5))


class _ProjectionLayer(MessageLayer):
    """A layer of one weight, of which a device keeps its projected row: one product serves the message and itself."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = self.initial_weight(d_in, d_out)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def initial_weight(self, d_in: int, d_out: int) -> nn.Parameter:
        """The weight before training, [d_in, d_out]."""
        return _glorot(d_in, d_out)

    @property
    def message_weight(self) -> nn.Parameter:
        """The one weight of the layer."""
        return self.weight

    def local_state(self, h: torch.Tensor) -> torch.Tensor:
        """The projected row."""
        return self.project(h, self.weight)

    def message(self, state: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """See `MessageLayer.message`."""
        return state * self.source_scale(degrees)


class GCNLayer(_ProjectionLayer):
    """Graph convolution (Kipf and Welling 2017, Eq. 2): D^-1/2 (A + I) D^-1/2 X W + b with D = diag(degree + 1).

    The device's own row is added on the spot and never sent.
    """

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """One over the root of the own degree + 1."""
        return torch.rsqrt(degrees.partners + 1)

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row, divides by the root of the number of summed rows + 1 and adds the bias."""
        root = torch.sqrt(degrees.summed + 1)
        return self.shift((sums + state / root) / root, self.bias)


class GatedGCNLayer(GCNLayer):
    """Graph convolution that learns how far to trust sums which a scheme has filled with rows from behind neighbours.

    Of r rows in the sum of a device with d < r neighbours at most d are theirs. `GCNLayer` takes all r as neighbours'.
    The other reading is that d / r times the sum stands for what d neighbours send, which is right for a share d / r
    of its rows alone, and so counts for this share, while the own row has the rest of the neighbours' weight. Which is
    better depends on the graph; a gate, one number a layer, goes from one to the other: sigmoid(START + GAIN w) with w
    learnt from 0. Devices whose sums are not filled compute what `GCNLayer` does.
    """

    START: ClassVar[float] = -1.0
    GAIN: ClassVar[float] = 10.0
    """So that steps of .01 take the gate through its range within some tens of rounds."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        self.gate = nn.Parameter(torch.zeros(1, 1))

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Both readings, mixed by the gate, and the bias."""
        near = torch.minimum(degrees.full, degrees.summed)
        share = near / degrees.summed.clamp(min=1)
        root, most = torch.sqrt(near + 1), torch.sqrt(degrees.summed + 1)
        trusting = (sums + state / most) / most
        wary = (share**2 * sums + (1 + (1 - share) * near) * state / root) / root
        filled = (near < degrees.summed).to(sums.dtype)
        gate = torch.sigmoid(self.START + self.project(self.GAIN * filled, self.gate))
        return self.shift(trusting + filled * gate * (wary - trusting), self.bias)


class GCNWithoutLoopsLayer(_ProjectionLayer):
    """HiFGL's Eqs. 2 and 3 as printed: D^-1/2 A D^-1/2 X W + b with D = diag(degree), and no row of the device itself.

    A device without neighbours, or to which a scheme refuses its sum, has b and nothing else. How weights start the
    paper does not say; they do as in its public code.
    """

    def initial_weight(self, d_in: int, d_out: int) -> nn.Parameter:
        """As `torch.nn.Linear` starts."""
        return _as_linear(d_in, d_in, d_out)

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """One over the root of the own degree (Eq. 2)."""
        return torch.rsqrt(degrees.partners.clamp(min=1))

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:  # noqa: ARG002
        """Divides by the root of the number of summed rows and adds the bias (Eq. 3)."""
        return self.shift(sums * torch.rsqrt(degrees.summed.clamp(min=1)), self.bias)


class PublishedGCNLayer(_ProjectionLayer):
    """The aggregation of HiFGL's public code, which is neither its Eq. 3 nor Kipf and Welling's.

    A message is divided by the root of 1 + *all* neighbours. The receiver puts its own row, unscaled, into the list of
    r received ones, divides by the root of the list's length + 1, r + 2, and takes the mean over the r + 1 rows.
    """

    def initial_weight(self, d_in: int, d_out: int) -> nn.Parameter:
        """As `torch.nn.Linear` starts, which the code takes."""
        return _as_linear(d_in, d_in, d_out)

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """One over the root of the full degree + 1."""
        return torch.rsqrt(degrees.full + 1)

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own row unscaled, and divides by sqrt(received + 2) (received + 1)."""
        received = degrees.summed
        return self.shift((sums + state) / (torch.sqrt(received + 2) * (received + 1)), self.bias)


class SAGELayer(MessageLayer):
    """GraphSAGE with mean aggregation (Hamilton et al. 2017): W_self h + W_neighbour mean(h of neighbours) + b."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own_weight, self.neighbour_weight = _glorot(d_in, d_out), _glorot(d_in, d_out)
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def message_weight(self) -> nn.Parameter:
        """The neighbour weight."""
        return self.neighbour_weight

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """1: the target takes the mean."""
        return torch.ones_like(degrees.partners)

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Divides the sum by the number of messages and adds the own projection and the bias."""
        return self.shift(sums / degrees.summed.clamp(min=1) + self.project(state, self.own_weight), self.bias)


class GINLayer(_ProjectionLayer):
    """Graph isomorphism layer (Xu et al. 2019, Eq. 4.1): a perceptron of (1 + epsilon) h + sum(h of neighbours).

    The perceptron's first product is linear and goes before the sum; the device computes all others behind it.

    Args:
        widths: of the input, and of the output of each product of the perceptron, with ReLU between them.
        eps: epsilon, which is not trained.
    """

    def __init__(self, *widths: int, eps: float = 0.0) -> None:
        super().__init__(*widths[:2])
        self.eps = eps
        self.weights = nn.ParameterList(_glorot(d_in, d_out) for d_in, d_out in pairwise(widths[1:]))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d_out)) for d_out in widths[2:])

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """1: nothing weighs."""
        return torch.ones_like(degrees.partners)

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """The perceptron of the own row and of the sum over all neighbours."""
        h = self.shift((1 + self.eps) * state + degrees.scaled_to_full(sums), self.bias)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = self.shift(self.project(torch.relu(h), weight), bias)
        return h


class PublishedSAGELayer(MessageLayer):
    """GraphSAGE of HiFGL's public code: the own row is in the mean too, and a soft-max on what each layer gives.

    softmax(W_self h + W_neighbour mean(h of neighbours and of the device itself) + b), of which cross-entropy takes the
    soft-max once more. Weights and bias start as those of one `torch.nn.Linear` of the two rows side by side.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own_weight, self.neighbour_weight = (_as_linear(2 * d_in, d_in, d_out) for _ in range(2))
        self.bias = _as_linear(2 * d_in, d_out)

    @property
    def message_weight(self) -> nn.Parameter:
        """The neighbour weight."""
        return self.neighbour_weight

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """1: the target takes the mean."""
        return torch.ones_like(degrees.partners)

    def local_state(self, h: torch.Tensor) -> torch.Tensor:
        """The row by either weight, [n, 2 d_out]: the second one goes into means, the own one's too."""
        return torch.cat([self.project(h, self.own_weight), self.project(h, self.neighbour_weight)], dim=1)

    def message(self, state: torch.Tensor, degrees: Degrees) -> torch.Tensor:  # noqa: ARG002  # no scale
        """What a device sends: float [n, d_out]."""
        return state[:, self.message_width :]

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """The own projection, the mean of received + 1 rows and the bias, as chances."""
        self_rows, among = state.chunk(2, dim=1)
        return torch.softmax(self.shift(self_rows + (sums + among) / (degrees.summed + 1), self.bias), dim=1)


class GATLayer(MessageLayer):
    """Graph attention with one head (Velickovic et al. 2018, Eqs. 1 to 4), with a smooth score in place of LeakyReLU.

    A weight that depends on both ends must come apart into what the source knows and what the target knows, or there is
    no sum. Of x = a_s^T W h_u + a_t^T W h_v the score log(e^x + e^(x/5)) is LeakyReLU's soft maximum, and its
    exponential e^x + e^(x/5) comes apart: a source sends its projected row and a 1, once times e^s and once times
    e^(s/5) with s its own part of x, and a target weighs the two sums by its own part and divides by what the ones
    became. Each part of x is kept within 2 in magnitude by tanh, and 2 of it is the target's, so that no party sends
    more than its projected row. The device's own row is added on the spot and never sent.

    A device that gets a sum sees 2 (d_out + 1) numbers where a graph convolution's has d_out.

    Examples:
        train(HiFGL(backbone="gat"), "digits")  # whose layers are GATLayer(64, 64) and so on
    """

    projects_sums: ClassVar[bool] = False

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight, self.source, self.target = _glorot(d_in, d_out), _glorot(d_out, 1), _glorot(d_out, 1)
        self.bias = nn.Parameter(torch.zeros(d_out))

    @property
    def message_weight(self) -> nn.Parameter:
        """The one weight that rows are projected with."""
        return self.weight

    @property
    def message_width(self) -> int:
        """A row and a normaliser, for each of two exponentials."""
        return 2 * (self.weight.shape[1] + 1)

    def source_scale(self, degrees: Degrees) -> torch.Tensor:
        """1: attention weighs."""
        return torch.ones_like(degrees.partners)

    def local_state(self, h: torch.Tensor) -> torch.Tensor:
        """The projected row, and behind it what of it goes into sums: [n, 3 d_out + 2]."""
        projected = self.project(h, self.weight)
        return torch.cat([projected, self._weigh(projected)], dim=1)

    def message(self, state: torch.Tensor, degrees: Degrees) -> torch.Tensor:  # noqa: ARG002  # attention weighs
        """What a device sends: float [n, 2 (d_out + 1)]."""
        return state[:, self.weight.shape[1] :]

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:  # noqa: ARG002  # as above
        """The mean of the neighbours' projected rows and the own one, weighed by attention, and the bias."""
        projected, weighed = state[:, : self.weight.shape[1]], state[:, self.weight.shape[1] :]
        steep, flat = (sums + weighed).chunk(2, dim=1)
        attention = SCORE * (torch.tanh(self.project(projected, self.target)) + 1)
        mixed = torch.exp(attention) * steep + torch.exp(SLOPE * attention) * flat
        return self.shift(mixed[:, :-1] / mixed[:, -1:], self.bias)

    def _weigh(self, projected: torch.Tensor) -> torch.Tensor:
        score = SCORE * (torch.tanh(self.project(projected, self.source)) - 1)
        rows = torch.cat([projected, torch.ones_like(score)], dim=1)
        return torch.cat([torch.exp(score) * rows, torch.exp(SLOPE * score) * rows], dim=1)


SLOPE, SCORE = 0.2, 2.0
"""Of LeakyReLU (3.3), and the largest magnitude of either end's part of a score."""

LayerMaker = Callable[[int, int], MessageLayer]


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedModule:
    """A torch_geometric module as a backbone: layers with its widths and weights; see `backbones.register_backbone`.

    Attributes:
        module: the module; its weights stay as they are until `load` replaces them.
        layers: the layers, one per convolution, with copies of the weights.
        dropout: probability of dropping a hidden unit.
        names: for each parameter of the layers, in order, the name of the module's parameter that it was copied from.
    """

    module: nn.Module
    layers: nn.ModuleList
    dropout: float
    names: tuple[str, ...]

    @property
    def origins(self) -> tuple[nn.Parameter, ...]:
        """The module's parameters behind `names`; matrices are transposed.

        Raises:
            InputError: the module has lost one of them.
        """
        known = dict(self.module.named_parameters())
        lost = [name for name in self.names if name not in known]
        if lost:
            raise InputError(f"module must have the parameters that it was registered with; found no {lost[0]}")
        return tuple(known[name] for name in self.names)

    @property
    def widest(self) -> int:
        """Most entries of a bias, which every product that the layers compute has one of."""
        return max(origin.numel() for origin in self.origins if origin.ndim == 1)

    def copy_layers(self, features: int, classes: int) -> nn.ModuleList:
        """Return layers with the initial weights.

        Raises:
            InputError: the graph has another number of features or classes than the module.
        """
        first, last = cast("MessageLayer", self.layers[0]), [origin for origin in self.origins if origin.ndim == 1][-1]
        ends = first.message_weight.shape[0], last.numel()
        if ends != (features, classes):
            raise InputError(
                f"backbone must take {features} features and give {classes} classes, as the graph has; found a module "
                f"of {ends[0]} and {ends[1]}: make it with in_channels={features} and {classes} output channels"
            )
        return copy.deepcopy(self.layers)

    def load(self, theta: Array) -> nn.Module:
        """Write trained weights into the module, and return it.

        Args:
            theta: float [p], the parameters of all layers one after the other, as `train(...).result.report["theta"]`
                has them after the last round.

        Raises:
            InputError: there are more or fewer.
        """
        entries = sum(origin.numel() for origin in self.origins)
        if np.shape(theta) != (entries,):
            raise InputError(f"theta must hold {entries} numbers, one per parameter; found {list(np.shape(theta))}")
        overwrite([origin.detach().t() for origin in self.origins], np.asarray(theta, dtype=np.float32))
        return self.module


def shape_preset(make: LayerMaker | AdaptedModule, preset: Preset) -> Preset:
    """Return the preset with the depth, width and dropout of an adapted module, or as it is."""
    if not isinstance(make, AdaptedModule):
        return preset
    return replace(preset, layers=len(make.layers), hidden=make.widest, dropout=make.dropout)


LAYERS: Mapping[str, LayerMaker] = MappingProxyType({"gcn": GCNLayer, "sage": SAGELayer})


def make_layers(make: LayerMaker | AdaptedModule, widths: tuple[int, ...], seed: int) -> nn.ModuleList:
    """Layers of the given widths with initial weights that depend on the seed alone; an adapted module has its own."""
    if isinstance(make, AdaptedModule):
        return make.copy_layers(widths[0], widths[-1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleList(make(d_in, d_out) for d_in, d_out in pairwise(widths))


def widest(make: LayerMaker | AdaptedModule, widths: tuple[int, ...]) -> int:
    """Most entries of a message of layers of the given widths."""
    return max(cast("MessageLayer", layer).message_width for layer in make_layers(make, widths, 0))
