"""One client's subgraph, as its models compute on it: sparse products that are set up once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

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
