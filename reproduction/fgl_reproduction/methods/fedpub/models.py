"""The model of FED-PUB: graph convolutions whose weights are masked entry by entry; and the public random graph."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.node_models import Matrix, NodeModel, Propagation, Surroundings, degree_weights

BLOCKS, BLOCK, INSIDE = 5, 100, 0.1
"""Of the public random graph: blocks, nodes of a block, and the chance of an edge inside one; none is between them."""
PUBLIC = 2
"""Tells draws of the public graph from others of the same seed."""


class MaskedGCN(NodeModel):
    """Two graph convolutions and a linear layer, with ReLU and dropout between them; each weight has a mask.

    Args:
        widths: of the input, of the hidden layers and of the output.
        pruned: entries of masks below this magnitude are 0, but in training.
        coins: draw the initial weights; masks start at 1.
    """

    def __init__(self, widths: tuple[int, int, int], pruned: float, coins: torch.Generator) -> None:
        super().__init__()
        first, hidden, last = widths
        shapes = list(pairwise((first, hidden, hidden, last)))
        self.weights = nn.ParameterList(
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape), generator=coins)) for shape in shapes
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _, width in shapes)
        self.masks = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in shapes)
        self._pruned = pruned

    def hidden_embeddings(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """What comes out of the second convolution, float [n, hidden]."""
        rows = torch.relu(graph.neighbours @ (graph.rows @ self._weight(0)) + self.biases[0])
        rows = dropout(rows, training=self.training)
        second: torch.Tensor = graph.neighbours @ (rows @ self._weight(1)) + self.biases[1]
        return second

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """The scores, float [n, classes]."""
        rows = dropout(torch.relu(self.hidden_embeddings(graph, dropout)), training=self.training)
        scores: torch.Tensor = rows @ self._weight(2) + self.biases[2]
        return scores

    def _weight(self, layer: int) -> torch.Tensor:
        weight: torch.Tensor = self.weights[layer]
        mask: torch.Tensor = self.masks[layer]
        return weight * (mask if self.training else mask.masked_fill(mask.abs() < self._pruned, 0.0))

    @property
    def shared_parameters(self) -> list[torch.Tensor]:
        """What is averaged: weights and biases, and no mask."""
        return [*self.weights, *self.biases]

    @property
    def sparsity(self) -> float:
        """The share of the masks' entries that are pruned."""
        with torch.no_grad():
            marks = torch.cat([(mask.abs() < self._pruned).reshape(-1) for mask in self.masks])
        return float(marks.float().mean())


def own_surroundings(
    features: NDArray[np.float32], edges: NDArray[np.int64], device: torch.device | None = None
) -> Surroundings:
    """Rows and D^-1/2 (A + I) D^-1/2 of a graph by itself.

    Args:
        features: float32 [n, d].
        edges: int64 [2, m], sources above targets.
        device: where products are computed.
    """
    source, target = edges
    degree = np.bincount(target, minlength=len(features)).astype(np.float64)
    weights = degree_weights(source, target, np.ones(len(source)), degree, Propagation.SYMMETRIC)
    return Surroundings(Matrix(sparse.csr_array(features), device), Matrix(weights, device))


def public_graph(width: int, seed: int, device: torch.device | None = None) -> Surroundings:
    """The random graph that all models are fed: blocks with edges inside, and normal features.

    Args:
        width: columns of the features.
        seed: of edges and features; public.
        device: where products are computed.
    """
    network = nx.random_partition_graph([BLOCK] * BLOCKS, INSIDE, 0.0, seed=seed)
    pairs = np.array(network.edges, dtype=np.int64).reshape(-1, 2).T
    features = np.random.default_rng((seed, PUBLIC)).normal(size=(BLOCK * BLOCKS, width)).astype(np.float32)
    return own_surroundings(features, np.concatenate([pairs, pairs[::-1]], axis=1), device)
