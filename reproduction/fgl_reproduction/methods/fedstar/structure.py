"""The structure of FedStar: what is known of a node from edges alone, and the encoder that clients share.

Features of a node v are [RWSE, DSE] (section 4.1): how likely a random walk from v is back after 1, 2, ... steps, and
its degree, one-hot. They look at no feature and no label, so that an encoder of them fits every client alike.
"""

from __future__ import annotations

from math import sqrt
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from fgl_secure.graph.structure_features import walk_returns


def structure_rows(nodes: int, edges: NDArray[np.int64], walks: int, degrees: int) -> NDArray[np.float32]:
    """Random-walk and degree features of all nodes of a graph.

    Args:
        nodes: how many there are, n.
        edges: int64 [2, m], sources above targets; a walk and a degree are of outgoing edges.
        walks: the longest walk, in steps; one of a node without edges is nowhere, and never back.
        degrees: columns of the degree: the last one stands for so many neighbours or more, the first for one or none.

    Returns:
        float32 [n, walks + degrees].
    """
    adjacency = sparse.csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(nodes, nodes))
    degree = np.asarray(adjacency.sum(axis=1))
    symmetric = (adjacency != adjacency.T).nnz == 0
    scale = sparse.diags_array(np.divide(1, degree, out=np.zeros(nodes), where=degree > 0) ** (0.5 if symmetric else 1))
    step = sparse.csr_array(scale @ adjacency @ scale if symmetric else scale @ adjacency)
    one_hot = np.eye(degrees)[np.clip(degree.astype(np.int64), 1, degrees) - 1]
    return np.concatenate([walk_returns(step, walks, symmetric=symmetric), one_hot], axis=1).astype(np.float32)


class MatrixProduct(Protocol):
    """A matrix that never changes, from the left: see `fgl_secure.training.node_models.Matrix`."""

    def __matmul__(self, values: torch.Tensor) -> torch.Tensor:
        """The product, differentiable in the values."""


class StructureAffine(nn.Module):
    """x W + b with PyTorch's usual initial distribution, drawn from a generator.

    Attributes:
        weight: W, float32 [inputs, outputs].
        bias: b, float32 [outputs].
    """

    def __init__(self, inputs: int, outputs: int, coins: torch.Generator) -> None:
        super().__init__()
        edge = 1 / sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-edge, edge, generator=coins))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-edge, edge, generator=coins))

    def forward(self, values: torch.Tensor | MatrixProduct) -> torch.Tensor:
        """From [n, inputs] to [n, outputs]."""
        result: torch.Tensor = values @ self.weight + self.bias
        return result


class StructureEncoder(nn.Module):
    """A linear map of structure features, and graph convolutions with tanh: what the server averages (section 4.2).

    Args:
        inputs: columns of the features.
        hidden: width.
        layers: convolutions.
        coins: draw the initial weights.
    """

    def __init__(self, inputs: int, hidden: int, layers: int, coins: torch.Generator) -> None:
        super().__init__()
        self.embedding = StructureAffine(inputs, hidden, coins)
        self.convolutions = nn.ModuleList(StructureAffine(hidden, hidden, coins) for _ in range(layers))

    def forward(self, rows: torch.Tensor, neighbours: MatrixProduct) -> list[torch.Tensor]:
        """What each layer makes of a graph.

        Args:
            rows: float32 [n, inputs].
            neighbours: D^-1/2 (A + I) D^-1/2, with D the degrees of A + I.

        Returns:
            layers + 1 times float [n, hidden], the embedding first.
        """
        result = [self.embedding(rows)]
        for convolution in self.convolutions:
            assert isinstance(convolution, StructureAffine)
            result.append(torch.tanh(neighbours @ (result[-1] @ convolution.weight) + convolution.bias))
        return result
