"""Aggregation over neighbours as convolutions do it, for those who compute a model by themselves."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

Ids = NDArray[np.int64]


def propagated(rows: torch.Tensor, adjacency: torch.Tensor, *, mean: bool) -> torch.Tensor:
    """D^-1/2 (A + I) D^-1/2 rows, or the mean over neighbours; differentiable in both arguments.

    Args:
        rows: float [n, d].
        adjacency: float [n, n] without loops, entry [target, source]; or int64 [2, m], sources above targets.
        mean: whether to take the mean, which is 0 where there are no neighbours, and the own row does not count.
    """
    if adjacency.is_floating_point():
        return _dense(rows, adjacency, mean)
    source, target = adjacency
    degree = torch.zeros(len(rows), dtype=rows.dtype).index_add(0, target, rows.new_ones(len(target)))
    if mean:
        total = torch.zeros_like(rows).index_add(0, target, rows[source])
        return total / degree.clamp(min=1)[:, None]
    root = torch.rsqrt(degree + 1)[:, None]
    scaled = rows * root
    return root * scaled.index_add(0, target, scaled[source])


def _dense(rows: torch.Tensor, adjacency: torch.Tensor, mean: bool) -> torch.Tensor:
    degree = adjacency.sum(dim=1, keepdim=True)
    if mean:
        return adjacency @ rows / torch.where(degree > 0, degree, torch.ones_like(degree))
    root = torch.rsqrt(degree + 1)
    scaled = rows * root
    return root * (adjacency @ scaled + scaled)


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
