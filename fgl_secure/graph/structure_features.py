"""What is known of a node from the edges around it alone: the structure features of FedStruct (ICLR 2025, appendix A).

All of them are functions of a graph's edges, its features and labels are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.adjacency_powers import looped_adjacency, normalised_adjacency
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graphlets import graphlet_degrees
from fgl_secure.graph.node2vec import Node2VecSettings, node2vec
from fgl_secure.graph.split import seeded_generator

_BLOCK = 32
"""Columns that are multiplied at once: n times this many float64 are in memory, and never n times n."""


def return_probabilities(graph: Graph, steps: int) -> NDArray[np.float64]:
    """The diagonals of the powers 1 to `steps` of A^ = D^-1 (A + I) (FedStruct, ICLR 2025, appendix A).

    Args:
        graph: The graph, n nodes; the walk follows the direction of edges.
        steps: The highest power, at least 1.

    Returns:
        float64 [n, steps] in [0, 1].

    Raises:
        InputError: `steps` is below 1.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1; found {steps}")
    matrix = _symmetric_matrix(graph) if graph.is_symmetric else normalised_adjacency(graph)
    return walk_returns(matrix, steps, symmetric=graph.is_symmetric)


def walk_returns(matrix: sparse.csr_array, steps: int, *, symmetric: bool) -> NDArray[np.float64]:
    """The diagonals of the powers 1 to `steps` of a matrix [n, n], float64 [n, steps].

    Args:
        matrix: of a step of the walk, or one with the same diagonals.
        steps: the highest power, at least 1.
        symmetric: whether it equals its transpose, which saves half the products.
    """
    diagonals, count = _symmetric_diagonals if symmetric else _diagonals, matrix.shape[0]
    found = np.empty((count, steps))
    for start in range(0, count, _BLOCK):
        nodes = np.arange(start, min(start + _BLOCK, count))
        found[nodes] = diagonals(matrix, nodes, steps)
    return found


def _symmetric_matrix(graph: Graph) -> sparse.csr_array:
    """D^-1/2 (A + I) D^-1/2, whose powers have the same diagonals as those of D^-1 (A + I)."""
    looped = looped_adjacency(graph)
    root = sparse.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    return sparse.csr_array(root @ looped @ root)


def _unit_columns(nodes: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    columns = np.zeros((n, len(nodes)))
    columns[nodes, np.arange(len(nodes))] = 1
    return columns


def _diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """Entries (v, v) of the powers for the given nodes, float64 [nodes, steps]."""
    columns = _unit_columns(nodes, matrix.shape[0])
    found = np.empty((len(nodes), steps))
    for step in range(steps):
        columns = matrix @ columns
        found[:, step] = columns[nodes, np.arange(len(nodes))]
    return found


def _symmetric_diagonals(matrix: sparse.csr_array, nodes: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """The same for a symmetric N, with half the multiplications: entry (v, v) of N^(s+t) is N^s e_v times N^t e_v."""
    before = _unit_columns(nodes, matrix.shape[0])
    found = np.empty((len(nodes), steps))
    for step in range(0, steps, 2):
        columns = matrix @ before
        found[:, step] = np.einsum("ij,ij->j", before, columns)
        if step + 1 < steps:
            found[:, step + 1] = np.einsum("ij,ij->j", columns, columns)
        before = columns
    return found


_FEDSTAR_STEPS = 50
"""The random walk's share of FedStar features, in steps, as in FedStruct's public code."""

_HOP2VEC_DEVIATION = 0.05

LEARNT = "hop2vec"
"""Name of the features that training changes; the others are fixed."""

_StructureFeatures = Callable[[Graph, int, int], NDArray[np.float32]]


def one_hot_degree(graph: Graph, largest: int) -> NDArray[np.float32]:
    """Say the degree of each node in a vector with a single 1, at the degree.

    A node that is joined to others in one direction only counts those half, and halves are rounded to the even number,
    as in FedStruct's public code; in an undirected graph that is the degree.

    Args:
        graph: The graph, n nodes.
        largest: All degrees from here on share the last column; at least 1.

    Returns:
        float32 [n, largest + 1].

    Raises:
        InputError: `largest` is below 1.
    """
    if largest < 1:
        raise InputError(f"largest must be at least 1; found {largest}")
    out_degree = np.bincount(graph.edges[0], minlength=graph.num_nodes)
    degree = np.rint((out_degree + graph.in_degree) / 2).astype(np.int64)
    encoded = np.zeros((graph.num_nodes, largest + 1), dtype=np.float32)
    encoded[np.arange(graph.num_nodes), np.minimum(degree, largest)] = 1
    return encoded


def fedstar_features(graph: Graph, steps: int, largest: int | None = None) -> NDArray[np.float32]:
    """Return probabilities of a random walk beside the one-hot degree: the features of FedStar (AAAI 2023).

    The walk is the one of FedStruct, by D^-1 (A + I) and so with a loop at every node, in place of FedStar's own.

    Args:
        graph: The graph, n nodes.
        steps: The longest walk, at least 1.
        largest: As in `one_hot_degree`; None leaves the degree out.

    Returns:
        float32 [n, steps], or [n, steps + largest + 1] with the degree.

    Raises:
        InputError: `steps` or `largest` is below 1.
    """
    walk = return_probabilities(graph, steps).astype(np.float32)
    return walk if largest is None else np.concatenate([walk, one_hot_degree(graph, largest)], axis=1)


def hop2vec_start(n: int, d: int, seed: int) -> NDArray[np.float32]:
    """Draw the features that Hop2Vec starts from and then learns: float32 [n, d] from N(0, 0.05^2).

    Raises:
        InputError: `n` or `d` is below 1, or `seed` is negative.
    """
    if min(n, d) < 1:
        raise InputError(f"n and d must be at least 1; found {n} and {d}")
    return seeded_generator(seed).normal(0.0, _HOP2VEC_DEVIATION, size=(n, d)).astype(np.float32)


def standardised(features: NDArray[Any]) -> NDArray[np.float32]:
    """Shift and scale each column to mean 0 and variance 1: float32 [n, d]; a constant column becomes 0."""
    centred = features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)
    deviation = centred.std(axis=0)
    scaled: NDArray[np.float32] = (centred / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)
    return scaled


def _fedstar(graph: Graph, width: int, _seed: int) -> NDArray[np.float32]:
    if width < _FEDSTAR_STEPS + 2:
        raise InputError(f"width must be at least {_FEDSTAR_STEPS + 2} for fedstar; found {width}")
    return fedstar_features(graph, _FEDSTAR_STEPS, width - _FEDSTAR_STEPS - 1)


STRUCTURE_FEATURES: Mapping[str, _StructureFeatures] = MappingProxyType(
    {
        LEARNT: lambda graph, width, seed: hop2vec_start(graph.num_nodes, width, seed),
        "degree": lambda graph, width, _seed: one_hot_degree(graph, width - 1),
        "graphlet": lambda graph, _width, _seed: standardised(graphlet_degrees(graph)),
        "fedstar": _fedstar,
        "node2vec": lambda graph, width, seed: node2vec(graph, Node2VecSettings(width=width), seed),
    }
)
"""By name, as FedStruct's experiments set them: a graph, the width d_s and a seed give float32 [n, d_s].

Graphlet features have 73 columns whatever the width; only `hop2vec` and `node2vec` draw anything.
"""


def structure_features(name: str, graph: Graph, width: int, seed: int) -> NDArray[np.float32]:
    """Compute the structure features of that name, as `STRUCTURE_FEATURES` says.

    Raises:
        UnknownNameError: There are no structure features of that name.
        InputError: `width` is too small for them, or `seed` is negative.
    """
    if name not in STRUCTURE_FEATURES:
        raise UnknownNameError("structure features", name, tuple(STRUCTURE_FEATURES))
    return STRUCTURE_FEATURES[name](graph, width, seed)
