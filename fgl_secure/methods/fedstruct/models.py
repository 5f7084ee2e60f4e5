"""The two models of FedStruct (ICLR 2025, Eq. 6 to 10): f of own features and edges, g of structure features.

The public code puts a LayerNorm on the input of both. Rows that never change are normalised once and kept sparse: a
product with them costs what their non-zero entries cost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import normalised_adjacency
from fgl_secure.methods.fedstruct.presets import FeatureModelKind, FedStructPreset
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.sparse_products import MOST_DENSE, SparseMatrix

EPSILON = 1e-5
"""Added to the variance, as torch's LayerNorm does."""


class Rows(ABC):
    """One row of inputs a node."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of inputs of a node."""

    @abstractmethod
    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer `linear` of the rows under `norm`: float [n, d_out]."""


class FixedRows(Rows):
    """Rows that never change.

    With x^ the standardised rows, LayerNorm and layer are (x^ * gain + shift) W + b = x^ (gain * W) + shift W + b.

    Args:
        rows: [n, d].
        device: where model compute runs.
    """

    def __init__(self, rows: NDArray[np.float32], device: torch.device) -> None:
        values = rows.astype(np.float64)
        mean, scale = values.mean(axis=1, keepdims=True), 1 / np.sqrt(values.var(axis=1, keepdims=True) + EPSILON)
        self._width = int(rows.shape[1])
        self._matrix: SparseMatrix | None = None
        if np.count_nonzero(rows) <= MOST_DENSE * rows.size:
            self._matrix = SparseMatrix(sparse.csr_array(values * scale), device)
            self._offset = torch.from_numpy((-mean * scale).astype(np.float32)).to(device)
        else:
            self._dense = torch.from_numpy(((values - mean) * scale).astype(np.float32)).to(device)

    @property
    def width(self) -> int:
        """The number of inputs of a node."""
        return self._width

    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer of the normalised rows."""
        weight = norm.weight[:, None] * linear.weight.T
        shift = functional.linear(norm.bias, linear.weight, linear.bias)
        if self._matrix is None:
            return self._dense @ weight + shift
        return self._matrix(weight) + self._offset * weight.sum(dim=0) + shift


class LearntRows(Rows):
    """Rows that training changes: Hop2Vec's structure features (section 5.5).

    Args:
        values: float [n, d], a leaf that wants gradients.
    """

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @property
    def width(self) -> int:
        """The number of inputs of a node."""
        return int(self.values.shape[1])

    def product(self, norm: nn.LayerNorm, linear: nn.Linear) -> torch.Tensor:
        """The layer of the normalised rows."""
        return cast("torch.Tensor", linear(norm(self.values)))


class NodeModel(nn.Module, ABC):
    """From rows to one output a class and node."""

    @abstractmethod
    def forward(self, rows: Rows, dropout: Dropout) -> torch.Tensor:
        """The outputs, float [n, classes]; units are dropped in training mode alone."""


class Perceptron(NodeModel):
    """LayerNorm, then linear layers with ReLU and dropout between them.

    Args:
        widths: of the input, of the hidden layers and of the output.
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(widths[0], eps=EPSILON)
        self.layers = nn.ModuleList(nn.Linear(d_in, d_out) for d_in, d_out in pairwise(widths))

    def forward(self, rows: Rows, dropout: Dropout) -> torch.Tensor:
        """The outputs, float [n, d_out]."""
        hidden = rows.product(self.norm, cast("nn.Linear", self.layers[0]))
        for layer in self.layers[1:]:
            hidden = layer(dropout(torch.relu(hidden), training=self.training))
        return hidden


class DecoupledGCN(NodeModel):
    """A perceptron whose outputs are multiplied by D^-1 (A + I) of the local edges, `hops` times.

    Args:
        widths: of the perceptron.
        local: the normalised local adjacency.
        hops: how often.
    """

    def __init__(self, widths: tuple[int, ...], local: SparseMatrix, hops: int) -> None:
        super().__init__()
        self.perceptron = Perceptron(widths)
        self._local, self._hops = local, hops

    def forward(self, rows: Rows, dropout: Dropout) -> torch.Tensor:
        """The outputs, float [n, classes]."""
        outputs: torch.Tensor = self.perceptron(rows, dropout)
        for _ in range(self._hops):
            outputs = self._local(outputs)
        return outputs


class SageLayer(nn.Module):
    """W_own h + W_neighbours mean(h of the neighbours) + b (Hamilton et al. 2017); no neighbours have mean 0."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own = nn.Linear(d_in, d_out, bias=False)
        self.neighbours = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.empty(d_out).uniform_(-(d_in**-0.5), d_in**-0.5))


class Sage(NodeModel):
    """LayerNorm, GraphSAGE layers with ReLU and dropout between them, and a linear layer.

    Args:
        widths: of the input and of every GraphSAGE layer.
        classes: outputs.
        mean: the matrix that takes means over neighbours.
    """

    def __init__(self, widths: tuple[int, ...], classes: int, mean: SparseMatrix) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(widths[0], eps=EPSILON)
        self.layers = nn.ModuleList(SageLayer(d_in, d_out) for d_in, d_out in pairwise(widths))
        self.head = nn.Linear(widths[-1], classes)
        self._mean = mean

    def forward(self, rows: Rows, dropout: Dropout) -> torch.Tensor:
        """The outputs, float [n, classes]."""
        first = cast("SageLayer", self.layers[0])
        told = rows.product(self.norm, first.neighbours)
        hidden = rows.product(self.norm, first.own) + self._mean(told) + first.bias
        for each in self.layers[1:]:
            layer = cast("SageLayer", each)
            hidden = dropout(torch.relu(hidden), training=self.training)
            hidden = layer.own(hidden) + self._mean(layer.neighbours(hidden)) + layer.bias
        return cast("torch.Tensor", self.head(hidden))


def feature_model(
    graph: FederatedGraph, preset: FedStructPreset, device: torch.device, classes: int | None = None
) -> NodeModel:
    """The model f of a preset on the local edges of all clients; draws initial weights from torch's generator.

    Args:
        graph: who has what.
        preset: which kind of model.
        device: where it lives.
        classes: outputs; None takes as many as the graph has, which may be a part of it.
    """
    local = graph.restricted_to_silos()
    features, classes = graph.graph.num_features, graph.num_classes if classes is None else classes
    perceptron = (features, *preset.feature_hidden, classes)
    if preset.feature_model is FeatureModelKind.SAGE:
        return Sage((features, *preset.sage_widths), classes, SparseMatrix(neighbour_means(local), device)).to(device)
    hops = preset.feature_hops if preset.feature_model is FeatureModelKind.DGCN else 0
    adjacency = normalised_adjacency(local.graph)
    if preset.forgotten_loops:
        adjacency = without_last_loops(adjacency, local)
    return DecoupledGCN(perceptron, SparseMatrix(adjacency, device), hops).to(device)


def without_last_loops(adjacency: sparse.csr_array, local: FederatedGraph) -> sparse.csr_array:
    """The local adjacency without the loops of each client's nodes that come after its last node with an edge.

    The public code has self-loops added without saying how many nodes there are, so that they end with the last node
    that an edge within the client names. Later nodes get an empty row, and f(v) = 0.

    Args:
        adjacency: D^-1 (A + I) of the local edges.
        local: the graph with local edges alone.
    """
    joined = np.unique(local.edges)
    last = np.full(local.num_silos, -1, dtype=np.int64)
    np.maximum.at(last, local.silo_of[joined], joined)
    kept = np.arange(local.num_devices) <= last[local.silo_of]
    return sparse.csr_array(sparse.diags_array(kept.astype(np.float64)) @ adjacency)


def neighbour_means(graph: FederatedGraph) -> sparse.csr_array:
    """The matrix [n, n] that takes, for every node, the mean over the sources of the edges that end in it."""
    source, target = graph.edges
    values = 1 / np.maximum(graph.in_degree, 1)[target]
    return sparse.csr_array((values, (target, source)), shape=(graph.num_devices, graph.num_devices))
