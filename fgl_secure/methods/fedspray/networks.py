"""A client's subgraph, its personal graph neural network of two layers or two hops, and the global encoder."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import SparseMatrix
from fgl_secure.typing import Ids

Product = Callable[[torch.Tensor], torch.Tensor]
"""A product with a fixed matrix [n, m], differentiable: from [m, c] to [n, c]."""

DENSE = 0.3
"""Share of nonzero entries from which a matrix is laid out in full."""


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """What one client has; edges to other clients are lost.

    Attributes:
        members: int64 [m], its nodes in the whole graph, ascending.
        features: the product with X [m, d].
        labelled_features: the product with the rows of X of labelled nodes [t, d].
        convolution: the product with D~^-1/2 (A + I) D~^-1/2 [m, m] (Kipf and Welling 2017).
        neighbour_mean: the product with D^-1 A [m, m] (Hamilton et al. 2017); a row of zeros for an isolated node.
        labels: int64 [m].
        labelled: int64 [t], places of its labelled nodes.
        validation: int64 [v], places of its validation nodes.
        counts: int64 [C], how many of its labelled nodes are of each class.
    """

    members: Ids
    features: Product
    labelled_features: Product
    convolution: Product
    neighbour_mean: Product
    labels: torch.Tensor
    labelled: torch.Tensor
    validation: torch.Tensor
    counts: Ids

    @classmethod
    def of(cls, silo: Silo, device: torch.device) -> Subgraph:
        """What a client holds.

        Raises:
            InputError: it has no labelled node.
        """
        if not silo.train.any():
            raise InputError(f"masks.train must mark at least one node of every client; client {silo.silo} has none")
        labelled, features, adjacency = np.flatnonzero(silo.train), sparse.csr_array(silo.features), _adjacency(silo)
        counts = np.bincount(silo.labels[labelled], minlength=silo.facts.classes)
        return cls(
            silo.nodes,
            product(features, device),
            product(features[labelled], device),
            product(_convolution(adjacency), device),
            product(_neighbour_mean(adjacency), device),
            torch.tensor(silo.labels, device=device),
            torch.tensor(labelled, device=device),
            torch.tensor(np.flatnonzero(silo.validation), device=device),
            counts.astype(np.int64),
        )

    @property
    def labelled_labels(self) -> torch.Tensor:
        """Int64 [t], the labels that train."""
        return self.labels[self.labelled]


def product(matrix: sparse.csr_array, device: torch.device) -> Product:
    """The product with a matrix, sparse or in full, whichever is faster."""
    rows, columns = matrix.shape
    if matrix.nnz >= DENSE * rows * columns:
        full = torch.tensor(matrix.toarray(), dtype=torch.float32, device=device)
        return lambda values: full @ values
    return SparseMatrix(matrix, device)


def _adjacency(silo: Silo) -> sparse.csr_array:
    """Row v has a one for every neighbour whose messages v gets."""
    source, target = silo.local(silo.edges[:, np.logical_and(*silo.inside)])
    size = len(silo.nodes)
    return sparse.csr_array((np.ones(len(source)), (target, source)), shape=(size, size))


def _convolution(adjacency: sparse.csr_array) -> sparse.csr_array:
    looped = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0]))
    scale = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return sparse.csr_array(scale @ looped @ scale)


def _neighbour_mean(adjacency: sparse.csr_array) -> sparse.csr_array:
    degrees = adjacency.sum(axis=1)
    return sparse.csr_array(sparse.diags_array(1 / np.maximum(degrees, 1)) @ adjacency)


class ProxyAffine(nn.Module):
    """The map x W + b.

    `torch.nn.Linear` keeps the transpose of W, which a sparse product would copy in every step.

    Args:
        features: rows of W.
        outputs: columns of W.

    Attributes:
        weight: W, float32 [features, outputs]; zeros until drawn.
        bias: b, float32 [outputs]; zeros until drawn.
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 [m, features] to [m, outputs]."""
        return torch.addmm(self.bias, x, self.weight)


class ProxyEncoder(nn.Module):
    """An embedding of features, a classifier on embedding plus proxy, and a projector on the embedding alone.

    One layer each (section 5.1.3).

    Args:
        features: input width.
        width: of embeddings and proxies.
        classes: number of classes.
    """

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = ProxyAffine(features, width)
        self.classifier = ProxyAffine(width, classes)
        self.projector = ProxyAffine(width, classes)

    def embed(self, features: Product) -> torch.Tensor:
        """Embeddings e = relu(X W_e + b_e), float32 [m, width]."""
        return functional.relu(features(self.embedding.weight) + self.embedding.bias)

    def classify(self, embeddings: torch.Tensor, proxies: torch.Tensor) -> torch.Tensor:
        """Logits of p_i = g_p(e_i + s_i) (Eq. 9), float32 [m, C]."""
        logits: torch.Tensor = self.classifier(embeddings + proxies)
        return logits

    def project(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Logits of q_i = g_q(e_i) (Eq. 10), float32 [m, C]."""
        logits: torch.Tensor = self.projector(embeddings)
        return logits


@torch.no_grad()
def draw_encoder(encoder: ProxyEncoder, draws: torch.Generator) -> None:
    """Draws all weights and biases uniformly within one over the root of a layer's output width."""
    for layer in (encoder.embedding, encoder.classifier, encoder.projector):
        most = 1 / math.sqrt(layer.weight.shape[1])
        for parameter in layer.parameters():
            parameter.copy_(torch.empty(parameter.shape).uniform_(-most, most, generator=draws))


class ClassNetwork(nn.Module, ABC):
    """Class scores from features and edges."""

    @abstractmethod
    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """Of all nodes of a client, float32 [m, C]."""


class GCN(ClassNetwork):
    """Two graph convolutions (Kipf and Welling 2017).

    Args:
        features: input width.
        hidden: width between the layers.
        classes: output width.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = ProxyAffine(features, hidden)
        self.second = ProxyAffine(hidden, classes)

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """A^ relu(A^ X W_1 + b_1) W_2 + b_2."""
        h = functional.relu(subgraph.convolution(subgraph.features(self.first.weight)) + self.first.bias)
        return subgraph.convolution(h @ self.second.weight) + self.second.bias


class SGC(ClassNetwork):
    """One linear map of features that are averaged over k hops (Wu et al. 2019); it has no hidden layer.

    Args:
        features: input width.
        hidden: of no account.
        classes: output width.

    Attributes:
        propagations: k.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:  # noqa: ARG002  # as the others are made
        super().__init__()
        self.only, self.propagations = ProxyAffine(features, classes), 2

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """A^^k X W + b."""
        rows = subgraph.features(self.only.weight)
        for _ in range(self.propagations):
            rows = subgraph.convolution(rows)
        return rows + self.only.bias


class GraphSAGE(ClassNetwork):
    """Two layers with mean aggregation (Hamilton et al. 2017).

    Args:
        features: input width.
        hidden: width between the layers.
        classes: output width.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first_neighbours = ProxyAffine(features, hidden)
        self.first_own = nn.Parameter(torch.zeros(features, hidden))
        self.second_neighbours = ProxyAffine(hidden, classes)
        self.second_own = nn.Parameter(torch.zeros(hidden, classes))

    def scores(self, subgraph: Subgraph) -> torch.Tensor:
        """In each layer the mean of the neighbours and the own row, each by a map of its own."""
        both = torch.cat([self.first_neighbours.weight, self.first_own], dim=1)
        neighbours, self_rows = subgraph.features(both).chunk(2, dim=1)
        h = functional.relu(subgraph.neighbour_mean(neighbours) + self_rows + self.first_neighbours.bias)
        sums = subgraph.neighbour_mean(h @ self.second_neighbours.weight)
        return sums + h @ self.second_own + self.second_neighbours.bias


MakeNetwork = Callable[[int, int, int], ClassNetwork]

NETWORKS: Mapping[str, MakeNetwork] = MappingProxyType({"gcn": GCN, "sgc": SGC, "sage": GraphSAGE})


@torch.no_grad()
def draw_weights(module: nn.Module, draws: torch.Generator, uniform: bool) -> None:
    """Draws all weights anew.

    Args:
        module: whose.
        draws: on the CPU; where the module lives makes no difference.
        uniform: whether every entry is uniform in [0, 1), biases too; otherwise matrices are Glorot's and biases 0.
    """
    for parameter in module.parameters():
        fresh = torch.empty(parameter.shape)
        if uniform:
            fresh.uniform_(0, 1, generator=draws)
        elif parameter.ndim > 1:
            nn.init.xavier_uniform_(fresh, generator=draws)
        else:
            fresh.zero_()
        parameter.copy_(fresh)
