"""The model whose gradients a server receives, and the small graph that a batch's gradient depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.typing import Floats, Ids


def _propagate(rows: torch.Tensor, adjacency: torch.Tensor, *, mean: bool) -> torch.Tensor:
    """D^-1/2 (A + I) D^-1/2 rows, or the mean over neighbours; differentiable in both arguments.

    Args:
        rows: float [n, d].
        adjacency: float [n, n] without loops, entry [target, source]; or int64 [2, m], sources above targets.
        mean: whether to take the mean, which is 0 where there are no neighbours, and the own row does not count.
    """
    if adjacency.is_floating_point():
        degree = adjacency.sum(dim=1, keepdim=True)
        if mean:
            return adjacency @ rows / torch.where(degree > 0, degree, torch.ones_like(degree))
        root = torch.rsqrt(degree + 1)
        scaled = rows * root
        return root * (adjacency @ scaled + scaled)
    source, target = adjacency
    degree = torch.zeros(len(rows), dtype=rows.dtype).index_add(0, target, rows.new_ones(len(target)))
    if mean:
        total = torch.zeros_like(rows).index_add(0, target, rows[source])
        return total / degree.clamp(min=1)[:, None]
    root = torch.rsqrt(degree + 1)[:, None]
    scaled = rows * root
    return root * scaled.index_add(0, target, scaled[source])


def averaging(edges: Ids, size: int) -> sparse.csr_array:
    """D^-1/2 (A + I) D^-1/2 of edges int64 [2, m], float64 [n, n]; each edge counts once."""
    looped = sparse.csr_array(sparse.eye_array(size) + _adjacency(edges, size))
    root = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return sparse.csr_array(root @ looped @ root)


def means(edges: Ids, size: int) -> sparse.csr_array:
    """D^-1 A of edges int64 [2, m], float64 [n, n]: the mean over neighbours, 0 where there are none."""
    adjacency = _adjacency(edges, size)
    return sparse.csr_array(sparse.diags_array(1 / np.maximum(adjacency.sum(axis=1), 1)) @ adjacency)


def _adjacency(edges: Ids, size: int) -> sparse.csr_array:
    ones = np.ones(edges.shape[1])
    return sparse.csr_array((ones, (edges[1], edges[0])), shape=(size, size))


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
class _Layout:
    """In which order parameters are laid out in a flat vector; each in row-major order."""

    names: tuple[str, ...]  # of the parameters, "<layer>.<parameter>", layers from 0
    shapes: tuple[tuple[int, ...], ...]  # of the parameters; a weight is [d_in, d_out], so that a layer computes H @ W

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


def layout_of(convolution: Convolution, widths: tuple[int, ...]) -> _Layout:
    """The layout of a model's parameters, before there are any weights; see `GradientModel.layout`."""
    sage = convolution is Convolution.SAGE
    kinds = ("own_weight", "neighbour_weight", "bias") if sage else ("weight", "bias")
    laid = [
        (f"{layer}.{kind}", (d_out,) if kind == "bias" else (d_in, d_out))
        for layer, (d_in, d_out) in enumerate(pairwise(widths))
        for kind in kinds
    ]
    return _Layout(tuple(name for name, _ in laid), tuple(shape for _, shape in laid))


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
    def layout(self) -> _Layout:
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
            means = _propagate(h @ weights[f"{name}neighbour_weight"], adjacency, mean=True)
            return h @ weights[f"{name}own_weight"] + means + weights[f"{name}bias"]
        rows = h @ weights[f"{name}weight"]
        for _ in range(self.hops):
            rows = _propagate(rows, adjacency, mean=False)
        return rows + weights[f"{name}bias"]


@dataclass(frozen=True, slots=True, eq=False)
class ReceptiveField:
    """The nodes whose rows reach the logits of a batch, in an order of their own: the batch first.

    Attributes:
        nodes: m, how many there are.
        batch: b, how many of them have labels that train; they are rows 0 .. b - 1.
        edges: int64 [2, e], both directions of edges between them, sources above targets, in 0 .. m - 1; no loops.
        outside: int64 [m], how many neighbours each has beyond the field; they count in its degree and nowhere else.
    """

    nodes: int
    batch: int
    edges: Ids
    outside: Ids

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.nodes:
            raise InputError(f"batch must lie in 1..nodes = {self.nodes}; found {self.batch}")
        if self.edges.ndim != 2 or len(self.edges) != 2 or self.edges.dtype != np.int64:
            raise InputError(f"edges must be int64 [2, e]; found {self.edges.dtype} {list(self.edges.shape)}")
        if self.edges.size and (self.edges.min() < 0 or self.edges.max() >= self.nodes):
            raise InputError(f"edges must join nodes 0..{self.nodes - 1}; found one that does not")
        if self.outside.shape != (self.nodes,) or self.outside.min() < 0:
            raise InputError(f"outside must be counts [{self.nodes}]; found shape {list(self.outside.shape)}")

    @property
    def pairs(self) -> int:
        """How many undirected edges there are."""
        return len(np.unique(np.sort(self.edges, axis=0), axis=1).T)

    @property
    def edges_with_loops(self) -> Ids:
        """int64 [2, e + o]: the edges, and a loop for every neighbour outside, which brings degrees to what they are.

        Only outermost nodes have neighbours outside, and what an outermost node averages never reaches the logits.
        """
        stubs = np.repeat(np.arange(self.nodes), self.outside)
        return np.concatenate([self.edges, np.stack([stubs, stubs])], axis=1)

    @property
    def adjacency(self) -> NDArray[np.float64]:
        """The edges as a matrix of zeros and ones, [m, m], entry [target, source]."""
        matrix = np.zeros((self.nodes, self.nodes))
        matrix[self.edges[1], self.edges[0]] = 1
        return matrix

    def pooled_pairs(self, reach: int) -> NDArray[np.bool_]:
        """Bool [m, m], symmetric: pairs with an end whose average reaches the logits of the batch.

        Args:
            reach: from how many hops away rows reach them; averages do from one hop less.
        """
        near = np.arange(self.nodes) < self.batch
        for _ in range(reach - 1):
            near = near | (self.adjacency @ near > 0)
        return np.asarray(near[:, None] | near[None, :])


def receptive_field(edges: Ids, batch: Ids, reach: int) -> tuple[ReceptiveField, Ids]:
    """The field of a batch, and who is in it.

    Args:
        edges: int64 [2, m], sources above targets, of the graph that is aggregated over.
        batch: int64 [b], the nodes with a loss, all different.
        reach: from how many hops away rows reach the logits.

    Returns:
        The field, and int64 [m] the node behind each of its rows.
    """
    if len(np.unique(batch)) != len(batch):
        raise InputError("batch must name different nodes; found one twice")
    members = batch.astype(np.int64)
    for _ in range(reach):
        sources = np.unique(edges[0, np.isin(edges[1], members)])
        members = np.concatenate([members, np.setdiff1d(sources, members)])
    order = np.argsort(members)
    inside = edges[:, np.isin(edges, members).all(axis=0)]
    local = order[np.searchsorted(members[order], inside)].astype(np.int64)
    degrees = np.bincount(edges[1, np.isin(edges[1], members)], minlength=int(members.max()) + 1)[members]
    outside = degrees - np.bincount(local[1], minlength=len(members))
    return ReceptiveField(len(members), len(batch), local, outside), members


def gradient_parts(gradient: Any, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradient by name, float64, in the order of the parameters."""
    size = sum(value.numel() for value in parameters.values())
    if isinstance(gradient, Mapping):
        if set(gradient) != set(parameters):
            raise InputError(f"gradient must have the parameters {list(parameters)}; found {list(gradient)}")
        listed = [gradient[name] for name in parameters]
    elif isinstance(gradient, torch.Tensor):
        if gradient.shape != (size,):
            raise InputError(f"gradient must have shape [{size}] if it is one tensor; found {list(gradient.shape)}")
        listed = list(torch.split(gradient, [value.numel() for value in parameters.values()]))
    else:
        listed = list(gradient)
    if len(listed) != len(parameters):
        raise InputError(f"gradient must have a tensor for each of {len(parameters)} parameters; found {len(listed)}")
    parts = {}
    for (name, value), part in zip(parameters.items(), listed, strict=True):
        part_tensor = torch.zeros_like(value) if part is None else torch.as_tensor(part)
        if part_tensor.numel() != value.numel():
            raise InputError(f"gradient of {name} must have shape {list(value.shape)}; found {list(part_tensor.shape)}")
        parts[name] = part_tensor.detach().to(device="cpu", dtype=torch.float64).reshape(value.shape)
        if not torch.isfinite(parts[name]).all():
            raise InputError(f"gradient must be finite; that of {name} is not")
    if not any(part.any() for part in parts.values()):
        raise InputError("gradient must not be zero everywhere; it is, and reveals nothing")
    return parts
