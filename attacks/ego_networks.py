"""Ego networks: how many neighbours and triangles a node has, and how many neighbours those have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ids = NDArray[np.int64]


def undirected(edges: Ids, size: int) -> sparse.csr_array:
    """Edges int64 [2, m] in whatever direction as a 0/1 matrix [size, size] without a diagonal."""
    source, target = edges[:, edges[0] != edges[1]]
    rows, columns = np.concatenate([source, target]), np.concatenate([target, source])
    matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(size, size))
    matrix.data[:] = 1
    return matrix


def ego_networks(adjacency: sparse.csr_array, degrees: Ids | None = None) -> tuple[Ids, Ids]:
    """Degree and ego network of each node: its triangles, and the sorted degrees of its neighbours.

    Args:
        adjacency: 0/1 [n, n], symmetric, without a diagonal.
        degrees: int64 [n], what is taken for the degrees of neighbours; None counts them.

    Returns:
        int64 [n] degrees, and int64 [n] names of ego networks: 64-bit words that are equal where these are, and
        differ elsewhere but with probability 2^-64.
    """
    counted = np.asarray(adjacency.sum(axis=1), dtype=np.int64)
    triangles = np.asarray((adjacency @ adjacency).multiply(adjacency).sum(axis=1), dtype=np.int64) // 2
    around = adjacency.astype(np.uint64) @ degree_words(counted if degrees is None else degrees)
    return counted, (around + degree_words(~triangles)).view(np.int64)


def neighbour_degrees(adjacency: sparse.csr_array) -> Ids:
    """Names of the sorted degrees of each node's neighbours, int64 [n]: the sum of their `degree_words`.

    Args:
        adjacency: 0/1 [n, n], symmetric, without a diagonal.
    """
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.int64)
    return np.asarray((adjacency.astype(np.uint64) @ degree_words(degrees)).view(np.int64))


def degree_words(numbers: Ids) -> NDArray[np.uint64]:
    """A fixed random 64-bit word for each whole number (SplitMix64, Steele et al. 2014)."""
    z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
